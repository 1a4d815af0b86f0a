"""PyTorch side of visbench: images in, features in a store out.

Names are looked up when they are first used: a program that only reads a store never starts torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extract.backbones import BaseBackbone, CustomBackbone, load, register_backbone
    from extract.datasets import ImageSet, Splits, open_dataset
    from extract.loop import Extraction, extract
    from extract.memo import Memo
    from extract.requests import Request
    from extract.store import Store

__all__ = [
    "BaseBackbone",
    "CustomBackbone",
    "Extraction",
    "ImageSet",
    "Memo",
    "Request",
    "Splits",
    "Store",
    "extract",
    "load",
    "open_dataset",
    "register_backbone",
]

_HOMES = {
    "BaseBackbone": "extract.backbones",
    "CustomBackbone": "extract.backbones",
    "load": "extract.backbones",
    "register_backbone": "extract.backbones",
    "ImageSet": "extract.datasets",
    "Splits": "extract.datasets",
    "open_dataset": "extract.datasets",
    "Extraction": "extract.loop",
    "extract": "extract.loop",
    "Memo": "extract.memo",
    "Request": "extract.requests",
    "Store": "extract.store",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
