"""What every command shares: -q, -v and --debug wherever they stand, --json, and help with a wrong name."""

from __future__ import annotations

import re
from typing import Any

import click

from visbench import console
from visbench.errors import UsageError, did_you_mean


def _louder(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value and param.name:  # a False here may follow a True before the sub-command
        setattr(console.verbosity, param.name, True)


def _flag(*names: str, help: str) -> click.Option:  # noqa: A002  (click's word)
    return click.Option(names, is_flag=True, expose_value=False, callback=_louder, help=help)


_VERBOSITY: list[click.Parameter] = [
    _flag("-q", "--quiet", help="Results, warnings and errors only."),
    _flag("-v", "--verbose", help="Say more."),
    _flag("--debug", help="Show tracebacks."),
]

json_option = click.option("--json", "as_json", is_flag=True, help="JSON on stdout instead of text.")
store_option = click.option(
    "--store",
    envvar="VISBENCH_STORE",
    metavar="PLACE",
    help="The feature store.  [default: the user's cache]",
)


class Command(click.Command):
    """A command that also takes -q, -v and --debug, and several numbers after --layers as after a comma."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Read `--layers 2 5 8 11` as `--layers 2,5,8,11`."""
        return super().parse_args(ctx, _joined(args))

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The command's own parameters, then the shared ones."""
        return [*super().get_params(ctx), *_VERBOSITY]


def _joined(args: list[str]) -> list[str]:
    """Whole numbers that follow a number of --layers belong to it."""
    joined: list[str] = []
    for word in args:
        several = len(joined) > 1 and joined[-2] in ("--layers", "--layer") and _WHOLE.fullmatch(joined[-1])
        if several and re.fullmatch(r"-?\d+", word):
            joined[-1] += f",{word}"
        else:
            joined.append(word)
    return joined


_WHOLE = re.compile(r"-?\d+(,-?\d+)*")


class Group(click.Group):
    """A group whose commands take -q, -v and --debug, and which suggests a name for a mistyped one."""

    command_class = Command
    group_class = type

    def __init__(self, *args: Any, noun: str = "command", listing: str | None = None, **kwargs: Any) -> None:
        """`noun` is what the sub-commands are, `listing` the command that names all of them."""
        super().__init__(*args, **kwargs)
        self.noun, self.listing = noun, listing

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """The group's own parameters, then the shared ones."""
        return [*super().get_params(ctx), *_VERBOSITY]

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order they were written down."""
        return [*self.commands]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Refuse an unknown name with the nearest known one."""
        if not ctx.resilient_parsing and self.get_command(ctx, args[0]) is None:
            listing = self.listing or f"{ctx.command_path} --help"
            raise UsageError(
                f'there is no {self.noun} "{args[0]}".{did_you_mean(args[0], self.list_commands(ctx))} '
                f"`{listing}` names all."
            )
        return super().resolve_command(ctx, args)
