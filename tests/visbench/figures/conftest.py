"""Trials whose scores can be worked out by hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

import pytest

Trial = dict[str, Any]


@pytest.fixture
def sweep_of() -> Callable[..., list[Trial]]:
    """`sweep_of(axes)` gives a trial for each place, the last axis fastest, each scored 0.001 above the one before.

    `diverged` and `skipped` tell which have no score or are not there; the best of each backbone is chosen.
    """

    def make(
        axes: Mapping[str, Sequence[Any]],
        backbones: Sequence[str] = ("vit",),
        *,
        probe: str = "linear",
        std: float | None = None,
        diverged: Callable[[Trial], bool] = lambda trial: False,
        skipped: Callable[[Trial], bool] = lambda trial: False,
    ) -> list[Trial]:
        trials: list[Trial] = []
        for backbone in backbones:
            mine: list[Trial] = []
            for values in product(*axes.values()):
                trial = {"backbone": backbone, "probe": probe, **dict(zip(axes, values, strict=True))}
                if not skipped(trial):
                    score = None if diverged(trial) else 0.5 + (len(trials) + len(mine)) / 1000
                    mine.append({**trial, "score": score, "std": std, "chosen": False})
            scored = [trial for trial in mine if trial["score"] is not None]
            if scored:
                max(scored, key=lambda trial: trial["score"])["chosen"] = True
            trials += mine
        return trials

    return make
