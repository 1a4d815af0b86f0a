"""What a measurement is given to search with: the arms its backbone has, a journal, and who hears of progress."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field

from visbench import console
from visbench.console import Advance
from visbench.journal import Journal
from visbench.searching import Arm

SHOWN = 64  # fits from which on progress is worth a line


@dataclass(frozen=True)
class Trials:
    """One backbone's search."""

    taps: frozenset[str]  # those that the backbone has
    journal: Journal = field(default_factory=Journal)
    subject: str = ""
    file: str | None = None  # the journal's name, as the record gives it

    def available(self, arms: Sequence[Arm]) -> list[Arm]:
        """The arms whose tap the backbone has."""
        return [arm for arm in arms if arm.what.tap in self.taps]

    def progress(self, fits: int) -> AbstractContextManager[Advance]:
        """Show how `fits` get on; a few are done at once and shown by nothing."""
        if fits < SHOWN:
            return nullcontext(lambda count: None)
        return console.progress("probing", self.subject, total=fits, unit="fits")
