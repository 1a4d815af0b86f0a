"""Tells what a vision backbone encodes: features extracted once, probed many times.

`visbench.run("dinov2_vits14", "classification", "photos/")` is the whole of it.  Importing this starts neither
torch nor jax; names are looked up when they are first used.
"""

from __future__ import annotations

from importlib import import_module, metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from extract.backbones import BaseBackbone, CustomBackbone, register_backbone
    from extract.store import Store
    from visbench.api import get_backbone, get_probe, register_task
    from visbench.comparing import compare
    from visbench.export import to_pandas
    from visbench.pipeline import Result, run
    from visbench.record import Record
    from visbench.results import ResultWriter
    from visbench.showing.drawing import picture
    from visbench.suites import SuiteResult, run_suite
    from visbench.sweeping import Sweep, sweep

__all__ = [
    "BaseBackbone",
    "CustomBackbone",
    "Record",
    "Result",
    "ResultWriter",
    "Store",
    "SuiteResult",
    "Sweep",
    "compare",
    "get_backbone",
    "get_probe",
    "picture",
    "register_backbone",
    "register_task",
    "run",
    "run_suite",
    "sweep",
    "to_pandas",
]

_HOMES = {
    "picture": "visbench.showing.drawing",
    "BaseBackbone": "extract.backbones",
    "CustomBackbone": "extract.backbones",
    "register_backbone": "extract.backbones",
    "Store": "extract.store",
    "get_backbone": "visbench.api",
    "get_probe": "visbench.api",
    "register_task": "visbench.api",
    "compare": "visbench.comparing",
    "to_pandas": "visbench.export",
    "Result": "visbench.pipeline",
    "run": "visbench.pipeline",
    "SuiteResult": "visbench.suites",
    "run_suite": "visbench.suites",
    "Sweep": "visbench.sweeping",
    "sweep": "visbench.sweeping",
    "Record": "visbench.record",
    "ResultWriter": "visbench.results",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return metadata.version("visbench")
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
