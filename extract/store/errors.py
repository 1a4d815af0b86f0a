"""What the store refuses, and what it says when a disk or a bucket fails it."""

import numpy as np

from extract.errors import InputError


class StoreError(InputError):
    """The store cannot be read or written, or something in it is damaged."""


class DamagedError(StoreError):
    """A part is not what its manifest says; `what` tells how."""

    def __init__(self, message: str, what: str) -> None:
        super().__init__(message)
        self.what = what


class GoneError(StoreError):
    """A part was removed, or merged into another, while it was being read."""


class MissingRowsError(InputError):
    """Rows were asked for that are not stored; `missing` is a mask over the ids asked for."""

    def __init__(self, message: str, missing: np.ndarray) -> None:
        super().__init__(message)
        self.missing = missing


class RefusedRowError(InputError):
    """A row must not be stored; `position` counts in the batch that was handed over."""

    def __init__(self, message: str, position: int) -> None:
        super().__init__(message)
        self.position = position


class NonFiniteRowError(RefusedRowError):
    """A row holds NaN or infinity."""


class OverflowingRowError(RefusedRowError):
    """A row is finite, but not in the type it would be stored in."""
