"""The feature store; numpy and tensorstore only, so that a run on stored features never imports torch."""

from extract.store.collection import Report
from extract.store.errors import (
    DamagedError,
    MissingRowsError,
    NonFiniteRowError,
    OverflowingRowError,
    RefusedRowError,
    StoreError,
)
from extract.store.maintenance import Problem, Stored
from extract.store.store import Identity, Store
from extract.store.view import View
from extract.store.writer import PartWriter

__all__ = [
    "DamagedError",
    "Identity",
    "MissingRowsError",
    "NonFiniteRowError",
    "OverflowingRowError",
    "PartWriter",
    "Problem",
    "RefusedRowError",
    "Report",
    "Store",
    "StoreError",
    "Stored",
    "View",
]
