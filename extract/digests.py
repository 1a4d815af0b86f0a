"""Digests of weights, and of code that a user hands over.

Code counts by what it does: bytecode, constants, defaults, closures, and the globals it names; code of an
installed package counts by its name and version.  What cannot be read that way (an open file, a lock) makes
the digest None, and the caller asks for a name.
"""

from __future__ import annotations

import enum
import functools
import hashlib
import sys
import types
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any

import numpy as np


def weights_digest(tensors: Mapping[str, Any]) -> str:
    """32 hex digits of a state dict: sorted names, dtypes, shapes and bytes."""
    total = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        total.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        total.update(_tensor_bytes(tensor))
    return total.hexdigest()[:32]


def code_token(thing: Any) -> str | None:
    """A short token of a callable: its name and a digest; None where part of it cannot be compared."""
    try:
        text = _text(thing, frozenset())
    except _OpaqueError:
        return None
    return f"{getattr(thing, '__qualname__', type(thing).__qualname__)} {_short(text)}"


def module_token(module: Any, *readers: Any) -> str | None:
    """The same of an `nn.Module` apart from its weights: every submodule's code and settings, and `readers`."""
    try:
        parts = [f"{path}: {_module_text(part)}" for path, part in module.named_modules()]
        return _short("\n".join([*parts, _texts(readers, frozenset())]))
    except _OpaqueError:
        return None


class _OpaqueError(Exception):
    pass


def _short(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _module_text(module: Any) -> str:
    """Installed modules show their settings; those of a user are their class's code and plain attributes."""
    kind = _text(type(module), frozenset())
    if _is_installed(type(module).__module__):
        return f"{kind}({module.extra_repr()})"
    own = {key: value for key, value in vars(module).items() if key[0] != "_" and key != "training"}
    return f"{kind}({_text(own, frozenset())})"


def _tensor_bytes(tensor: Any) -> memoryview:
    import torch

    return memoryview(tensor.reshape(-1).view(torch.uint8).numpy())


def _text(value: Any, seen: frozenset[int]) -> str:
    """`value` as text that is equal where the value is."""
    if value is None or isinstance(value, bool | int | float | complex | str | bytes | enum.Enum | type(...)):
        return repr(value)
    if id(value) in seen:
        return "again"
    seen = seen | {id(value)}
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, list | tuple):
        return f"{type(value).__name__}({_texts(value, seen)})"
    if isinstance(value, set | frozenset):
        return f"set({', '.join(sorted(_text(item, seen) for item in value))})"
    if isinstance(value, Mapping):
        return f"map({', '.join(sorted(f'{_text(k, seen)}: {_text(v, seen)}' for k, v in value.items()))})"
    if isinstance(value, np.ndarray):
        return f"array {value.dtype} {value.shape} {hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, types.CodeType):
        return f"code({value.co_code.hex()}, {_texts((*value.co_consts, *value.co_names), seen)})"
    if isinstance(value, functools.partial):
        return f"partial({_texts((value.func, value.args, value.keywords), seen)})"
    if isinstance(value, types.MethodType):
        return f"method({_texts((value.__func__, value.__self__), seen)})"
    if isinstance(value, property):
        return f"property({_texts((value.fget, value.fset), seen)})"
    if isinstance(value, types.FunctionType | types.BuiltinFunctionType | type):
        return _definition(value, seen)
    return _instance(value, seen)


def _texts(values: Iterable[Any], seen: frozenset[int]) -> str:
    return ", ".join(_text(value, seen) for value in values)


def _definition(value: Any, seen: frozenset[int]) -> str:
    """A function or class: by name and version where it is installed, else by its code."""
    name = f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, types.FunctionType | type) or _is_installed(value.__module__):
        return f"{name} {_package_version(value.__module__)}"
    if isinstance(value, type):
        members = {key: member for key, member in vars(value).items() if _counts(key, member)}
        return f"class {name}({_texts((value.__bases__, members), seen)})"
    cells = [cell.cell_contents for cell in value.__closure__ or ()]
    named = [value.__globals__[key] for key in _names(value.__code__) if key in value.__globals__]
    parts = (value.__code__, value.__defaults__, value.__kwdefaults__, cells, named)
    return f"function({_texts(parts, seen)})"


def _counts(key: str, member: Any) -> bool:
    """Whether a class member can change a number: methods and plain attributes, not Python's bookkeeping."""
    return callable(member) if key.startswith("__") else key != "_abc_impl"


def _names(code: types.CodeType) -> list[str]:
    """What `code` and the functions inside it look up by name."""
    inner = [name for const in code.co_consts if isinstance(const, types.CodeType) for name in _names(const)]
    return sorted({*code.co_names, *inner})


def _instance(value: Any, seen: frozenset[int]) -> str:
    """An object: its class and its attributes, or a plain repr where that shows no address."""
    kind = _text(type(value), seen)
    if type(value).__module__.partition(".")[0] == "torch" and hasattr(value, "untyped_storage"):
        return f"{kind} {weights_digest({'': value})}"
    if hasattr(value, "__dict__"):
        return f"{kind}({_text(vars(value), seen)})"
    shown = repr(value)
    if " at 0x" in shown:
        raise _OpaqueError
    return f"{kind}({shown})"


@functools.cache
def _is_installed(module: str) -> bool:
    top = module.partition(".")[0]
    if top in sys.stdlib_module_names:
        return True
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    return "site-packages" in file or "dist-packages" in file or top == "extract"


@functools.cache
def _package_version(module: str | None) -> str:
    try:
        return metadata.version((module or "").partition(".")[0])
    except (metadata.PackageNotFoundError, ValueError):
        return ""
