"""A group that knows its commands by import path and imports one when it is called."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any, NamedTuple

import click

from visbench.cli.common import Group


class Lazy(NamedTuple):
    """Where a command lives and what the list of commands says of it."""

    module: str
    attribute: str
    summary: str


class LazyGroup(Group):
    """Shows its help without importing any command."""

    def __init__(self, *args: Any, table: Mapping[str, Lazy], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.table = table

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the table's order: the way through the tool."""
        return [*self.table]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command."""
        if cmd_name not in self.table:
            return None
        module, attribute, _ = self.table[cmd_name]
        command: click.Command = getattr(import_module(module), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the table's own summaries."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in self.table.items()])
