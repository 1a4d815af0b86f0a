"""One way in for every backbone: `load("dinov2_vits14")`, `load("timm:…")`, `load(module, preprocess=…)`."""

from __future__ import annotations

from dataclasses import fields, replace
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from torch import nn

from extract.aliases import ALIASES
from extract.backbones.base import Backbone, Facts, Layer
from extract.backbones.custom import CustomBackbone
from extract.backbones.registry import REGISTERED, create, register_backbone
from extract.errors import InputError
from extract.requests import LIBRARIES, Request

BaseBackbone = Backbone

__all__ = [
    "Backbone",
    "BaseBackbone",
    "CustomBackbone",
    "Facts",
    "Layer",
    "load",
    "register_backbone",
]

_LOADERS = {
    "timm": "extract.backbones.timm",
    "open_clip": "extract.backbones.open_clip",
    "torchvision": "extract.backbones.torchvision",
    "package": "extract.backbones.packaged",
    "control": "extract.backbones.controls",
}
assert set(_LOADERS) == set(LIBRARIES)


def load(what: str | Request | nn.Module | Backbone, **options: Any) -> Backbone:
    """A frozen backbone, ready for `features`.

    `what` is a name or a `Request` (`options` are then `Request`'s fields), or a module of yours (`options`
    are then those of `CustomBackbone`).  A registered name hands `options` to what was registered.
    """
    if isinstance(what, Backbone):
        return what
    if isinstance(what, nn.Module):
        return CustomBackbone(what, **options)
    name = what if isinstance(what, str) else what.name
    if name in REGISTERED:
        return create(name, **(options if isinstance(what, str) else what.changed()))
    request = _request(name, options) if isinstance(what, str) else replace(what, **options)
    if request.library is None:
        raise InputError(_unknown(name))
    for option in ("patch_size", "num_prefix_tokens"):
        if getattr(request, option) is not None:
            raise InputError(
                f"{option} of {name} is known; that option is for modules of your own, leave it out"
            )
    backbone: Backbone = import_module(_LOADERS[request.library]).load(request)
    return backbone


def _request(name: str, options: dict[str, Any]) -> Request:
    known = {field.name for field in fields(Request)}
    for option in options:
        if option not in known:
            near = get_close_matches(option, known, n=1)
            hint = (
                f"; did you mean {near[0]}?" if near else f"; there are {', '.join(sorted(known - {'name'}))}"
            )
            raise InputError(f"{name} has no option {option}{hint}")
    return Request(name, **options)


def _unknown(name: str) -> str:
    import timm

    near = get_close_matches(name, [*ALIASES, *REGISTERED], n=3)
    near = [f"timm:{name}"] if timm.is_model(name.partition(".")[0]) else near
    hint = f"did you mean {' or '.join(near)}? " if near else ""
    return (
        f'there is no backbone "{name}"; {hint}`visbench list backbones` names the short ones, and '
        "timm:MODEL, open_clip:ARCH/WEIGHTS and torchvision:MODEL reach all others"
    )
