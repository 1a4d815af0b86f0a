"""Backbones × boards: every headline, mean ranks over the boards that all backbones stand on, and how boards agree.

A rank is the middle of the range that a board gives (rows that are not separable share it).  Ranks are averaged over
the boards of a task, then over tasks, so that a task with many boards weighs as one with a single board; and only over
boards that every row stands on, since a mean over other boards is another mean.  How alike two boards order the rows
is Spearman's rank correlation, of boards with at least four rows in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from visbench import layout
from visbench.board import Board, Entry
from visbench.board_text import number
from visbench.layout import Cell, Column
from visbench.record import DIGITS, row_key

LEVELS = ("high", "mid", "low")
LEAST = 4  # rows that two boards must share before their orders are compared: of three, half of all orders are alike


@dataclass(frozen=True)
class Line:
    """A backbone: its place on every board, None where it has none."""

    label: str
    scores: tuple[float | None, ...]
    ranks: tuple[str | None, ...]
    best: tuple[bool, ...]
    mean_rank: float | None  # over the common boards
    level_ranks: Mapping[str, float] = field(default_factory=dict)
    covered: int = 0  # boards it stands on


@dataclass(frozen=True)
class Overview:
    """Rows by mean rank; columns are boards."""

    names: tuple[str, ...]  # of the boards, short
    keys: tuple[str, ...]
    headlines: tuple[str, ...]
    better: tuple[str, ...]
    lines: tuple[Line, ...]
    common: tuple[str, ...]  # names of the boards that all stand on
    correlation: tuple[tuple[float | None, ...], ...]  # between boards

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)


def of(boards: Sequence[Board]) -> Overview:
    """The overview of some boards."""
    found: dict[str, list[Entry | None]] = {}
    for place, board in enumerate(boards):
        for entry in board.entries:
            found.setdefault(row_key(entry.record), [None] * len(boards))[place] = entry
    entries = list(found.values())
    ranked = [[_middle(entry) for entry in row] for row in entries]
    common = [place for place in range(len(boards)) if all(row[place] is not None for row in ranked)]
    lines = [_line(row, ranks, boards, common) for row, ranks in zip(entries, ranked, strict=True)]
    names = _names(boards)
    order = sorted(
        lines, key=lambda each: (each.mean_rank is None, each.mean_rank, -each.covered, each.label)
    )
    return Overview(
        tuple(names),
        tuple(board.key for board in boards),
        tuple(board.headline for board in boards),
        tuple(board.better for board in boards),
        tuple(order),
        tuple(names[place] for place in common),
        _correlations(boards, entries),
    )


def text(overview: Overview, *, width: int | None = None, styled: bool = False) -> str:
    """The table, turned on its side where it is too wide, and what the means are over."""
    columns, rows = _table(overview)
    said = layout.text(columns, rows, styled=styled)
    if width and layout.text_width(said) > width:
        columns, rows = _turned(columns, rows)
        said = layout.text(columns, rows, styled=styled)
    parts = [said, f" {caption(overview)}"]
    if correlated := _correlated(overview):
        parts += [
            f"\nrank correlation between boards (Spearman, of at least {LEAST} rows)",
            layout.text(*correlated),
        ]
    return "\n".join(parts)


def markdown(overview: Overview) -> str:
    """The same for a page."""
    columns, rows = _table(overview)
    if len(overview.names) > len(overview.lines):  # a page is higher than wide
        columns, rows = _turned(columns, rows)
    parts = [layout.markdown(columns, rows), layout.escaped(caption(overview))]
    if correlated := _correlated(overview):
        parts += [
            f"Rank correlation between boards (Spearman, of at least {LEAST} rows):",
            layout.markdown(*correlated),
        ]
    return "\n\n".join(parts) + "\n"


def caption(overview: Overview) -> str:
    """What the mean ranks are over."""
    total = len(overview.names)
    if len(overview.lines) < 2:
        return "one backbone alone has no rank"
    if not overview.common:
        return "no board has all of these backbones, so there is no mean rank; choose some with --backbone"
    return (
        f"mean rank over the {len(overview.common)} of {total} boards that all {len(overview.lines)} backbones stand "
        "on, tasks alike; bold is separably best"
    )


def _line(
    row: Sequence[Entry | None], ranks: Sequence[float | None], boards: Sequence[Board], common: Sequence[int]
) -> Line:
    label = next(entry.label for entry in row if entry is not None)
    scores = tuple(
        None if entry is None else entry.record.metrics.get(board.headline)
        for entry, board in zip(row, boards, strict=True)
    )
    by_level = {
        level: _mean(ranks, boards, [p for p in common if _level(boards[p]) == level]) for level in LEVELS
    }
    return Line(
        label,
        scores,
        tuple(None if entry is None else entry.rank for entry in row),
        tuple(entry is not None and entry is board.best for entry, board in zip(row, boards, strict=True)),
        _mean(ranks, boards, common),
        {level: mean for level, mean in by_level.items() if mean is not None},
        sum(entry is not None for entry in row),
    )


def _mean(ranks: Sequence[float | None], boards: Sequence[Board], places: Sequence[int]) -> float | None:
    """Over the boards of each task, then over tasks."""
    tasks: dict[str, list[float]] = {}
    for place in places:
        rank = ranks[place]
        assert rank is not None  # a common board
        tasks.setdefault(boards[place].entries[0].record.task, []).append(rank)
    return float(np.mean([np.mean(each) for each in tasks.values()])) if tasks else None


def _middle(entry: Entry | None) -> float | None:
    return None if entry is None or entry.ranks is None else sum(entry.ranks) / 2


def _level(board: Board) -> str | None:
    return board.entries[0].record.level


def _names(boards: Sequence[Board]) -> list[str]:
    """The task of each board; with what tells it from others of its task, at last the digits of its key."""
    records = [board.entries[0].record for board in boards]
    names = [record.task for record in records]
    for more in (
        [record.probe or "" for record in records],
        [record.dataset for record in records],
        [f"max_warp {record.task_params.get('max_warp', 'none')}" for record in records],
        [board.key[:DIGITS] for board in boards],
    ):
        often = Counter(names)
        names = [
            f"{name} {part}".strip() if often[name] > 1 else name
            for name, part in zip(names, more, strict=True)
        ]
    return names


def _table(overview: Overview) -> tuple[list[Column], list[list[str | Cell]]]:
    levels = [level for level in LEVELS if any(level in line.level_ranks for line in overview.lines)]
    levels = levels if len(levels) > 1 else []
    columns = [Column("backbone"), *(Column(name, "right") for name in overview.names)]
    columns += [Column(f"rank {level}", "right") for level in levels]
    columns += [Column("mean rank", "right"), Column("boards", "right", faint=True)]
    rows: list[list[str | Cell]] = []
    for line in overview.lines:
        scores = [
            Cell("" if score is None else number(score), bold)
            for score, bold in zip(line.scores, line.best, strict=True)
        ]
        ranks = [number(line.level_ranks.get(level), 2) for level in levels]
        covered = f"{line.covered}/{len(overview.names)}"
        rows.append([line.label, *scores, *ranks, number(line.mean_rank, 2), covered])
    return columns, rows


def _turned(
    columns: Sequence[Column], rows: Sequence[Sequence[str | Cell]]
) -> tuple[list[Column], list[list[str | Cell]]]:
    """Boards as rows, backbones as columns."""
    others = columns[1:]
    heads = [Column("")] + [
        Column(cell if isinstance(cell, str) else cell.text, "right") for cell in (row[0] for row in rows)
    ]
    return heads, [
        [column.title, *(row[place] for row in rows)] for place, column in enumerate(others, start=1)
    ]


def _correlations(
    boards: Sequence[Board], entries: Sequence[Sequence[Entry | None]]
) -> tuple[tuple[float | None, ...], ...]:
    scores = np.full((len(entries), len(boards)), np.nan)
    for i, row in enumerate(entries):
        for j, (entry, board) in enumerate(zip(row, boards, strict=True)):
            value = entry.record.metrics.get(board.headline) if entry is not None else None
            if value is not None:
                scores[i, j] = value if board.better == "higher" else -value
    return tuple(
        tuple(spearman(scores[:, i], scores[:, j]) for j in range(len(boards))) for i in range(len(boards))
    )


def spearman(a: np.ndarray, b: np.ndarray) -> float | None:
    """Spearman's correlation of the places where both (n,) are known; None of fewer than four, or of a constant."""
    known = ~(np.isnan(a) | np.isnan(b))
    if known.sum() < LEAST:
        return None
    ranks = [_average_ranks(each[known]) for each in (a, b)]
    if any(np.ptp(each) == 0 for each in ranks):
        return None
    return float(np.corrcoef(ranks[0], ranks[1])[0, 1])


def _average_ranks(values: np.ndarray) -> np.ndarray:
    """(n,) ranks from 1, equals sharing the mean of theirs."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[which])


def _correlated(overview: Overview) -> tuple[list[Column], list[list[str | Cell]]] | None:
    """The lower triangle, numbered columns; None where nothing can be compared."""
    size = len(overview.names)
    if not any(overview.correlation[i][j] is not None for i in range(size) for j in range(i)):
        return None
    columns = [Column(""), Column(""), *(Column(str(j + 1), "right") for j in range(size - 1))]
    rows: list[list[str | Cell]] = []
    for i, name in enumerate(overview.names):
        cells = [number(overview.correlation[i][j], 2) if j < i else "" for j in range(size - 1)]
        rows.append([str(i + 1), name, *cells])
    return columns, rows
