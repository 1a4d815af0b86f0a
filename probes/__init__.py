"""JAX side of visbench: arrays in, arrays out.

`from probes import logistic, knn, retrieval` works on plain arrays. Importing `probes` alone starts nothing:
each module is loaded when it is first asked for.
"""

import importlib
from types import ModuleType

_MODULES = (
    "affine",
    "checks",
    "dense",
    "errors",
    "heads",
    "knn",
    "linear",
    "logistic",
    "maps",
    "masks",
    "metrics",
    "minimise",
    "resizing",
    "retrieval",
    "ridge",
    "scaling",
    "statistics",
)


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
