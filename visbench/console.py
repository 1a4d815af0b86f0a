"""What a command says: results on stdout, everything else on stderr.

Progress is one line a stage with rate and time left on a terminal, and a plain line every few seconds
elsewhere.  `NO_COLOR` and `-q` are respected.
"""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import click

from extract.wording import counted

LINE_SECONDS = 5.0  # between lines where nobody watches a bar

Advance = Callable[[int], None]  # told how many more are done


@dataclass
class Verbosity:
    """How much is said on stderr; one for the process, set by -q, -v and --debug."""

    quiet: bool = False  # neither progress nor notes; warnings and errors remain
    verbose: bool = False
    debug: bool = False  # tracebacks


verbosity = Verbosity()


def reset() -> None:
    """Back to the usual loudness."""
    for name in vars(verbosity):
        setattr(verbosity, name, False)


def result(text: str) -> None:
    """A result, on stdout."""
    click.echo(text)


def note(text: str) -> None:
    """A line for the person who waits; silent under -q."""
    if not verbosity.quiet:
        click.echo(text, err=True)


def detail(text: str) -> None:
    """A line for the person who asked for more with -v."""
    if verbosity.verbose or verbosity.debug:
        click.echo(text, err=True)


def warn(text: str) -> None:
    """A warning; -q does not silence it."""
    _marked("warning:", "yellow", text)


def error(text: str) -> None:
    """Why there is no result."""
    _marked("error:", "red", text)


def styled(stream: IO[Any] | None) -> bool:
    """Whether `stream` shows bold and colour."""
    return _watched(stream) and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def _watched(stream: IO[Any] | None) -> bool:
    """Whether a terminal shows `stream`; where a caller has closed it there is none."""
    return stream is not None and stream.isatty()


def styled_out() -> bool:
    """Whether results go to a terminal that shows bold and colour."""
    return styled(sys.stdout)


def width() -> int | None:
    """Columns of the terminal that shows stdout; None for a file or pipe, where lines may be long."""
    return shutil.get_terminal_size().columns if _watched(sys.stdout) else None


@contextmanager
def progress(stage: str, subject: str = "", *, total: int, unit: str = "images") -> Iterator[Advance]:
    """Show how a stage gets on, as in `with progress("extracting", name, total=n) as advance:`; `unit` is a plural.

    `advance` may be called from any thread.
    """
    pace = _Pace(total, unit)
    title = "  ".join(filter(None, [stage, subject, counted(total, unit.removesuffix("s"), unit)]))
    if verbosity.quiet:
        yield pace.add
    elif _watched(sys.stderr):
        with _bar(title, pace) as advance:
            yield advance
    else:
        with _lines(title, pace) as advance:
            yield advance


class _Pace:
    """Counts what is done and how fast."""

    def __init__(self, total: int, unit: str) -> None:
        self.total, self.unit, self.done = total, unit, 0
        self.began = time.monotonic()
        self.lock = threading.Lock()

    def add(self, count: int) -> None:
        with self.lock:
            self.done += count

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.began

    @property
    def rate(self) -> str:
        each = self.done / max(self.seconds, 1e-9)
        return f"{each:.3g} {self.unit}/s" if each < 1000 else f"{each:,.0f} {self.unit}/s"

    @property
    def left(self) -> float:
        return self.seconds * (self.total - self.done) / max(self.done, 1)


@contextmanager
def _lines(title: str, pace: _Pace) -> Iterator[Advance]:
    told = pace.began

    def advance(count: int) -> None:
        nonlocal told
        pace.add(count)
        with pace.lock:
            due = pace.done < pace.total and time.monotonic() - told >= LINE_SECONDS
            told = time.monotonic() if due else told
        if due:
            note(f"{title}  {pace.done:,} done  {pace.rate}  {clock(pace.left)} left")

    yield advance
    note(f"{title}  {pace.rate}  done in {clock(pace.seconds)}")


@contextmanager
def _bar(title: str, pace: _Pace) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(20),
        TextColumn("{task.fields[rate]}", markup=False),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Progress(*columns, console=Console(stderr=True)) as bars:
        task = bars.add_task(title, total=pace.total, rate="")

        def advance(count: int) -> None:
            pace.add(count)
            bars.update(task, completed=pace.done, rate=pace.rate)

        yield advance


def clock(seconds: float) -> str:
    """`0:01:09`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}"


def duration(seconds: float) -> str:
    """`1.9 s`, `6 min`, `2 h 5 min`."""
    if seconds < 59.5:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"


def size(num_bytes: float) -> str:
    """`812 bytes`, `9 MB`, `41.2 GB`: three figures, powers of 1000."""
    for unit in ("bytes", "kB", "MB", "GB", "TB"):
        if num_bytes < 999.5:
            return f"{num_bytes:.3g} {unit}"
        num_bytes /= 1000
    return f"{num_bytes:,.0f} PB"


def _marked(mark: str, colour: str, text: str) -> None:
    mark = click.style(mark, fg=colour, bold=True) if styled(sys.stderr) else mark
    click.echo(f"{mark} {text}", err=True)
