"""What is set before JAX starts."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from visbench.runtime import prepare_jax

KEPT = "JAX_COMPILATION_CACHE_DIR"


@pytest.fixture
def unset(monkeypatch):
    """An environment in which nobody has chosen anything, put back afterwards."""
    monkeypatch.setattr(os, "environ", {**os.environ})
    os.environ.pop(KEPT, None)


def test_programs_are_kept_beside_the_memo(unset, tmp_path):
    os.environ["VISBENCH_CACHE"] = str(tmp_path)
    prepare_jax()
    assert os.environ[KEPT] == str(tmp_path / "xla")
    assert (tmp_path / "xla").is_dir()


def test_nothing_is_kept_where_nothing_can_be_written(unset, tmp_path):
    (tmp_path / "file").write_text("")
    os.environ["VISBENCH_CACHE"] = str(tmp_path / "file")
    prepare_jax()
    assert KEPT not in os.environ


def test_a_choice_of_the_users_stays(unset, tmp_path):
    os.environ |= {"VISBENCH_CACHE": str(tmp_path), KEPT: "mine"}
    prepare_jax()
    assert os.environ[KEPT] == "mine"


SWEEP = """
import sys
import numpy as np
import visbench

rng = np.random.default_rng(int(sys.argv[1]))
labels = np.repeat([0, 1, 2], 12)
images = (labels[:, None, None, None] * 60 + rng.integers(0, 60, (36, 16, 16, 3))).astype(np.uint8)
data = {"train": (images, labels), "test": (images + np.uint8(1), labels)}
grid = {"C": np.logspace(-4, 2, int(sys.argv[2]))}
visbench.sweep("pixels", "classification", data, grid=grid)
visbench.sweep("pixels", "classification", data, grid={"lr": np.logspace(-4, -1, 8)}, epochs=3)
"""


def test_a_later_process_compiles_nothing_for_other_values_of_the_same_shapes(tmp_path):
    environment = {**os.environ, "VISBENCH_CACHE": str(tmp_path), "VISBENCH_STORE": "memory://test"}
    environment.pop(KEPT, None)
    programs = []
    for seed, values in (("0", "9"), ("1", "17")):  # a longer grid is more groups of one program
        subprocess.run([sys.executable, "-c", SWEEP, seed, values], env=environment, check=True)
        programs.append({path.name for path in (tmp_path / "xla").glob("*-cache")})
    assert len(programs[0]) > 5
    assert programs[1] == programs[0]
