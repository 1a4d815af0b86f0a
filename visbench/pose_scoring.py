"""The metrics of relative pose with their 95 % intervals.  Axes: p pairs, r fits, B resamples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from probes import linked
from probes.metrics import pose as metric
from visbench.outcome import Outcome
from visbench.pose_reading import Pairs

HEADLINE = "rotation_error_deg"


def score(fits: Sequence[Mapping[str, np.ndarray]], test: Pairs, *, seed: int = 0) -> Outcome:
    """Metrics of pairs, averaged over fits; intervals from drawing scenes, or images where there are few scenes."""
    every = [metric.value(**each) for each in fits]
    outcome = Outcome({name: float(np.mean([each[name] for each in every])) for name in every[0]})

    def values(times: np.ndarray) -> np.ndarray:
        drawn = [metric.value(**each, times=times) for each in fits]
        return np.stack([np.stack([*each.values()], axis=-1) for each in drawn], axis=1)

    linking = test.pictures
    low, high = linked.bootstrap(linking, values, seed=seed)
    ends = zip(low.tolist(), high.tolist(), strict=True)
    outcome.intervals = {name: [*pair] for name, pair in zip(outcome.metrics, ends, strict=True)}
    outcome.n = dict.fromkeys(outcome.metrics, len(test))
    outcome.per_sample = {name: np.mean([each[name] for each in fits], axis=0) for name in metric.MEASURES}
    if len(fits) > 1:
        outcome.context[f"{HEADLINE}_std"] = float(np.std([each[HEADLINE] for each in every], ddof=1))
    outcome.context |= {
        "scenes_scored": len(np.unique(linked.scenes(linking))),
        "images_scored": len(np.unique(linking)),
        "intervals_draw": linked.drawn(linking),
    }
    return outcome


def errors_of_one(pose: np.ndarray, rows: Pairs) -> dict[str, np.ndarray]:
    """The errors of one pose said of every pair."""
    return metric.errors(np.tile(pose, (len(rows), 1)), rows.pose)
