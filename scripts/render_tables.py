"""Draws the tables of LEADERBOARD.md and README.md from the committed records; `--check` only compares.

python scripts/render_tables.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

from visbench import published

ROOT = Path(__file__).resolve().parent.parent
PAGES = ("LEADERBOARD.md", "README.md")


def main(check: bool) -> int:
    """How many pages differ from their records."""
    stale = 0
    for name in PAGES:
        differs = published.drift(ROOT / name)
        stale += bool(differs)
        if not check:
            published.write(ROOT / name)
        sys.stdout.write(
            f"{name} {'differs from its records' if differs and check else 'says what its records say'}\n"
        )
        sys.stdout.write(differs if check else "")
    return stale if check else 0


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
