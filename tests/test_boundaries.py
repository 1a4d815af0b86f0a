"""Who imports whom, seen from fresh interpreters; and what starts at once."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pkgutil import walk_packages

import pytest

import extract
import probes
import visbench

HEAVY = {"torch", "jax", "torchvision", "timm", "open_clip"}


def loaded_after(code: str) -> set[str]:
    ask = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import visbench",
        "import extract",
        "import probes",
        "import extract.store, extract.datasets, extract.memo, extract.plan, extract.resolve",
        "import visbench.cli.app",
        "import visbench.pipeline",
        "import visbench.cli.running",
    ],
)
def test_these_start_neither_torch_nor_jax(code):
    assert not HEAVY & loaded_after(code)


def test_importing_visbench_is_light():
    assert not {"numpy", "click", "tensorstore"} & loaded_after("import visbench")


@pytest.mark.parametrize("module", ["logistic", "linear", "ridge", "knn", "retrieval"])
def test_probes_know_no_torch_and_none_of_our_other_rooms(module):
    assert not {"torch", "extract", "visbench", "tensorstore"} & loaded_after(f"from probes import {module}")


def test_extract_knows_no_jax():
    assert not {"jax", "probes", "visbench"} & loaded_after("import extract.loop, extract.backbones")


CALLS = """
import visbench
from click.testing import CliRunner
from visbench.cli.app import app
for name, options in (("pixels", {}), ("timm:test_vit", {"image_size": 32, "pretrained": False})):
    visbench.run(name, "retrieval", "data", **options)
    visbench.run(name, "classification", "data", C=1.0, **options)
for words in (["extract", "data"], ["probe", "retrieval", "data"], ["run", "retrieval", "data", "--dry-run"]):
    done = CliRunner().invoke(app, [*words, "--backbone", "pixels"])
    assert done.exit_code == 0, done.output
"""


def test_a_cached_run_starts_no_torch(tmp_path, monkeypatch):
    """A second process on stored features imports jax alone, whichever way it is called."""
    from PIL import Image

    for split in ("train", "test"):
        for name, colour in (("a", (200, 0, 0)), ("b", (0, 0, 200))):
            (tmp_path / "data" / split / name).mkdir(parents=True)
            for number in range(4):
                shade = tuple(max(0, value - number) for value in colour)
                Image.new("RGB", (24, 24), shade).save(tmp_path / "data" / split / name / f"{number}.png")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("VISBENCH_STORE", str(tmp_path / "store"))
    assert "torch" in loaded_after(CALLS)
    assert "torch" not in loaded_after(CALLS)
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path / "another"))  # a control is known without a memory
    assert "torch" not in loaded_after("import visbench; visbench.run('pixels', 'retrieval', 'data')")


@pytest.mark.parametrize("room", [visbench, extract, probes])
def test_every_public_name_survives_the_import_of_every_module(room):
    """No module may bear the name of a public function, which importing it would hide."""
    for found in walk_packages(room.__path__, f"{room.__name__}."):
        if not found.name.endswith("__main__"):
            import_module(found.name)
    for name in getattr(room, "__all__", ()):
        assert getattr(room, name).__class__.__name__ != "module" or room is probes
