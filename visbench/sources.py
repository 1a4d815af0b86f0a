"""The backbones of a call: found by name or taken as they are, with the taps they have and the controls beside them.

torch is imported only when one is loaded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from extract import taps as tap_names
from extract.errors import InputError
from extract.memo import Memo
from extract.requests import CONTROLS_HEED, WEIGHTS, Request, library_of, unheeded
from extract.resolve import resolve
from extract.spec import BackboneSpec
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
    shuffled: bool = False  # a control: the labels that train are put in a random order
    taps: tuple[str, ...] = ()  # of those asked for, the ones it has
    beside: Mapping[str, Any] = field(
        default_factory=dict
    )  # what a task reads of it beside features, for the record

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
    named, unless `every` one is wanted; one that no backbone has is a slip, and refused.
    """
    pairs = [(each, _heeded(each, backbones, options)) for each in backbones]
    sources = [source for each, heeded in pairs for source in _with_controls(each, heeded, memo)]
    if "pixels" in options.controls and "pixels" not in [source.asked for source in sources]:
        sources.append(find("pixels", _for_controls(options), memo))
    for source in sources:
        source.taps = _available(source, taps, every)
    asked = [source for source in sources if source.control is None] or sources
    for tap in taps:
        if not any(tap in source.taps for source in asked):
            tap_names.resolve(tap, asked[0].spec)  # refuses it, and says what there is
    for source in sources:
        _tell(source, taps)
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


def _tell(source: Source, taps: Sequence[str]) -> None:
    """What is left out, and what the backbone itself has to say; once, not again for its shuffled labels."""
    if source.shuffled:
        return
    if lacking := [tap for tap in taps if tap not in source.taps]:
        console.warn(f"{source.asked} has no {', '.join(lacking)}: left out")
    for note in source.spec.notes:
        console.warn(f"{source.asked}: {note}")


def _available(source: Source, taps: Sequence[str], every: bool) -> tuple[str, ...]:
    lacking: dict[str, InputError] = {}
    for tap in taps:
        try:
            tap_names.resolve(tap, source.spec)
        except InputError as error:
            lacking[tap] = error
    if len(lacking) == len(taps) or (every and lacking):
        raise next(iter(lacking.values()))
    return tuple(tap for tap in taps if tap not in lacking)


def resolved_taps(taps: Sequence[str], spec: BackboneSpec) -> list[Tap]:
    """What was asked, settled for this backbone."""
    return [tap_names.resolve(tap, spec) for tap in taps]


def describe(spec: BackboneSpec) -> Mapping[str, Any]:
    """A backbone for the record: all but its name, its weights (their own fields) and sizes that follow from it."""
    plain = spec.to_dict()
    return {key: value for key, value in plain.items() if key not in ("weights", "layer_grids")}
