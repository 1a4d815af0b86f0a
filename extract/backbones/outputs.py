"""Reading what an unknown module returns, as declared: never by guessing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from extract.backbones.base import Layer
from extract.errors import InputError
from extract.wording import counted


@dataclass(frozen=True)
class Declared:
    """What the user said of a module's output."""

    prefix: int | None  # tokens before the patches; None where nothing was said
    has_cls: bool  # whether the first of them is a CLS token
    patch_size: int | None
    chosen: bool  # whether a function of the user's picked the output


def interpret(answer: Any, image: tuple[int, int], declared: Declared) -> Layer:
    """One layer's output for images of (h, w) pixels."""
    if isinstance(answer, Mapping) and declared.chosen and "patches" in answer:
        return _named(answer, image, declared)
    if isinstance(answer, Mapping) and isinstance(answer.get("last_hidden_state"), Tensor):
        answer = answer["last_hidden_state"]
    if not isinstance(answer, Tensor):
        raise InputError(
            f"the module returns {_shown(answer)}; say what to read of it with feature_fn=, for instance "
            "feature_fn=lambda module, images: module(images)[0]"
        )
    if answer.ndim == 3:
        return _tokens(answer, image, declared)
    if answer.ndim not in (2, 4):
        raise InputError(
            f"the module returns a tensor of {counted(answer.ndim, 'axis', 'axes')}; (b, d), (b, n, d) and (b, d, h, "
            "w) can be read, and feature_fn= can make one of them"
        )
    if declared.prefix:
        raise InputError(
            f"a prefix of {counted(declared.prefix, 'token')} was declared, but the module returns {_shown(answer)}, "
            "which has none; leave num_prefix_tokens= and has_cls_token= out, or let feature_fn= return the tokens"
        )
    return Layer.of_map(answer) if answer.ndim == 4 else Layer(answer[:, None][:, :0], answer[:, None], None)


def _tokens(tokens: Tensor, image: tuple[int, int], declared: Declared) -> Layer:
    if declared.prefix is None:
        raise InputError(
            f"the module returns {counted(tokens.shape[1], 'token')} an image; say how many come before the patches, "
            "CLS and registers together, with num_prefix_tokens= (0 for none), or has_cls_token= where it is CLS alone"
        )
    patches = tokens[:, declared.prefix :]
    if not patches.shape[1]:
        raise InputError(f"the prefix takes all {counted(tokens.shape[1], 'token')}, which leaves no patch")
    return Layer(tokens[:, : declared.prefix], patches, _grid(patches.shape[1], image, declared.patch_size))


def _named(answer: Mapping[str, Any], image: tuple[int, int], declared: Declared) -> Layer:
    """{"patches": …, "cls": …} from a function of the user's."""
    patches, cls = answer["patches"], answer.get("cls")
    if (cls is not None) != declared.has_cls:
        raise InputError(
            f"feature_fn returns {_shown(answer)}; has_cls_token={cls is not None} has to be declared with it"
        )
    bare = interpret(patches, image, Declared(0, False, declared.patch_size, chosen=True))
    return bare if cls is None else bare._replace(prefix=cls[:, None])


def _grid(count: int, image: tuple[int, int], patch_size: int | None) -> tuple[int, int] | None:
    """(h, w) where `patch_size` accounts for every token."""
    if patch_size is None:
        return None
    grid = (image[0] // patch_size, image[1] // patch_size)
    return grid if grid[0] * grid[1] == count else None


def _shown(answer: Any) -> str:
    if isinstance(answer, Tensor):
        return f"a tensor of shape {tuple(answer.shape)}"
    if isinstance(answer, Mapping):
        return f"a {type(answer).__name__} of {', '.join(map(str, answer))}"
    if isinstance(answer, list | tuple):
        return f"a {type(answer).__name__} of {len(answer)}"
    return f"a {type(answer).__name__}"
