"""What a fresh interpreter loads."""

import subprocess
import sys

import pytest


def loaded(statement: str, names: set[str]) -> str:
    ask = f"import sys; {statement}; print(sorted({names!r} & set(sys.modules)))"
    return subprocess.run(
        [sys.executable, "-c", ask], capture_output=True, text=True, check=True
    ).stdout.strip()


def test_the_package_alone_starts_nothing():
    assert loaded("import probes; dir(probes)", {"jax", "numpy", "torch"}) == "[]"


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        (
            "from probes import logistic, linear, ridge, knn, retrieval, scaling, statistics",
            {"torch", "extract", "visbench", "sklearn"},
        ),
        ("import probes; probes.checks.check_k(1, 2)", {"jax", "torch"}),
    ],
)
def test_probes_know_neither_torch_nor_files(statement, absent):
    assert loaded(statement, absent) == "[]"


def test_unknown_names_are_told_as_python_does():
    import probes

    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        probes.nothing  # noqa: B018
