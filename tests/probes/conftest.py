import os
from collections.abc import Callable

import numpy as np
import pytest

# Programs here run for milliseconds and compile for seconds.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")


@pytest.fixture
def mixture() -> Callable[..., tuple[np.ndarray, np.ndarray]]:
    """Overlapping Gaussian classes of unequal spread: (features, labels)."""

    def draw(
        n: int, d: int, classes: int, *, seed: int = 0, apart: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray]:
        rng = np.random.default_rng(seed)
        labels = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
        centres = rng.standard_normal((classes, d)) * apart
        spread = np.linspace(0.3, 2, d)
        return (centres[labels] + spread * rng.standard_normal((n, d))).astype(np.float32), labels

    return draw
