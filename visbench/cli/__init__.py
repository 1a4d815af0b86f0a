"""The command line: sentences over library calls, imported when they run."""

from __future__ import annotations

from collections.abc import Sequence


def main(args: Sequence[str] | None = None) -> None:
    """Run `visbench` and exit: 0 done, 1 broken or stopped half-way, 2 a request that cannot be met."""
    from visbench.cli.app import app

    app.main(args)
