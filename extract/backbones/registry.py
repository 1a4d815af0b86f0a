"""Backbones that users register under a name of their own."""

from __future__ import annotations

from collections.abc import Callable
from inspect import signature
from typing import Any, TypeVar

from extract.aliases import ALIASES
from extract.backbones.base import Backbone
from extract.backbones.custom import CustomBackbone
from extract.backbones.independence import refuse_dependence
from extract.errors import InputError

Factory = TypeVar("Factory", bound=Callable[..., Backbone])

REGISTERED: dict[str, Callable[..., Backbone]] = {}


def register_backbone(name: str) -> Callable[[Factory], Factory]:
    """Make `load(name, **options)` call the decorated class or function; registering again replaces it."""
    if ":" in name or name in ALIASES:
        raise InputError(f'"{name}" already means one of our backbones; register it under another name')

    def register(factory: Factory) -> Factory:
        REGISTERED[name] = factory
        return factory

    return register


def create(name: str, **options: Any) -> Backbone:
    """What the factory registered as `name` makes; it has to be a `Backbone`."""
    factory = REGISTERED[name]
    try:
        signature(factory).bind(**options)
    except TypeError as error:
        raise InputError(
            f'what is registered as "{name}" does not take {", ".join(options)} ({error}); leave it out, or let '
            "it take **options"
        ) from None
    except ValueError:  # of a factory in C, which shows no signature
        pass
    made = factory(**options)
    if not isinstance(made, Backbone):
        raise InputError(
            f'what is registered as "{name}" made a {type(made).__name__}; it has to make a Backbone, for '
            "instance CustomBackbone(module, preprocess)"
        )
    if not isinstance(made, CustomBackbone):  # which looked for itself
        refuse_dependence(made)
    return made
