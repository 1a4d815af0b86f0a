"""Counted nouns in what a person reads."""

from __future__ import annotations


def counted(number: int, noun: str, plural: str | None = None) -> str:
    """`1 record`, `2,000 records`, `3 classes`; `plural` where neither s nor es makes it."""
    usual = f"{noun}es" if noun.endswith("s") else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural or usual}"
