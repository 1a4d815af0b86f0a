"""What is set before JAX starts."""

from __future__ import annotations

import os

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
