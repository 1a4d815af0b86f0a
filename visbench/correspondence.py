"""Correspondence: patches of one image matched to those of another, nothing learnt, errors in pixels and patches.

Axes: p pairs, n patches, k points.  After Probe3D (El Banani et al., CVPR 2024); PCK as SPair-71k has it (Min et al.
2019).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from extract.datasets.relations import Keypoints
from extract.views import Warp
from probes import matching, statistics
from probes.metrics import correspondence as metrics
from probes.metrics.correspondence import ALPHA, PATCHES, PIXELS
from probes.shapes import bucket
from visbench.data import RunData
from visbench.errors import UsageError
from visbench.options import Options
from visbench.outcome import Outcome
from visbench.paired import Marked, Pairs
from visbench.trials import Trials

SETTINGS = ("max_warp", "num_corr", "ratio", "mutual", "units", "thresholds")


class Correspondence:
    """The measurement as a run asks for it: one for each `max_warp`."""

    name = "correspondence"
    several = ("max_warp",)

    def __init__(self, probe: str | None, options: Options) -> None:
        given = dict(options.probe_settings)
        unknown = [name for name in given if name not in SETTINGS]
        if unknown or options.standardize is not None:
            raise UsageError(
                f"correspondence has no setting {', '.join(unknown) or 'standardize'}; it has {', '.join(SETTINGS)}"
            )
        if "pixels" in options.controls:
            raise UsageError(
                "the control pixels has no grid of patches, which correspondence reads; take random-weights or shuffle"
            )
        self._layer, self.seed = options.one_layer, options.seed
        self.classic = options.protocol == "visbench"
        self.warp = Warp(_number("max_warp", given.get("max_warp", 0.2)), options.seed)
        self.ratio, self.num_corr = _ratio(given.get("ratio", 0.9)), _count(given.get("num_corr", 1000))
        self.mutual = given.get("mutual", False)
        if not isinstance(self.mutual, bool):
            raise UsageError(f"mutual is {self.mutual!r}; it is True or False")
        self.units = given.get("units") or ("patch" if self.classic else "pixel")
        if self.units not in ("pixel", "patch"):
            raise UsageError(f"units is {self.units!r}; errors are in pixel or patch")
        self.pixels, self.patches = _thresholds(given.get("thresholds"), self.units)

    @staticmethod
    def accepts(probe: str | None) -> set[str]:
        """The settings there are."""
        return set(SETTINGS)

    @property
    def taps(self) -> list[str]:
        """The tap it reads, as asked."""
        return ["patches" if self._layer == -1 else f"patches@{self._layer}"]

    def headline(self, run: RunData) -> str:
        """The metric that a board of these data sorts by."""
        if _marked(run):
            return f"pck@{ALPHA:g}"
        values, unit, usual = (self.pixels, "px", 5.0) if self.units == "pixel" else (self.patches, "p", 1.0)
        return f"recall@{usual if usual in values else values[len(values) // 2]:g}{unit}"

    def plan(self, run: RunData) -> dict[str, Any]:
        """What of the record is known before."""
        params: dict[str, Any] = {"ratio": self.ratio, "num_corr": self.num_corr, "mutual": self.mutual}
        if _marked(run):
            params = {"alpha": ALPHA}
        else:
            params |= {"pixels": list(self.pixels), "patches": list(self.patches)}
            params["left_view"] = "scored" if self.classic else "not scored"
        if _made(run):
            params |= self.warp.describe()
        return {"headline": self.headline(run), "task_params": params}

    def __call__(self, pairs_of: Callable[[str, Warp], Pairs], run: RunData, trials: Trials) -> Outcome:
        """Match every pair of the scored split."""
        pairs = pairs_of(self.taps[0], self.warp)
        outcome = self._marked(pairs) if pairs.marked else self._everywhere(pairs)
        outcome.ids = pairs.groups.ids
        headline = self.headline(run)
        if not outcome.n.get(headline):
            raise UsageError(
                f"{headline} is not defined on any pair of {run.name}: of no point of a first image it is known that "
                "it lies in what the backbone sees of the second; `visbench check --task correspondence --overlay "
                "look.png` draws one"
            )
        return outcome

    def _everywhere(self, pairs: Pairs) -> Outcome:
        """Every patch of the first image against the truth of where its centre lies in the second."""
        height, width = pairs.grid
        centres = metrics.centres(height, width, float(pairs.side))
        tallies = []
        for rows, first, second in pairs.blocks():
            matches, truth, scored = self.matched(pairs, rows, first, second)
            tally = metrics.evaluate(
                matches,
                centres,
                truth,
                scored,
                patch=pairs.side / width,
                pixels=self.pixels,
                patches=self.patches,
            )
            tallies.append({name: np.asarray(each) for name, each in tally.items()})
        found = {name: np.concatenate([each[name] for each in tallies]) for name in tallies[0]}
        return self._outcome(found)

    def _marked(self, pairs: Pairs) -> Outcome:
        """Marked points of the first image against the same in the second, in its original pixels."""
        centres = metrics.centres(*pairs.grid, float(pairs.side))
        room = bucket(max(1, *(len(each.visible) for each in pairs.groups.truth["relation"])))
        told: list[tuple[metrics.Points, metrics.Points, int]] = []
        for rows, first, second in pairs.blocks():
            matches, marked = self.pointed(pairs, rows, first, second, room)
            nearest = metrics.nearest(centres, marked.wanted)
            found, least = (
                metrics.pck(
                    pairs.second_out_of(rows, centres[at]),
                    marked.truth,
                    marked.visible,
                    marked.extent,
                    alpha=ALPHA,
                )
                for at in (matches.target, nearest)
            )
            told.append((found, least, marked.outside))
        found, least = (
            metrics.Points(*map(np.concatenate, zip(*(each[place] for each in told), strict=True)))
            for place in (0, 1)
        )
        name = f"pck@{ALPHA:g}"
        outcome = self._outcome({name: metrics.shares(found)})
        outcome.metrics |= metrics.value(found, alpha=ALPHA)
        outcome.context[f"ceiling_{name}"] = metrics.value(least, alpha=ALPHA)[name]
        outcome.context["points"] = int(found.visible.sum())
        outside = sum(each for _, _, each in told)
        if outside:
            outcome.context["points_outside"] = outside
        return outcome

    def matched(
        self, pairs: Pairs, rows: np.ndarray, first: np.ndarray, second: np.ndarray
    ) -> tuple[Any, np.ndarray, np.ndarray]:
        """Of some pairs, with their grids: the matches, (b, n, 2) where patches belong, (b, n) which are scored."""
        truth, known = pairs.truth(rows, metrics.centres(*pairs.grid, float(pairs.side)))
        inside = ((truth >= 0) & (truth <= pairs.side)).all(axis=-1)
        matches = matching.match(
            _flat(first), _flat(second), ratio=self.ratio, num_corr=self.num_corr, mutual=self.mutual
        )
        return matches, np.where(known[..., None], truth, 0.0), known if self.classic else known & inside

    def pointed(
        self, pairs: Pairs, rows: np.ndarray, first: np.ndarray, second: np.ndarray, room: int
    ) -> tuple[Any, Marked]:
        """Of some pairs, with their grids: the matches of up to `room` marked points, and these."""
        marked = pairs.marks(rows, room, everywhere=self.classic)
        tokens = matching.at_points(first, marked.places.astype(np.float32), float(pairs.side))
        return matching.match(tokens, _flat(second), ratio=None, source_mask=marked.visible), marked

    def _outcome(self, found: Mapping[str, np.ndarray]) -> Outcome:
        """Means over pairs with intervals from resampling pairs; ceilings are context."""
        outcome = Outcome({})
        for name, rows in found.items():
            known = ~np.isnan(rows)
            mean = float(rows[known].mean()) if known.any() else float("nan")
            if name.startswith("ceiling_"):
                outcome.context[name] = mean
                continue
            outcome.metrics[name], outcome.n[name] = mean, int(known.sum())
            outcome.per_sample[name] = rows.astype(np.float32)
            if known.sum() > 1:
                sums = np.column_stack([rows[known], np.ones(known.sum())])
                low, high = statistics.bootstrap(sums, lambda each: each[:, 0] / each[:, 1], seed=self.seed)
                outcome.intervals[name] = [float(low), float(high)]
        return outcome


def _flat(grid: np.ndarray) -> np.ndarray:
    """(b, h, w, d) as (b, n, d)."""
    return grid.reshape(len(grid), -1, grid.shape[-1])


def _made(run: RunData) -> bool:
    groups = run.sets["test"].groups
    assert groups is not None
    return bool(groups.members.shape[1] == 1)


def _marked(run: RunData) -> bool:
    groups = run.sets["test"].groups
    assert groups is not None
    return not _made(run) and isinstance(groups.truth["relation"][0], Keypoints)


def _thresholds(given: Any, units: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """In pixels and in patch widths; what is given is in `units`."""
    if given is None:
        return PIXELS, PATCHES
    several = given if isinstance(given, tuple | list) else (given,)
    values = tuple(sorted({_number("thresholds", each) for each in several}))
    if not values or not all(0 < each < np.inf for each in values):
        raise UsageError(f"thresholds are {given!r}; wanted lengths above 0, such as 1,2,5,10")
    return (values, PATCHES) if units == "pixel" else (PIXELS, values)


def _ratio(given: Any) -> float:
    ratio = _number("ratio", given)
    if not 0 < ratio <= 1:
        raise UsageError(f"ratio is {ratio:g}; it is above 0 and at most 1, where every match is kept")
    return ratio


def _count(given: Any) -> int:
    count = _number("num_corr", given)
    if not (count >= 1 and count.is_integer()):
        raise UsageError(
            f"num_corr is {count:g}; it is how many matches of a pair are scored, a whole number"
        )
    return int(count)


def _number(name: str, given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float | np.integer | np.floating):
        raise UsageError(f"{name} is {given!r}; wanted a number")
    return float(given)
