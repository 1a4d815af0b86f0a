"""A read-out of relative pose from pooled features of pairs: settings chosen on held-out images, then a refit.

Takes arrays; `relative_pose` is what a run calls.  Axes: n images, d dims, p pairs, s settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import jax
import numpy as np

from extract.ids import keys
from probes import checks, linked, pose, scaling, shapes
from probes.metrics import pose as metric
from visbench.choosing import Fold
from visbench.errors import UsageError, did_you_mean
from visbench.grid import Grid, Setting
from visbench.pose_reading import Pairs
from visbench.pose_reading import pictures as numbered
from visbench.pose_scoring import HEADLINE
from visbench.searching import Arm, Found, Search
from visbench.selection import HOLDOUT, content_ids, holdout

LEAVES = ("learning_rate", "weight_decay")
CLASSIC = {"learning_rate": (1e-3,), "weight_decay": (1e-4,)}
USUAL = {"learning_rate": (3e-4, 1e-3, 3e-3), "weight_decay": (1e-4, 1e-2)}
EPOCHS, BATCH = 30, 128
SETTINGS = (*LEAVES, "epochs", "train_batch_size", "standardize")


@dataclass(frozen=True)
class Settings:
    """What is asked of a training: the numbers that are tried side by side, and what is the same for all."""

    learning_rate: tuple[float, ...]
    weight_decay: tuple[float, ...]
    epochs: int
    train_batch_size: int
    standardize: bool

    @property
    def grid(self) -> Grid:
        """Every setting that is tried."""
        return Grid({name: getattr(self, name) for name in LEAVES})


def make_settings(given: Mapping[str, Any], *, classic: bool = False) -> Settings:
    """What `given` asks for; an unknown setting or a bad value is refused."""
    for name in given:
        if name not in SETTINGS:
            raise UsageError(
                f"relative_pose has no setting {name}.{did_you_mean(name, SETTINGS)} "
                f"Its settings: {', '.join(SETTINGS)}."
            )
    usual: dict[str, Any] = {**(CLASSIC if classic else USUAL), "epochs": EPOCHS, "train_batch_size": BATCH}
    told = {**usual, "standardize": not classic, **given}
    if not isinstance(told["standardize"], bool):
        raise UsageError(f"standardize is {told['standardize']!r}; it is on or off (True or False)")
    return Settings(
        _numbers("learning_rate", told["learning_rate"]),
        _numbers("weight_decay", told["weight_decay"]),
        _count("epochs", told["epochs"]),
        _count("train_batch_size", told["train_batch_size"]),
        told["standardize"],
    )


@dataclass(frozen=True)
class Trained:
    """The fits of several settings on the same pairs, and how features were scaled for them."""

    fits: pose.Fit  # leaves with a leading axis of settings
    scaling: scaling.Scaling | None

    def predict(self, rows: Pairs) -> Iterator[np.ndarray]:
        """(p, 7) of every setting, float64; a quaternion of NaN where the training diverged."""
        features = rows.features if self.scaling is None else scaling.apply(self.scaling, rows.features)
        padded = shapes.pad(rows.members.astype(np.int32), shapes.bucket(len(rows)))
        for number in range(len(self.fits.train_loss)):
            one = jax.tree.map(lambda leaf, number=number: leaf[number], self.fits)
            said = np.asarray(pose.predict(one, features, padded), np.float64)[: len(rows)]
            yield said

    def errors(self, rows: Pairs) -> list[dict[str, np.ndarray]]:
        """Both errors of each pair, for every setting."""
        return [metric.errors(said, rows.pose) for said in self.predict(rows)]


def train(rows: Pairs, settings: Sequence[Setting], asked: Settings, seed: int) -> Trained:
    """All settings on the same pairs; features are standardised by the images that stand in them."""
    scaler = None
    features = rows.features
    if asked.standardize:
        scaler = scaling.fit(features[np.unique(rows.members)])
        features = np.asarray(scaling.apply(scaler, features))
    values = [np.array([setting[name] for setting in settings], np.float32) for name in LEAVES]
    fits = pose.path(
        features,
        rows.members,
        rows.pose,
        pose.Hparams(*values),
        key=jax.random.key(seed),
        epochs=asked.epochs,
        batch_size=asked.train_batch_size,
    )
    return Trained(fits, scaler)


@dataclass(frozen=True)
class HeldOut:
    """Compares settings by the mean rotation error of held-out pairs; a replicate is (fold, seed)."""

    rows: Any  # tap → the training pairs and, behind them, those of val
    folds: Sequence[Fold]
    asked: Any  # arm → its settings

    def __call__(
        self, arm: Arm, settings: Sequence[Setting], replicate: tuple[int, int]
    ) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """All settings at once: their places and errors."""
        rows, fold = self.rows(arm), self.folds[replicate[0]]
        trained = train(rows.take(fold.fits), settings, self.asked(arm), replicate[1])
        held = trained.errors(rows.take(fold.held))
        yield (
            np.arange(len(settings)),
            np.array([each[HEADLINE].mean() for each in held]),
        )


def held_out(members: np.ndarray, images: np.ndarray) -> Fold:
    """Pairs to fit and pairs to compare settings on, with no picture on both sides.

    A fifth of each scene's pictures is held out, by content; pairs of one picture of either kind serve neither.  Where
    scenes are so small that no pair is left of those, whole scenes are held out instead.
    """
    pictures = numbered(members, images)
    scenes = linked.scenes(pictures)
    used, first = np.unique(pictures, return_index=True)
    of_picture = np.repeat(scenes, 2)[first]
    ids = images[members.ravel()[first]]
    for strata, units in ((of_picture, ids), (np.zeros(len(used), int), _scene_ids(of_picture, ids))):
        held = np.zeros(int(used.max()) + 1, bool)
        held[used] = holdout(units, strata, HOLDOUT)
        kind = held[pictures].sum(axis=1)
        if (kind == 0).any() and (kind == 2).any():
            return Fold(np.flatnonzero(kind == 0), np.flatnonzero(kind == 2))
    raise UsageError(
        f"{len(used)} training images are too few to hold some out to choose settings on; give a val split, or fix "
        "the setting (for example --lr 1e-3 --weight-decay 1e-4)"
    )


class PoseProbe:
    """A read-out of relative pose from features of pairs of images.

    `fit` chooses among the settings where there are several, on `val` if given, else on a fifth of the images, and
    trains the best on all pairs.
    """

    def __init__(
        self,
        *,
        refit: bool = True,
        widen: bool = False,
        seed: int = 0,
        pooling: str = "default",
        layers: tuple[int, ...] | None = None,
        **settings: Any,
    ) -> None:
        self.asked = make_settings(settings)
        self.refit, self.widen, self.seed = refit, widen, seed
        self.pooling, self.layers = pooling, layers
        self.trained: Trained | None = None
        self.setting: Setting = {}
        self.found: Found | None = None

    def fit(
        self, features: Any, members: Any, poses: Any, *, val: tuple[Any, Any, Any] | None = None
    ) -> Self:
        """Learn from features (n, d), places (p, 2) among them and relative poses (p, 7); `val` is three such."""
        train_rows = as_pairs(features, members, poses)
        val_rows = None if val is None else as_pairs(*val)
        rows, grid = train_rows.join(val_rows), self.asked.grid
        fits = np.arange(len(train_rows))
        self.setting = grid.settings()[0]
        if len(grid) > 1:
            fold = held_out(rows.members, rows.images)
            if val_rows is not None:
                fold = Fold(fits, np.arange(len(train_rows), len(rows)))
            measure = HeldOut(lambda arm: rows, [fold], lambda arm: self.asked)
            search = Search(measure, [(0, self.seed)], lower=True)
            self.found = search.run([Arm({}, grid)], widen=self.widen)
            self.setting, fits = self.found.chosen, fold.fits
        chosen = rows if self.refit else rows.take(fits)
        self.trained = trained_well(chosen, self.setting, self.asked, self.seed)
        return self

    def predict(self, features: Any, members: Any) -> np.ndarray:
        """(p, 7) poses of the second camera relative to the first: quaternion with w ≥ 0, metres."""
        if self.trained is None:
            raise UsageError("this probe is not fitted yet; call fit first")
        rows = checks.check_features(features)
        places = pose.check_members(members, len(rows))
        (said,) = self.trained.predict(Pairs(rows, np.empty((0, 16)), places, np.empty((0, 7))))
        return said

    def evaluate(self, features: Any, members: Any, poses: Any) -> dict[str, float]:
        """The metrics of pairs."""
        said = self.predict(features, members)
        _, true = pose.check_pairs(members, poses, len(np.asarray(features)))
        return {name: float(each) for name, each in metric.value(**metric.errors(said, true)).items()}


def as_pairs(features: Any, members: Any, poses: Any) -> Pairs:
    """Arrays that belong together; images are told apart by their features."""
    rows = checks.check_features(features)
    places, true = pose.check_pairs(members, poses, len(rows))
    return Pairs(rows, content_ids(rows), places, true)


def trained_well(rows: Pairs, setting: Setting, asked: Settings, seed: int) -> Trained:
    """One setting; refused where it diverges."""
    trained = train(rows, [setting], asked, seed)
    if not np.isfinite(np.asarray(trained.fits.train_loss)).all():
        raise UsageError("the read-out diverged; try a smaller learning rate (--lr)")
    return trained


def _scene_ids(scenes: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """(m, 16) for each picture the least id of its scene, so that those of one scene go together."""
    order = np.lexsort((keys(ids), scenes))
    _, first = np.unique(scenes[order], return_index=True)
    return np.asarray(ids[order][first][np.unique(scenes, return_inverse=True)[1]])


def _numbers(name: str, values: Any) -> tuple[float, ...]:
    listed = values if isinstance(values, tuple | list) else (values,)
    for each in listed:
        number = isinstance(each, int | float) and not isinstance(each, bool)
        if not number or not 0 <= each < float("inf") or (each == 0 and name == "learning_rate"):
            raise UsageError(f"{name} is {each!r}; it must be a finite number, and 0 only as a weight_decay")
    if not listed:
        raise UsageError(f"{name} is empty; give at least one number")
    return tuple(dict.fromkeys(float(each) for each in listed))


def _count(name: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 1 or value != int(value):
        raise UsageError(f"{name} is {value!r}; it counts, so it must be a whole number from 1")
    return int(value)
