"""The features of one backbone for the images of a run: what is stored is read, what is missing extracted.

torch is imported only where something is missing, or a backbone was never seen.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from extract import plan as planning
from extract import taps as tap_names
from extract.datasets import ImageSet, Lazy
from extract.memo import Memo
from extract.plan import Plan
from extract.requests import Request
from extract.resolve import resolve
from extract.spec import BackboneSpec
from extract.store import Store
from extract.taps import Tap
from visbench import console
from visbench.errors import UsageError
from visbench.options import Options

if TYPE_CHECKING:
    from extract.backbones import Backbone


@dataclass
class Source:
    """A backbone as a run knows it: by its spec, and loaded only when it must compute."""

    asked: str
    spec: BackboneSpec
    request: Request | None = None  # how to load it again
    loaded: Backbone | None = None
    image_size: int | str = 224  # as asked; of a backbone with a size of its own, that

    @property
    def control(self) -> str | None:
        """What kind of control this is, if it is one."""
        if self.asked == "pixels":
            return "pixels"
        return "random weights" if 0 < self.spec.num_params <= self.spec.random_params else None

    def load(self) -> Backbone:
        """The backbone itself; brings in torch."""
        if self.loaded is None:
            from extract.backbones import load

            assert self.request is not None
            self.loaded = load(self.request)
        return self.loaded


@dataclass
class Spent:
    """What extraction did for one backbone."""

    computed: int = 0
    cached: int = 0
    seconds: float = 0.0
    unreadable: dict[str, str] = field(default_factory=dict)
    converted: dict[str, int] = field(default_factory=dict)


def find(backbone: Any, options: Options, memo: Memo) -> Source:
    """The source for a name, a `Request`, or a backbone object (`visbench.CustomBackbone`, `get_backbone`)."""
    if isinstance(backbone, str):
        backbone = Request(
            backbone,
            checkpoint=options.checkpoint,
            image_size=options.image_size,
            **dict(options.backbone_options),
        )
    if isinstance(backbone, Request):
        spec = resolve(backbone, memo)
        size = backbone.image_size if backbone.library else _own_size(spec)  # a factory may have its own
        return Source(backbone.name, spec, request=backbone, image_size=size)
    if isinstance(getattr(backbone, "spec", None), BackboneSpec):
        spec = backbone.spec
        _refuse_named_options(spec, options)
        return Source(spec.alias or spec.name, spec, loaded=backbone, image_size=_own_size(spec))
    raise UsageError(
        f"a {type(backbone).__name__} is no backbone: give a name, or wrap a module as "
        "visbench.CustomBackbone(module, preprocess=…)"
    )


def _own_size(spec: BackboneSpec) -> int | str:
    size: int | str = spec.transform["size"]
    return size


def _refuse_named_options(spec: BackboneSpec, options: Options) -> None:
    """Refuse what a finished backbone can no longer heed."""
    plain = Request(spec.name)
    given = {key for key, value in options.backbone_options.items() if value != getattr(plain, key)}
    if options.checkpoint is not None:
        given.add("checkpoint")
    if options.image_size not in (plain.image_size, _own_size(spec)):
        given.add("image_size")
    if given:
        raise UsageError(
            f"{spec.name} is loaded already, so {', '.join(sorted(given))} would change nothing; "
            "say it to get_backbone or CustomBackbone, or name the backbone here"
        )


def find_all(backbones: Sequence[Any], taps: Sequence[str], options: Options, memo: Memo) -> list[Source]:
    """The sources of `backbones`, their notes said; refused before anything runs if one lacks a tap."""
    sources = [find(backbone, options, memo) for backbone in backbones]
    for source in sources:
        resolved_taps(taps, source.spec)
        for note in source.spec.notes:
            console.warn(f"{source.asked}: {note}")
    return sources


def concat(sets: Sequence[ImageSet]) -> ImageSet:
    """Several sets as one, in order, labels left behind: what extraction sees of a run."""
    starts = np.cumsum([0, *map(len, sets)])

    def get(position: int) -> Any:
        which = int(starts.searchsorted(position, side="right")) - 1
        return sets[which].sources[position - int(starts[which])]

    names = [name for each in sets for name in each.names]
    if len(set(names)) < len(names):  # the same set in two roles
        names = [f"{each.split or each.name}: {name}" for each in sets for name in each.names]
    if len(set(names)) < len(names):
        names = [f"{number}: {name}" for number, name in enumerate(names)]
    return ImageSet(sets[0].name, None, Lazy(len(names), get), tuple(names), root=sets[0].root)


def ensure(
    source: Source,
    images: ImageSet,
    ids: np.ndarray,
    taps: Sequence[str],
    options: Options,
    *,
    store: Store,
    memo: Memo,
) -> tuple[Plan, Spent]:
    """See that every row of `taps` is stored, extracting what is missing in one pass."""
    plan = planning.make(source.spec, taps, ids, store=store, dtype=options.dtype)
    spent = Spent(cached=plan.cached)
    if not plan.passes:
        return plan, spent
    if not options.extract:
        raise UsageError(
            f"{plan.passes} of {len(ids)} images have no stored features of {source.asked} at "
            f"{', '.join(map(str, taps))}; `visbench extract` computes them, and `visbench run` does both"
        )
    check_room(plan, store)
    from extract.loop import extract  # brings in torch

    backbone = source.load()
    with console.progress("extracting", source.asked, total=plan.passes) as advance:
        done = extract(
            backbone,
            images,
            taps,
            store=store,
            memo=memo,
            ids=ids,
            dtype=options.dtype,
            batch_size=options.batch_size,
            workers=options.workers,
            device=options.device,
            on_bad=options.on_bad,
            max_pixels=options.max_pixels,
            progress=advance,
        )
    spent.computed, spent.seconds = done.computed, done.seconds
    spent.unreadable, spent.converted = done.unreadable, dict(done.converted)
    return plan, spent


def check_room(plan: Plan, store: Store) -> None:
    """Refuse an extraction that the store's disk cannot hold."""
    free = store.free_bytes()
    if free is not None and plan.bytes > free:
        grids = [str(tap) for tap in plan.identities if not tap.pooled]
        smaller = (
            "a pooled tap such as mean needs far less" if grids else "--limit takes fewer images a class"
        )
        raise UsageError(
            f"the features need {console.size(plan.bytes)}, and {store.url} has {console.size(free)} free; "
            f"choose another --store, or {smaller}"
        )


def read(plan: Plan, tap: str, ids: np.ndarray, store: Store) -> np.ndarray:
    """(n, …) the rows of `ids` under a tap of `plan`, whole, as stored."""
    resolved = tap_names.resolve(tap, plan.spec)
    rows: np.ndarray = store.view(plan.identities[resolved].digest, ids).read()
    return rows


def resolved_taps(taps: Sequence[str], spec: BackboneSpec) -> list[Tap]:
    """What was asked, settled for this backbone."""
    return [tap_names.resolve(tap, spec) for tap in taps]


def describe(spec: BackboneSpec) -> Mapping[str, Any]:
    """A backbone for the record: all but its name, its weights (their own fields) and sizes that follow from it."""
    plain = spec.to_dict()
    return {key: value for key, value in plain.items() if key not in ("weights", "layer_grids")}
