"""A row of the task table: what a task reads, what it fits, how it is scored.  Names are import paths."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Task:
    """What a task reads, what it fits and how it is scored."""

    name: str
    level: str
    summary: str  # one line, for `visbench list` and --help
    reads: str  # the kind of dataset
    layout: str  # how the data lies on disk, drawn for --help
    measure: str  # import path of the class that turns features into an outcome
    probes: Mapping[str, str]  # name → what it is; the first is the default, none where nothing is learnt
    headline: str
    metrics: Mapping[str, str]  # name, where * stands for anything → "higher" or "lower" is better
    fitted: bool = True  # False: nothing is learnt, so a training set would not be used
    reading: str = "visbench.reading:Pooled"  # import path of what reads the stored features for it
    opening: str = "visbench.opening:labelled"  # import path of what opens its data
    truth: tuple[str, ...] = ()  # what it may be told of its maps, pairs or boxes
    settings: tuple[str, ...] = ()  # of its probes or its measurement; heads have their own
    dense: bool = False  # whether heads are trained for it on grids of patch features
    pooled: bool = True  # whether it reads one vector an image
    columns: bool = True  # whether it takes a table of images, whose columns can be named
    limit: str = "images a class"  # what --limit counts
    shown: tuple[str, ...] = ()  # the columns of a board, where not every metric is one
    caution: str = ""  # what to know before a board of it is read

    @property
    def default_probe(self) -> str | None:
        """The probe that runs when none is named."""
        return next(iter(self.probes), None)

    def better(self, metric: str) -> str | None:
        """ "higher" or "lower"; None of a metric that the task does not rank by."""
        exact = self.metrics.get(metric)
        return exact or next((way for name, way in self.metrics.items() if fnmatchcase(metric, name)), None)

    def measurement(self) -> Any:
        """What `measure` names; brings in JAX."""
        return _imported(self.measure)

    def reader(self) -> Any:
        """What `reading` names."""
        return _imported(self.reading)

    def opener(self) -> Any:
        """What `opening` names."""
        return _imported(self.opening)


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    return getattr(import_module(module), name)
