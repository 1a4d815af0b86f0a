"""Triplets: a reference, two variations of it, and which of the two people found the more similar.

NIGHTS (Fu et al. 2023, "DreamSim", arXiv:2306.09344) is a folder with a data.csv: `ref_path`, `left_path`,
`right_path`, `left_vote` and `right_vote` (0 or 1), `votes`, `split`, `is_imagenet`.  Any table that names three images
and an answer is read the same way.  The answer is `left_vote` and/or `right_vote`; or `vote`, `choice`, `answer` or
`label`, as "left" or "right", or 0 (left) or 1 (right).  Or the columns are an anchor, a positive and a negative: then
nobody says which stands left, and the order is drawn by the images' content (see `groups`), so that a probe that
always says left is at chance.  Headers are read by name, in any order and case; paths are relative to the table.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import Splits
from extract.datasets.grouping import find_columns, grouped_splits, members_of_table
from extract.datasets.groups import Groups
from extract.datasets.table import EXTENSIONS, Columns, read_columns, rows_by_split
from extract.errors import InputError
from extract.wording import counted

MIN_VOTES = 6
"""Fewer agreeing people and a triplet of NIGHTS is left out, as in the paper; 1,824 remain in its test split."""

_IMAGES = ("reference", "left", "right")
_ORDERLESS = ("anchor", "positive", "negative")
USUAL: dict[str, tuple[str, ...]] = {
    "reference": ("ref_path", "ref", "reference", "reference_path", "anchor", "query"),
    "left": ("left_path", "left", "image_left", "left_image"),
    "right": ("right_path", "right", "image_right", "right_image"),
    "positive": ("positive", "positive_path", "pos"),
    "negative": ("negative", "negative_path", "neg"),
    "left_vote": ("left_vote",),
    "right_vote": ("right_vote",),
    "answer": ("vote", "choice", "answer", "label"),
    "votes": ("votes",),
    "imagenet": ("is_imagenet", "imagenet"),
    "split": ("split", "set", "subset", "partition"),
}
"""The parts that columns play, and what such columns are usually called."""

_ANSWERS = {"left": False, "right": True, "0": False, "0.0": False, "1": True, "1.0": True}
_TRUTHS = {"true": True, "1": True, "1.0": True, "false": False, "0": False, "0.0": False}


def open_triplets(
    data: Any,
    *,
    min_votes: int | None = None,
    name: str | None = None,
    columns: Mapping[str, str] | None = None,
) -> Splits:
    """The triplets of a table, or of a folder with a data.csv.

    `truth` has `right` (t,) bool, whether people chose the right image, and, where the table says them, `votes`
    (t,) int64 and `imagenet` (t,) bool.  Where there are votes, triplets with fewer than `min_votes` (6 unless told)
    are left out.  Of a test split that says which reference is of ImageNet there are two parts more,
    `test_imagenet` and `test_no_imagenet`.  `columns` names the column that plays a part (`USUAL`) and is called
    otherwise.
    """
    table = _table(data)
    cells = read_columns(table)
    parts = find_columns(table, cells, USUAL, columns)
    images = _images(table, cells, parts)
    count = len(cells[parts[images[0]]])
    if not count:
        raise InputError(f"{table} has no rows; there should be one a triplet")
    told: dict[str, np.ndarray] = {}
    kept, left_out = np.arange(count), 0
    if "votes" in parts:
        votes = np.array(_each(table, cells, parts["votes"], kept, _votes, "a number of votes"), np.int64)
        min_votes = MIN_VOTES if min_votes is None else min_votes
        kept = np.flatnonzero(votes >= min_votes)
        left_out = count - len(kept)
        if not len(kept):
            raise InputError(
                f"{table} has no triplet with {min_votes} votes or more, and at most {votes.max()}; ask for fewer "
                "(--min-votes)"
            )
        told["votes"] = votes[kept]
    elif min_votes is not None:
        raise InputError(f"{table} has no column of votes, so {min_votes} of them cannot be asked for")
    if "imagenet" in parts:
        told["imagenet"] = np.array(
            _each(table, cells, parts["imagenet"], kept, _true_or_false, "true or false"), bool
        )
    orderless = "positive" in images
    right = np.zeros(len(kept), bool) if orderless else _answers(table, cells, parts, kept)
    members = members_of_table(table, cells, [parts[part] for part in images], kept)
    groups = Groups(
        "triplet",
        members.places,
        tuple(f"{table.name}, row {row + 1}" for row in kept),
        {"right": right, **told},
        _params(table, parts, images, min_votes, left_out),
        turns="right" if orderless else None,
    )
    rows = {"all": np.arange(len(kept))}
    if "split" in parts:
        splits = rows_by_split(cells[parts["split"]], table)
        rows = {split: np.flatnonzero(np.isin(kept, found)) for split, found in splits.items()}
        if "imagenet" in told:
            test = rows["test"]
            rows["test_imagenet"] = test[told["imagenet"][test]]
            rows["test_no_imagenet"] = test[~told["imagenet"][test]]
    return grouped_splits(members, groups, rows, name=name or _name(table))


def _table(data: Any) -> Path:
    if not isinstance(data, str | os.PathLike):
        raise InputError(
            f"triplets are read from a table, or a folder with a data.csv, not a {type(data).__name__}"
        )
    path = Path(data).expanduser()
    if path.is_dir():
        path /= "data.csv"
        if not path.is_file():
            raise InputError(
                f"{path.parent} has no data.csv; triplets are a folder as NIGHTS is, or a table of a reference, a left "
                "and a right image"
            )
    if path.suffix.lower() not in EXTENSIONS or not path.is_file():
        raise InputError(
            f"{path} is no table of triplets; wanted is a file ending in {', '.join(EXTENSIONS)}"
        )
    return path


def _name(table: Path) -> str:
    return table.resolve().parent.name if table.name == "data.csv" else table.stem


def _images(table: Path, cells: Columns, parts: Mapping[str, str]) -> tuple[str, str, str]:
    """The parts that the three images play."""
    sided = [part for part in ("left", "right") if part in parts]
    orderless = [part for part in ("positive", "negative") if part in parts]
    if "reference" not in parts or len(sided) == len(orderless) or 1 in (len(sided), len(orderless)):
        of = _ORDERLESS[1:] if orderless and not sided else _IMAGES[1:]
        lacking = next((part for part in ("reference", *of) if part not in parts), "reference")
        unused = next((each for each in cells if each not in parts.values()), "COLUMN")
        raise InputError(
            f"{table} has the columns {', '.join(cells)}; a triplet is {', '.join(_IMAGES)} and what people chose, or "
            f"{', '.join(_ORDERLESS)}: call them so, or say which is which, as {lacking}={unused}"
        )
    told = [part for part in ("left_vote", "right_vote", "answer") if part in parts]
    if orderless and told:
        raise InputError(
            f"{table} has {parts['positive']} and {parts['negative']}, and {parts[told[0]]} besides; the positive is "
            "the answer, so leave the other column out"
        )
    if sided and (not told or ("answer" in told and len(told) > 1)):
        what = (
            f"both {' and '.join(parts[each] for each in told)}" if told else "nothing of what people chose"
        )
        raise InputError(
            f"{table} has {what}; there should be right_vote (0 or 1), or one of {', '.join(USUAL['answer'])}"
        )
    return ("reference", "left", "right") if sided else ("reference", "positive", "negative")


def _answers(table: Path, cells: Columns, parts: Mapping[str, str], rows: np.ndarray) -> np.ndarray:
    """(t,) bool: whether right was chosen."""
    if "answer" in parts:
        wanted = "left or right, or 0 or 1"
        return np.array(_each(table, cells, parts["answer"], rows, _ANSWERS.__getitem__, wanted), bool)
    said = {
        side: np.array(_each(table, cells, parts[f"{side}_vote"], rows, _true_or_false, "0 or 1"), bool)
        for side in ("left", "right")
        if f"{side}_vote" in parts
    }
    if len(said) == 1:
        return said["right"] if "right" in said else ~said["left"]
    unclear = np.flatnonzero(said["left"] == said["right"])
    if len(unclear):
        both = "both" if said["left"][unclear[0]] else "neither"
        raise InputError(
            f"{table}, row {rows[unclear[0]] + 1} says that {both} of left and right won, as do "
            f"{counted(len(unclear), 'row')} in all; exactly one of left_vote and right_vote should be 1"
        )
    return said["right"]


def _each(
    table: Path, cells: Columns, column: str, rows: np.ndarray, read: Callable[[str], Any], wanted: str
) -> list[Any]:
    """What the cells of a column say in those rows."""
    found = []
    for row in rows.tolist():
        cell = cells[column][row]
        try:
            found.append(read(str("" if cell is None else cell).strip().lower()))
        except (KeyError, ValueError):
            raise InputError(
                f"{table}, row {row + 1}, column {column} holds {cell!r}; it should be {wanted}"
            ) from None
    return found


def _true_or_false(text: str) -> bool:
    return _TRUTHS[text]


def _votes(text: str) -> int:
    number = float(text)
    if not (number >= 0 and number.is_integer()):
        raise ValueError(text)
    return int(number)


def _params(
    table: Path, parts: Mapping[str, str], images: tuple[str, ...], min_votes: int | None, left_out: int
) -> dict[str, Any]:
    params: dict[str, Any] = {"table": table.name, "image_columns": [parts[part] for part in images]}
    answers = [parts[part] for part in ("left_vote", "right_vote", "answer") if part in parts]
    params |= {"answer_columns": answers} if answers else {"order": "drawn by content"}
    if "votes" in parts:
        params |= {"min_votes": min_votes, "left_out": left_out}
    return params
