"""What must be set before JAX is imported, and where compiled programs are kept."""

from __future__ import annotations

import os
from pathlib import Path

from extract.memo import default_path


def prepare_jax() -> None:
    """Share the device with PyTorch, and keep compiled programs between processes.

    JAX would take three quarters of a GPU's memory at its first use; PyTorch then finds none.  Whoever set
    these variables themselves keeps their choice.
    """
    os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # JAX's LAPACK: XLA's threads and its own would fight
    if (programs := _writable(default_path().parent / "xla")) is not None:  # JAX warns of every other entry
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", programs)
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")


def _writable(folder: Path) -> str | None:
    """The folder, made if it was not there; None where nothing can be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return str(folder) if os.access(folder, os.W_OK) else None
