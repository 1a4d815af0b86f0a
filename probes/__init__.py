"""JAX side of visbench: arrays in, arrays out.

`from probes import logistic, knn, retrieval` works on plain arrays. Importing `probes` alone starts nothing:
each module is loaded when it is first asked for.
"""

import importlib
from types import ModuleType

_MODULES = (
    "affine",
    "boxes",
    "checks",
    "dense",
    "errors",
    "heads",
    "knn",
    "linear",
    "linked",
    "logistic",
    "maps",
    "masks",
    "matching",
    "metrics",
    "minimise",
    "pose",
    "resizing",
    "retrieval",
    "ridge",
    "scaling",
    "similarity",
    "statistics",
    "zeroshot",
)


def __getattr__(name: str) -> ModuleType:
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULES})
