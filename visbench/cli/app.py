"""The `visbench` group: its table of commands, and how a command ends.

Exit codes: 0 done; 1 something is broken, or the answer was no; 2 a request that cannot be met; 130 and 143
stopped by Ctrl-C and SIGTERM, after what was done is safe.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

from visbench import console
from visbench.cli.lazy import Lazy, LazyGroup
from visbench.errors import USER_ERRORS

INTERRUPTED, TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM

COMMANDS = {
    "run": Lazy("visbench.cli.run", "run", "Extract features and probe them: one task, any backbones."),
    "sweep": Lazy("visbench.cli.sweep", "sweep", "Try a grid of settings, layers and taps; score the best."),
    "suite": Lazy("visbench.cli.suite", "suite", "Run a whole evaluation that a file describes."),
    "show": Lazy("visbench.cli.show", "show", "Draw what a probe saw, should have said and said."),
    "extract": Lazy("visbench.cli.extract", "extract", "Only extract features into the store."),
    "probe": Lazy("visbench.cli.probe", "probe", "Only probe features that are stored."),
    "compare": Lazy("visbench.cli.compare", "compare", "Tell which of two is better; nothing is run."),
    "reproduce": Lazy(
        "visbench.cli.reproduce", "reproduce", "Run a record again and say whether it still holds."
    ),
    "board": Lazy("visbench.cli.board", "board", "Draw the boards of records; nothing is run."),
    "overview": Lazy(
        "visbench.cli.board", "overview", "Backbones × boards, with mean ranks; nothing is run."
    ),
    "export": Lazy("visbench.cli.export", "export", "Give records to spreadsheets, papers and pages."),
    "merge": Lazy("visbench.cli.merge", "merge", "Join results files into one."),
    "check": Lazy("visbench.cli.check", "check", "Look through a dataset before anything runs."),
    "demo": Lazy("visbench.cli.demo", "demo", "Two backbones on real pictures, offline, in a minute."),
    "list": Lazy("visbench.cli.info", "list_", "Name the backbones, probes, heads and tasks there are."),
    "cache": Lazy("visbench.cli.cache", "cache", "Look after the feature store."),
    "doctor": Lazy("visbench.cli.info", "doctor", "Check the installation and the machine."),
}


class App(LazyGroup):
    """Turns what goes wrong into one sentence and an exit code."""

    def main(
        self, args: Sequence[str] | None = None, prog_name: str | None = None, *rest: Any, **extra: Any
    ) -> NoReturn:
        """Run and exit."""
        console.reset()
        extra["standalone_mode"] = False
        try:
            with _terminable(), _plain_warnings():
                code = super().main(args, prog_name or "visbench", *rest, **extra)  # an int after ctx.exit
                if sys.stdout is not None:  # nobody may be there to read
                    sys.stdout.flush()
        except SystemExit as stop:
            if stop.code == TERMINATED:
                console.error("terminated; the same command goes on from what is stored")
            raise
        except Exception as error:  # including click's Abort, which Ctrl-C becomes
            code = _explain(error)
            if code is None:
                raise
        sys.exit(code)


@click.group("visbench", cls=App, table=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="visbench", prog_name="visbench", message="%(prog)s %(version)s")
def app() -> None:
    """Tell what a vision backbone encodes: features extracted once, probed many times.

    \b
    visbench demo
    visbench check photos/
    visbench run classification photos/ --backbone dinov2_vits14
    """


def _explain(error: Exception) -> int | None:
    """Say what went wrong and give the exit code; None for what nobody foresaw."""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    if isinstance(error, BrokenPipeError):  # the reader of stdout has left, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    said = _sentence(error)
    if said is None:
        return None
    if console.verbosity.debug:
        traceback.print_exception(error)
    message, code = said
    console.error(message)
    return code


def _sentence(error: Exception) -> tuple[str, int] | None:
    if isinstance(error, click.Abort):
        if isinstance(error.__context__, KeyboardInterrupt):
            return "interrupted; the same command goes on from what is stored", INTERRUPTED
        return "not confirmed; nothing was changed", 1
    if isinstance(error, click.ClickException):
        message = " ".join(error.format_message().split())
        ctx = getattr(error, "ctx", None)
        message = message[:1].lower() + message[1:]
        if ctx:
            message = f"{message.rstrip('.')}. `{ctx.command_path} --help` shows what it takes."
        return message, error.exit_code
    if isinstance(error, USER_ERRORS):
        return str(error), 2
    if isinstance(error, MemoryError) or "allocate memory" in str(error):  # as PyTorch says it
        return (
            "there is not enough memory for this; a smaller --image-size, --batch-size or --limit needs less",
            2,
        )
    if isinstance(error, OSError) and error.strerror:  # a full disk, a folder without permission
        return ": ".join(str(part) for part in (error.filename, error.strerror) if part), 1
    return None


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM unwinds the main thread, so that `finally` blocks commit what is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)  # once is enough: what follows is the tidying up
        raise SystemExit(TERMINATED)

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings as one line each; --debug says where they come from."""

    def show(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, *rest: Any, **named: Any
    ) -> None:
        console.warn(f"{message} ({filename}:{lineno})" if console.verbosity.debug else str(message))

    with warnings.catch_warnings():
        warnings.showwarning = show
        warnings.filterwarnings("ignore", "Image size .* exceeds limit")  # Pillow's: we have our own
        yield
