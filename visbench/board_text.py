"""A board as text for terminals and pipes, and as Markdown: the same numbers, rounded the same way."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap
from typing import Any, NamedTuple

import click

from visbench import layout
from visbench.board import Board
from visbench.layout import Cell, Column
from visbench.record import DIGITS, Record, is_number
from visbench.tasks import TASKS, better

DECIMALS = 3
LARGE = 100
AGAINST = 3  # metrics that are named where they order rows otherwise
_SHORT = {"balanced_accuracy": "balanced"}


class _Measure(NamedTuple):
    """A further column: where its numbers lie in a record."""

    field: str  # "metrics" or "context"
    name: str


def text(
    board: Board,
    *,
    width: int | None = None,
    styled: bool = False,
    decimals: int = DECIMALS,
    keyed: bool = False,
) -> str:
    """Title, table and caption; `keyed` names the digest of what the rows agree on.

    Where the table is wider than `width`, context and then metrics move, last first, to a line of their own
    under each row; names are never cut.
    """
    beside, below = _measures(board), list[_Measure]()
    while width and beside and layout.text_width(_table(board, beside, decimals)) > width:
        below.insert(0, beside.pop())
    heading, *rows = _table(board, beside, decimals, styled=styled).split("\n")
    title = layout.printable(board.title)
    lines = [click.style(title, bold=True) if styled else title, heading]
    for entry, row in zip(board.entries, rows, strict=True):
        lines.append(row)
        notes = " · ".join(
            f"{_heading(board, each)} {number(value, decimals)}"
            for each in below
            if (value := _value(entry.record, each)) is not None
        )
        lines += _faint(notes, width, styled, indent=" " * 7)
    said = caption(board, decimals, keyed=keyed)
    return "\n".join([*lines, *_faint(said, width, styled, indent=" ")])


def texts(
    boards: Sequence[Board], *, width: int | None = None, styled: bool = False, keyed: bool = False
) -> str:
    """Boards, each caution once before the first that needs it, and curves through those that differ in their warp."""
    said: list[str] = []
    known: set[str] = set()
    for board in boards:
        warned = caution(board)
        if warned and warned not in known:
            said.append("\n".join(_faint(warned, width, styled, indent=" ")))
            known.add(warned)
        said.append(text(board, width=width, styled=styled, keyed=keyed))
    return "\n\n".join([*said, *_curves(boards, styled)])


def _curves(boards: Sequence[Board], styled: bool) -> list[str]:
    """How the headline falls with `max_warp`, a row a backbone, where several were asked for."""
    curves: dict[tuple[str, str, str], dict[str, dict[float, Any]]] = {}
    for board in boards:
        for entry in board.entries:
            record = entry.record
            if (warp := record.task_params.get("max_warp")) is not None:
                key = record.dataset, record.task, board.headline
                scores = curves.setdefault(key, {}).setdefault(entry.label, {})
                scores[warp] = record.metrics.get(board.headline)
    said = []
    for (dataset, task, headline), rows in curves.items():
        warps = sorted({warp for scores in rows.values() for warp in scores})
        if len(warps) < 2:
            continue
        columns = [Column("backbone"), *(Column(f"{warp:g}", "right") for warp in warps)]
        cells = [[name, *(number(scores.get(warp)) for warp in warps)] for name, scores in rows.items()]
        title = layout.printable(f"{dataset} · {task} · {headline} by max_warp")
        title = click.style(title, bold=True) if styled else title
        said.append(f"{title}\n{layout.text(columns, cells, styled=styled)}")
    return said


def markdown(board: Board, *, decimals: int = DECIMALS, heading: int = 3) -> str:
    """The same board for a page, its title a heading of that level, or in bold where `heading` is 0."""
    columns, rows = table(board, decimals)
    title, above, below = (
        layout.escaped(each) for each in (board.title, caution(board), caption(board, decimals, keyed=True))
    )
    titled = f"{'#' * heading} {title}" if heading else f"**{title}**"
    return "\n\n".join(filter(None, [titled, above, layout.markdown(columns, rows), below])) + "\n"


def caution(board: Board) -> str:
    """What to know before this board is read."""
    task = TASKS.get(board.entries[0].record.task)
    return task.caution if task is not None else ""


def caption(board: Board, decimals: int = DECIMALS, *, keyed: bool = False) -> str:
    """What was compared: chance, samples, what sharing a rank means, what was left out; `keyed`, under which digest."""
    records = [entry.record for entry in board.entries]
    said = [f"chance {number(chance, decimals)}"] if (chance := _chance(records)) is not None else []
    said += _counted(records)
    counts = {n for record in records if (n := record.n.get(board.headline)) is not None}
    if counts:
        split = f" ({records[0].split})" if records[0].split else ""
        said.append(f"n = {'–'.join(f'{n:,}' for n in sorted({min(counts), max(counts)}))}{split}")
    if board.better == "lower":
        said.append(f"lower {board.headline} is better")
    said.append(board.rule)
    said.append(_disagreement(board))
    if board.superseded:
        said.append(f"newest record of each backbone, {board.superseded} older left out")
    said += [f"board {board.key[:DIGITS]}"] if keyed else []
    return " · ".join(filter(None, said))


def _disagreement(board: Board) -> str:
    """Which metrics, of those a board shows, put another row first than the headline does."""
    ranked = [entry for entry in board.entries if entry.ranks]
    first: dict[str, list[str]] = {}
    for measure in _measures(board):
        way = better(board.entries[0].record, measure.name) if measure.field == "metrics" else None
        scores = [_value(entry.record, measure) for entry in ranked]
        if way is None or measure.name.startswith("num_") or len(ranked) < 2 or None in scores:
            continue
        best = max(scores) if way == "higher" else min(scores)
        if scores[0] != best:
            first.setdefault(ranked[scores.index(best)].label, []).append(_heading(board, measure))
    ways = [f"{name} by {' and '.join(metrics[:AGAINST])}" for name, metrics in first.items()]
    return f"first would be {'; '.join(ways)}" if ways else ""


def number(value: Any, decimals: int = DECIMALS) -> str:
    """The one way numbers are rounded: counts whole, scores to `decimals`, a dash for what is undefined."""
    if value is None:
        return "–"
    if abs(value) >= LARGE:  # a mean of counts, whose thousandths say nothing
        decimals = min(decimals, 1)
    return f"{value:,}" if isinstance(value, int) else f"{value:.{decimals}f}"


def table(board: Board, decimals: int = DECIMALS) -> tuple[list[Column], list[list[str | Cell]]]:
    """All columns of a board and its rows, as every format has them."""
    shown = _measures(board)
    return _columns(board, shown), _rows(board, shown, decimals)


def _table(board: Board, beside: Sequence[_Measure], decimals: int, *, styled: bool = False) -> str:
    return layout.text(_columns(board, beside), _rows(board, beside, decimals), styled=styled)


def _columns(board: Board, beside: Sequence[_Measure]) -> list[Column]:
    fixed = [Column("rank"), Column("backbone"), Column(board.headline, "right")]
    if _has_intervals(board):
        fixed.append(Column("95 % interval"))
    return fixed + [Column(_heading(board, each), "right", each.field == "context") for each in beside]


def _rows(board: Board, beside: Sequence[_Measure], decimals: int) -> list[list[str | Cell]]:
    rows: list[list[str | Cell]] = []
    for entry in board.entries:
        record = entry.record
        score = Cell(number(record.metrics.get(board.headline), decimals), bold=entry is board.best)
        row: list[str | Cell] = [entry.rank, entry.label, score]
        if _has_intervals(board):
            ends = record.intervals.get(board.headline)
            row.append(" … ".join(number(end, decimals) for end in ends) if ends else "")
        rows.append([*row, *(number(_value(record, each), decimals) for each in beside)])
    return rows


# What is of the same kind as a column, and would crowd a board.
_IN_RECORDS, _BASELINES = ("_pooled", "_per_image", "_aligned"), ("constant_", "row_")


def _measures(board: Board) -> list[_Measure]:
    """The further columns: metrics beside the headline, then context, as far as any row has a number."""
    records = [entry.record for entry in board.entries]
    said = {("metrics", board.headline)}
    if _chance(records) is not None:
        said.add(("context", "chance"))
    task = TASKS.get(records[0].task)
    shown = task.shown if task is not None else ()
    every = dict.fromkeys(
        _Measure(field, name)
        for field in ("metrics", "context")
        for record in records
        for name, value in getattr(record, field).items()
        if is_number(value)
        and (field, name) not in said
        and (name in shown if shown else not (name.endswith(_IN_RECORDS) or name.startswith(_BASELINES)))
        if not (field == "context" and _is_count(value))
    )
    return sorted(every, key=lambda each: shown.index(each.name)) if shown else list(every)


def _chance(records: Sequence[Record]) -> float | None:
    """What guessing would score, where it is the same for all."""
    chance = records[0].context.get("chance")
    same = all(record.context.get("chance") == chance for record in records)
    return chance if same and is_number(chance) else None


def _counted(records: Sequence[Record]) -> list[str]:
    """What was counted beside the scores: `classes scored 10`, `near duplicates 1–4` or `… up to 4`."""
    said = []
    for name in dict.fromkeys(name for record in records for name in record.context):
        values: list[Any] = [record.context.get(name) for record in records]
        found = [int(value) for value in values if _is_count(value)]
        if not any(found):
            continue
        low, high = min(found), max(found)
        span = f"{high:,}" if low == high else f"{low:,}–{high:,}"
        if len(found) < len(records):
            span = f"up to {high:,}"
        said.append(f"{name.replace('_', ' ')} {span}")
    return said


def _heading(board: Board, measure: _Measure) -> str:
    return "train" if measure.name == f"train_{board.headline}" else _SHORT.get(measure.name, measure.name)


def _has_intervals(board: Board) -> bool:
    return any(entry.record.intervals.get(board.headline) for entry in board.entries)


def _value(record: Record, measure: _Measure) -> Any:
    value = getattr(record, measure.field).get(measure.name)
    return value if is_number(value) else None


def _is_count(value: Any) -> bool:
    return is_number(value) and isinstance(value, int)


def _faint(line: str, width: int | None, styled: bool, *, indent: str) -> list[str]:
    lines = wrap(line, (width or 10_000) - len(indent), break_long_words=False) if line else []
    return [indent + (click.style(each, dim=True) if styled else each) for each in lines]
