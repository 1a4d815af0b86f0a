"""Counted nouns and lists of names in what a person reads."""

from __future__ import annotations

from collections.abc import Sequence


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 record`, `2,000 records`, `3 classes`; `plural` where neither s nor es makes it."""
    usual = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural or usual}"


def listed(names: Sequence[str], most: int) -> str:
    """The first few, and how many more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most:,} more" if len(names) > most else "")
