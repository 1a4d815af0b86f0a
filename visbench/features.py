"""The features of one backbone for the images of a run: what is stored is read, what is missing extracted.

torch is imported only where something is missing, or a backbone was never seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from extract import plan as planning
from extract import taps as tap_names
from extract.datasets import ImageSet, Lazy
from extract.errors import InputError
from extract.images import policy
from extract.memo import Memo
from extract.plan import Plan
from extract.requests import CONTROLS_HEED, WEIGHTS, Request, library_of, unheeded
from extract.resolve import resolve
from extract.spec import BackboneSpec
from extract.store import Store
from extract.taps import Tap
from extract.wording import counted
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
    shuffled: bool = False  # a control: the labels that train are put in a random order
    taps: tuple[str, ...] = ()  # of those asked for, the ones it has

    @property
    def control(self) -> str | None:
        """What kind of control this is, if it is one."""
        if self.shuffled:
            return "shuffled labels"
        if self.spec.library == "visbench":
            return self.spec.name
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
        backbone = Request(backbone, **_told(options))
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


def _told(options: Options) -> dict[str, Any]:
    """What `options` say to a backbone that is asked for by name."""
    named = {"checkpoint": options.checkpoint, "image_size": options.image_size}
    return named | dict(options.backbone_options)


def _own_size(spec: BackboneSpec) -> int | str:
    size: int | str = spec.transform["size"]
    return size


def _refuse_named_options(spec: BackboneSpec, options: Options) -> None:
    """Refuse what a finished backbone can no longer heed."""
    given = set(Request("any", **_told(options)).changed())
    if options.image_size == _own_size(spec):
        given.discard("image_size")
    if given:
        raise UsageError(
            f"{spec.name} is loaded already, so {', '.join(sorted(given))} would change nothing; "
            "say it to get_backbone or CustomBackbone, or name the backbone here"
        )


def find_all(
    backbones: Sequence[Any], taps: Sequence[str], options: Options, memo: Memo, *, every: bool = False
) -> list[Source]:
    """The sources of `backbones` and their controls, notes said; refused where one has none of the taps.

    Of several taps, which a sweep asks of all backbones alike, those that a backbone lacks are left out and
    named, unless `every` one is wanted.
    """
    pairs = [(each, _heeded(each, backbones, options)) for each in backbones]
    sources = [source for each, heeded in pairs for source in _with_controls(each, heeded, memo)]
    if "pixels" in options.controls and "pixels" not in [source.asked for source in sources]:
        sources.append(find("pixels", _for_controls(options), memo))
    for source in sources:
        source.taps = _available(source, taps, every)
        for note in source.spec.notes if not source.shuffled else ():
            console.warn(f"{source.asked}: {note}")
    return sources


def _heeded(backbone: Any, backbones: Sequence[Any], options: Options) -> Options:
    """Without what is meant for the others: a control beside them heeds what means something to it, and says so."""
    if not _is_control(backbone) or all(map(_is_control, backbones)):
        return options
    if idle := unheeded(Request("any", **_told(options))):
        console.note(f"{backbone}: without weights or tokens it has no use for {idle}")
    return _for_controls(options)


def _for_controls(options: Options) -> Options:
    heeded = {key: value for key, value in options.backbone_options.items() if key in CONTROLS_HEED}
    return replace(options, checkpoint=None, backbone_options=heeded)


def _is_control(backbone: Any) -> bool:
    return isinstance(backbone, str) and library_of(backbone) == "control"


def _with_controls(backbone: Any, options: Options, memo: Memo) -> list[Source]:
    source = find(backbone, options, memo)
    found = [source]
    if "random-weights" in options.controls and source.control is None:
        if source.request is None:
            raise UsageError(
                f"{source.asked} is loaded already, so its weights cannot be drawn anew; give a control with random "
                "weights as a backbone of its own"
            )
        bare = {key: value for key, value in options.backbone_options.items() if key not in WEIGHTS}
        bare["pretrained"] = False
        found.append(find(backbone, replace(options, checkpoint=None, backbone_options=bare), memo))
    if "shuffle" in options.controls and source.control is None:
        found.append(replace(source, shuffled=True))
    return found


def _available(source: Source, taps: Sequence[str], every: bool) -> tuple[str, ...]:
    lacking: dict[str, InputError] = {}
    for tap in taps:
        try:
            tap_names.resolve(tap, source.spec)
        except InputError as error:
            lacking[tap] = error
    if len(lacking) == len(taps) or (every and lacking):
        raise next(iter(lacking.values()))
    if lacking and not source.shuffled:
        console.note(f"{source.asked} has no {', '.join(lacking)}: left out")
    return tuple(tap for tap in taps if tap not in lacking)


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
    return ImageSet(sets[0].name, None, Lazy(len(names), get), tuple(names))


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
    spent = Spent(cached=plan.cached, converted=_converted(ids, memo, options))
    if not plan.passes:
        return plan, spent
    if not options.extract:
        raise UsageError(
            f"no stored features of {source.asked} at {', '.join(map(str, taps))} for {plan.passes:,} of "
            f"{counted(len(ids), 'image')}; `visbench extract` computes them, and `visbench run` does both"
        )
    check_room(plan, store)
    from extract.loop import extract  # brings in torch

    lying = sorted(range(len(images)), key=images.names.__getitem__)  # files of one folder are read together
    images, ids = images.subset(lying), ids[lying]
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
    spent.unreadable, spent.converted = done.unreadable, _converted(ids, memo, options)
    if done.converted:
        listed = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(done.converted.items()))
        console.note(f"{source.asked}: images converted on reading, by kind: {listed}")
    return plan, spent


def _converted(ids: np.ndarray, memo: Memo, options: Options) -> dict[str, int]:
    """Kind of conversion → images, as far as it is remembered from when they were read."""
    kinds = memo.remarks("converted", ids, policy(options.max_pixels)).values()
    return dict(sorted(Counter(kinds).items()))


def check_room(plan: Plan, store: Store) -> None:
    """Refuse an extraction that the store cannot keep, or its disk cannot hold."""
    if plan.passes:
        store.refuse_unwritable()
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
