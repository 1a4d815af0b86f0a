"""Which samples are shown: the worst, the best, some at random, or those that are named."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

import numpy as np

from extract.wording import counted
from visbench.errors import UsageError, did_you_mean

HOW = ("worst", "best", "random")
MOST = 200  # of which one could still see something


@dataclass(frozen=True)
class Wanted:
    """What is asked for; `frames`, names of samples, come before all else."""

    how: str = "worst"
    count: int = 6
    frames: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.how not in HOW:
            raise UsageError(f"{self.how!r} are not among what can be shown: {', '.join(HOW)}")
        whole = isinstance(self.count, int | np.integer) and not isinstance(self.count, bool)
        if not whole or not 1 <= self.count <= MOST:
            raise UsageError(f"{self.how} is {self.count!r}; a picture shows 1 … {MOST} samples")


@dataclass(frozen=True)
class Scores:
    """One score a sample, NaN where it has none; among equals the larger `badness` is the worse."""

    metric: str
    values: np.ndarray  # (n,)
    lower: bool  # whether less is better
    badness: np.ndarray | None = None  # (n,)
    part: bool = False  # a metric of all samples together: what each adds to it

    def __getitem__(self, row: int) -> str:
        """As a caption has it."""
        value = self.values[row]
        name = f"part in {self.metric}" if self.part else self.metric
        return f"{name} {'not known' if np.isnan(value) else f'{value:.3g}'}"


def wanted(
    *, worst: int | None, best: int | None, random: int | None, frames: Sequence[str] | str = ()
) -> Wanted:
    """What the options ask for; two of them are refused."""
    given = [(how, n) for how, n in zip(HOW, (worst, best, random), strict=True) if n is not None]
    names = (frames,) if isinstance(frames, str) else tuple(map(str, frames))
    if len(given) + bool(names) > 1:
        raise UsageError("worst, best, random and frames each say what is shown; give one of them")
    return Wanted(*given[0]) if given else Wanted(frames=names)


def chosen(
    want: Wanted, scores: Scores, names: Sequence[Sequence[str]], *, seed: int, what: str
) -> np.ndarray:
    """(k,) the samples that are shown, in order; `names` are those that each sample goes by."""
    if want.frames:
        return np.array([_found(frame, names, what) for frame in want.frames])
    count = len(scores.values)
    if want.how == "random":
        return np.random.default_rng(seed).permutation(count)[: want.count]
    known = np.flatnonzero(~np.isnan(scores.values))
    if not len(known):
        raise UsageError(f"{scores.metric} is not known of any {what}, so none is best or worst; take random")
    bad = scores.values[known].astype(float) * (1 if scores.lower else -1)
    tie = np.zeros(len(known)) if scores.badness is None else np.asarray(scores.badness, float)[known]
    sign = -1 if want.how == "worst" else 1
    order = np.lexsort((known, sign * tie, sign * bad))
    return known[order][: want.count]


def said(want: Wanted, shown: int, count: int, scores: Scores, what: str) -> str:
    """`the 6 worst of 372 images by top1`."""
    if want.frames:
        return f"{counted(shown, what)} by name, of {count:,} scored"
    if want.how == "random":
        return f"{counted(shown, what)} at random, of {count:,} scored"
    if count == 1:
        return f"the only {what}"
    whole = "all" if shown == count else f"the {shown:,} {want.how} of"
    by = f"their part in {scores.metric}" if scores.part else scores.metric
    return f"{whole} {counted(count, what)} by {by}, the {want.how} first"


def _found(frame: str, names: Sequence[Sequence[str]], what: str) -> int:
    """The sample of that name, or of that file whatever its folder, if there is one alone."""
    for alike in (lambda name: name == frame, lambda name: PurePosixPath(name).name == frame):
        rows = [row for row, own in enumerate(names) if any(map(alike, own))]
        if len(rows) == 1:
            return rows[0]
        if rows:
            raise UsageError(
                f"{len(rows)} {what}s go by {frame}, such as {names[rows[0]][0]}; give the whole name"
            )
    every = [name for own in names for name in own]
    raise UsageError(
        f'no scored {what} is called "{frame}".{did_you_mean(frame, every)} The first is {every[0]}.'
    )
