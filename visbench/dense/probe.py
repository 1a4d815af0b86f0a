"""A dense probe on arrays: settings chosen on held-out images, then a refit on all of them, as a run does it.

Axes: n images, h w grid, d dims, S pixels of the frame a side, k values a pixel or none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, Self

import jax.numpy as jnp
import numpy as np

from extract.ids import keys
from extract.wording import counted
from probes.dense import Maps
from probes.maps.segmentation import Segmentation
from visbench.choosing import held_rows
from visbench.classifier import summary
from visbench.dense import judging, scoring
from visbench.dense.given import checked_grid, checked_target, checked_tokens
from visbench.dense.kinds import KINDS, Kind
from visbench.dense.learning import Learnt
from visbench.dense.measure import Dense
from visbench.dense.predicting import DensePredictor
from visbench.dense.streams import Rowwise, Stream
from visbench.errors import UsageError
from visbench.grid import Setting
from visbench.options import Options
from visbench.selection import content_ids
from visbench.task import Task
from visbench.trials import Trials

KIND_OF = {
    "semantic_segmentation": "labels",
    "generic_segmentation": "foreground",
    "depth": "depth",
    "relative_depth": "depth",
    "surface_normal": "normals",
    "edge": "response",
    "keypoints2d": "response",
    "occlusion_edge": "response",
    "boundaries": "boundaries",
    "corner": "corner",
    "orientation": "orientation",
    "detection": "boxes",
}
MAPS = ("num_classes", "n_bins", "max_depth", "uncertainty")  # what an answer may be told of its maps


class Part(NamedTuple):
    """What was given of some images."""

    grids: tuple[np.ndarray, ...]  # (n, h, w, d) a layer
    tokens: tuple[np.ndarray, ...]  # (n, d) a layer, or none
    target: np.ndarray  # (n, S, S[, k])

    def ordered(self) -> tuple[np.ndarray, np.ndarray]:
        """(n,) the rows by content, so that theirs does not matter, and the (n, 16) digests in that order."""
        ids = content_ids(self.grids[0])
        order = np.lexsort((keys(content_ids(self.target)), keys(ids)))
        return order, ids[order]


@dataclass(frozen=True)
class Drawn:
    """What choosing needs to know of the images."""

    ids: Mapping[str, np.ndarray]


class DenseProbe:
    """A read-out of maps from feature grids.

    `fit` chooses among the settings where there are several, on `val` if given, else on about a tenth, drawn
    by content, or as `select` says; with `refit` the chosen setting is then trained on all images.
    """

    pooling = "patches"

    def __init__(self, task: Task, head: str, options: Options) -> None:
        if options.pooling != "default":
            raise UsageError(f"{task.name} reads grids of patches, so pooling={options.pooling!r} has no use")
        if task.name not in KIND_OF:
            raise UsageError(
                f"{task.name} is scored on the pictures themselves; visbench.run trains and scores it, and "
                "probes.dense.fit trains it on arrays"
            )
        self.name = head
        self.measure: Dense = task.measurement()(head, options)
        self.kind: Kind = KINDS[KIND_OF[task.name]]
        self.task = _answer(task, self.measure, options)
        self.layers = self.measure.asked.layers
        self.hyperparameters: Setting = {}
        self.selection: dict[str, Any] = {}
        self.convergence: dict[str, Any] = {}
        self.train_loss = float("nan")

    def fit(self, features: Any, targets: Any, val: tuple[Any, Any] | None = None) -> Self:
        """Fit on (n, h, w, d) features, a list of them where the head reads several layers, and (n, S, S[, k]) targets.

        Targets are maps in the frame of the backbone as the feature store keeps them, and where they say nothing:

        labels, foreground       integers (n, S, S), class or 0 and 1            255
        depth                    floats (n, S, S), metres                        0
        normals                  floats (n, S, S, 3), unit vectors               the zero vector
        responses, corner        floats (n, S, S), 0 or more                     −1
        boundaries               floats (n, S, S), share of annotators, 0 … 1    −1
        orientation              floats (n, S, S, 3), cos 2a, sin 2a, coherence  coherence 0
        boxes                    floats (n, M, 6), as `probes.boxes` has them    −1

        Boxes are in shares of the frame's side; the last two numbers of a row are its label and its flag.

        `val` is a pair of both.  A head that reads CLS tokens takes `probes.dense.Maps(grids, cls)` for features.
        """
        train = self._part(features, targets, "training")
        if not any(self.task.valid(jnp.asarray(row[None])).any() for row in train.target):
            raise UsageError("no training target says anything: every pixel of every map is void")
        parts, roles = [train], ["train"]
        if val is not None:
            parts, roles = [*parts, self._part(*val, "val")], [*roles, "val"]
            _check_alike(parts)
        stream, drawn = self._stream(parts, roles)
        trials = Trials(frozenset(self.measure.taps))
        learnt = self.measure.learner.learn(self.task, stream, drawn, trials)
        return self._learnt(learnt, stream)

    def predict(self, features: Any, size: tuple[int, int] | None = None) -> np.ndarray:
        """(n, H, W[, k]) what the probe says of each image, at the size of the targets or any other.

        Classes are uint8; of foreground and of boundaries come probabilities, of depth metres, of relative depth a
        score that is lower where nearer, of normals unit vectors, of orientation cos 2a and sin 2a; of boxes (n, K, 6):
        corners in shares of the frame, score, label, best first, −1 for the label where there are no more.
        """
        grids, tokens = self._features(features, "")
        return self._fitted.predict(*grids, cls=tokens or None, size=size)

    def evaluate(self, features: Any, targets: Any) -> dict[str, float]:
        """The metrics on other images: means of per-image values, those of all pixels together beside them.

        They are those of a run, but for boundaries: ODS, OIS and AP need what people drew in the original image.
        """
        predictor, part = self._fitted, self._part(features, targets, "scored")
        if self.kind.name != "boxes" and part.target.shape[1] != predictor.size:
            raise UsageError(
                f"scored targets are {part.target.shape[1]} pixels wide, those of training were {predictor.size}"
            )
        if tuple(grid.shape[-1] for grid in part.grids) != predictor.dims:
            raise UsageError(
                f"scored features have {_dims(part)} dims, those of training had {_listed(predictor.dims)}"
            )
        stream, _ = self._stream([part], ["train"], ordered=False)
        tally = judging.InFrame(self.task).tally(stream, judging.of_run(predictor.run))
        return scoring.values(self.task, tally)

    @property
    def _fitted(self) -> DensePredictor:
        if not hasattr(self, "predictor"):
            raise UsageError("the probe is not fitted; call fit(features, targets) first")
        fitted: DensePredictor = self.predictor
        return fitted

    def _learnt(self, learnt: Learnt, stream: Stream) -> Self:
        self.predictor = self.measure.answer.predictor(learnt.runs[0], self.layers, self.task, stream)
        self.hyperparameters, self.train_loss = dict(learnt.chosen), self.predictor.train_loss
        self.convergence = {"train_loss": self.train_loss}
        self.selection = summary(learnt.found, held_rows(learnt.folds)) if learnt.found is not None else {}
        return self

    def _part(self, features: Any, targets: Any, what: str) -> Part:
        grids, tokens = self._features(features, f"{what} ")
        target = checked_target(targets, self.kind, self.task, f"{what} targets")
        if len(target) != len(grids[0]):
            raise UsageError(
                f"{len(grids[0])} {what} features came for {len(target)} targets; wanted one for one"
            )
        return Part(grids, tokens, target)

    def _features(self, features: Any, what: str) -> tuple[tuple[np.ndarray, ...], tuple[np.ndarray, ...]]:
        """Grids and CLS tokens of every layer."""
        maps = features if isinstance(features, Maps) else Maps(_several(features))
        grids, tokens = maps.grids, maps.cls or ()
        if len(grids) != len(self.layers):
            raise UsageError(
                f"{what}features of {counted(len(grids), 'layer')} came, and the probe reads {len(self.layers)}: give "
                "one array (n, h, w, d) a layer, and name the layers to get_probe, as layers=(2, 5, 8, 11)"
            )
        if bool(tokens) != self.measure.asked.cls:
            raise UsageError(
                "the probe reads CLS tokens: give probes.dense.Maps(grids, cls)"
                if self.measure.asked.cls
                else "the probe reads no CLS tokens; get_probe takes cls_token=True with the head dpt"
            )
        checked = tuple(checked_grid(grid, f"{what}features") for grid in grids)
        others = tuple(checked_tokens(each, f"{what}CLS tokens") for each in tokens)
        counts = {len(each) for each in (*checked, *others)}
        if len(counts) > 1:
            raise UsageError(
                f"{what}features of {_listed(sorted(counts))} images came, a layer each; wanted the same"
            )
        return checked, others

    def _stream(
        self, parts: Sequence[Part], roles: Sequence[str], *, ordered: bool = True
    ) -> tuple[Stream, Drawn]:
        """All parts, one behind the other; those that train in an order of their own."""
        orders, ids, start = [], {}, 0
        for part, role in zip(parts, roles, strict=True):
            own = np.arange(len(part.target))
            if ordered:
                own, ids[role] = part.ordered()
            orders.append(own + start)
            start += len(own)
        order = np.concatenate(orders)

        def rows(given: Sequence[tuple[np.ndarray, ...]]) -> list[Any]:
            return [Rowwise(arrays, order) for arrays in zip(*given, strict=True)]

        grids, tokens = rows([part.grids for part in parts]), rows([part.tokens for part in parts])
        (target,) = rows([(part.target,) for part in parts])
        return Stream(grids, tokens, target, self.kind, held=False), Drawn(ids)


def _answer(task: Task, measure: Dense, options: Options) -> Any:
    """What the task makes of a head's output."""
    maps = dict(options.truth)
    for name in maps:
        known = ("num_classes",) if task.name == "detection" else task.truth
        if name not in MAPS or name not in known:
            told = ", ".join(name for name in MAPS if name in known)
            raise UsageError(
                f"a probe of {task.name} on its own takes no {name}"
                + (f"; of its maps it is told {told}" if told else "; its maps need no telling")
            )
    if "max_depth" in maps:
        maps["max_depth"] = float(maps["max_depth"])
    if task.name in ("semantic_segmentation", "detection"):
        count, least = maps.get("num_classes"), 1 if task.name == "detection" else 2
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or not least <= count <= 255:
            raise UsageError(
                f"num_classes is {count!r}; say how many classes there are, from {least} to 255: num_classes=21, for "
                "example"
            )
        if task.name == "semantic_segmentation":
            return Segmentation(int(count))
    return measure.answer.task(replace(options, truth=maps), None)


def _several(features: Any) -> tuple[Any, ...]:
    """One array a layer, of an array or of several."""
    return tuple(features) if isinstance(features, list | tuple) else (features,)


def _check_alike(parts: Sequence[Part]) -> None:
    train, val = parts
    for ours, theirs in zip(train.grids, val.grids, strict=True):
        if ours.shape[1:] != theirs.shape[1:]:
            raise UsageError(
                f"training features are {ours.shape[1:]} an image and those of val {theirs.shape[1:]}"
            )
    if train.target.shape[1:] != val.target.shape[1:]:
        raise UsageError(
            f"training targets are {train.target.shape[1:]} an image and those of val {val.target.shape[1:]}"
        )


def _dims(part: Part) -> str:
    return _listed([grid.shape[-1] for grid in part.grids])


def _listed(values: Sequence[Any]) -> str:
    return " and ".join(map(str, values))
