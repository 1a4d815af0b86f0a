"""Texts in the space of a contrastive model's images: embedded once, then read from the feature store.

A row's id is a digest of the text; its identity is the text tower with its tokenizer.  Needs no torch where the tower
was seen before and every text is stored.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from extract.aliases import ALIASES
from extract.errors import InputError
from extract.ids import ID_BYTES
from extract.requests import Request
from extract.resolve import Remembers
from extract.spec import Identity, digest_json
from extract.store import Store

if TYPE_CHECKING:
    from extract.backbones.text import TextTower

READING = 1  # counted up when our way of embedding a text changes
BATCH = 64
_KIND = "text tower"


@dataclass(frozen=True)
class TextSpec:
    """All that is known of a text tower without its weights."""

    name: str  # as a request would say it
    architecture: str
    library: str
    weights: str  # digest of the text tower's parameters and buffers
    image_weights: str  # of the image tower that it was loaded with, as the backbone's spec has it
    image_pool: str  # the tap of the last layer that, projected, is the image embedding: cls or mean
    dims: int  # of the space that texts and images share
    tokenizer: Mapping[str, Any]
    options: Mapping[str, Any]
    random_params: int = 0

    def identity(self) -> Identity:
        """Of the rows it gives: all that could change a number."""
        plain: dict[str, Any] = {
            "reading": READING,
            "architecture": self.architecture,
            "library": self.library,
            "weights": self.weights,
            "options": dict(self.options),
            "tokenizer": dict(self.tokenizer),
            "tap": "text",
            "dtype": "float32",
        }
        return Identity(digest_json(plain), json.loads(json.dumps(plain)))


def resolve(request: Request | None, name: str, memo: Remembers) -> TextSpec:
    """The text tower that belongs to the image tower of `request`, remembered or found by loading it.

    `name` is what the backbone is called; `request` is None where it came as an object.
    """
    request = refuse_textless(request, name)
    known = memo.recall(_KIND, request.key())
    if known is not None:
        return TextSpec(**known)
    spec = _load(request).spec
    memo.remember(_KIND, request.key(), asdict(spec))
    return spec


def refuse_textless(request: Request | None, name: str) -> Request:
    """The request, where its model has a text tower that can be had; otherwise what to ask instead."""
    if request is None:
        raise InputError(
            f"{name} came as a loaded backbone, which is the image tower alone; texts are embedded by the tower "
            "beside it, so give the backbone by its name"
        )
    if request.library != "open_clip":
        known = ", ".join(alias for alias, full in ALIASES.items() if full.startswith("open_clip:"))
        raise InputError(
            f"{name} has no text tower, and class names are compared as texts; take {known} or another "
            "open_clip:ARCH/TAG"
        )
    return request


def text_ids(texts: Sequence[str]) -> np.ndarray:
    """(m, 16) row ids of texts."""
    rows = [hashlib.blake2b(text.encode(), digest_size=ID_BYTES, person=b"text").digest() for text in texts]
    return np.frombuffer(b"".join(rows), np.uint8).reshape(-1, ID_BYTES)


def lacking(spec: TextSpec, texts: Sequence[str], store: Store) -> list[str]:
    """Those of `texts` that are not stored, each once."""
    distinct = list(dict.fromkeys(texts))
    present = store.present(spec.identity().digest, text_ids(distinct))
    return [text for text, there in zip(distinct, present, strict=True) if not there]


def ensure(
    request: Request,
    spec: TextSpec,
    texts: Sequence[str],
    *,
    store: Store,
    device: str | None = None,
    progress: Callable[[int], None] | None = None,
) -> None:
    """See that the embedding of every text is stored; loads the tower where one is missing."""
    todo = lacking(spec, texts, store)
    if not todo:
        return
    store.refuse_unwritable()
    tower = _load(request)
    if tower.spec != spec:
        raise InputError(
            f"the weights of {spec.name} changed while they were in use; start again once the file is at rest"
        )
    tower.refuse_long(todo)
    tower.to(device)
    with store.writer(spec.identity(), (spec.dims,), "float32") as writer:
        for start in range(0, len(todo), BATCH):
            batch = todo[start : start + BATCH]
            writer.add(text_ids(batch), tower.embed(batch))
            if progress is not None:
                progress(len(batch))


def read(spec: TextSpec, texts: Sequence[str], store: Store) -> np.ndarray:
    """(m, d) float32 embeddings of stored texts, in their order; not normalised."""
    rows: np.ndarray = store.view(spec.identity().digest, text_ids(texts)).read()
    return rows


def _load(request: Request) -> TextTower:
    from extract.backbones import text  # brings in torch

    return text.load(request)
