"""What several loaders refuse, in the same words."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from extract.errors import InputError
from extract.requests import Request

_SHOWN = 12


def check_size(size: int, patch: int | None, name: str) -> None:
    """Refuse an image size that patches do not fill."""
    if patch and size % patch:
        below, above = size // patch * patch, -(-size // patch) * patch
        nearest = f"{below} and {above}" if below else str(above)
        raise InputError(
            f"{name} cuts images into patches of {patch} pixels and {size} is no multiple of that; the nearest "
            f"image sizes are {nearest} (--image-size)"
        )


def no_projection(request: Request) -> None:
    """Refuse projection=True where there is nothing that projects."""
    if request.projection:
        raise InputError(
            f"{request.name} has no projection; projection=True (--projection) is for the CLIP models of open_clip"
        )


def no_norm(norm: bool, name: str) -> None:
    """Refuse norm=False where layers pass no norm anyway."""
    if not norm:
        raise InputError(
            f"the stages of {name} pass no norm of the model's, so norm=False (--no-norm) says nothing; leave it out"
        )


def unknown(name: str, known: Sequence[str], sentence: str) -> InputError:
    """`sentence`, and then the nearest of `known`, or all of a few."""
    near = get_close_matches(name, known, n=3)
    if near:
        return InputError(f"{sentence}; did you mean {' or '.join(near)}?")
    more = f" and {len(known) - _SHOWN} more" if len(known) > _SHOWN else ""
    return InputError(f"{sentence}; there are {', '.join(known[:_SHOWN]) or 'none'}{more}")
