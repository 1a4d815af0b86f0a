"""Small pictures, a backbone that costs nothing, and caches of the test's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

import visbench

COLOURS = {"cat": (200, 60, 60), "dog": (60, 200, 60), "owl": (60, 60, 200)}


@pytest.fixture(autouse=True)
def own_caches(tmp_path_factory, monkeypatch):
    """No test reads or writes what the user has cached."""
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
    monkeypatch.setenv("VISBENCH_STORE", str(tmp_path_factory.mktemp("store")))


def picture(rng: np.random.Generator, colour, spread: float = 40.0, size: int = 40) -> Image.Image:
    pixels = np.asarray(colour) + rng.normal(0, spread, 3) + rng.normal(0, 20, (size, size, 3))
    return Image.fromarray(np.clip(pixels, 0, 255).astype(np.uint8))


def make_photos(
    root: Path, sizes=(("train", 12), ("test", 6)), *, spread: float = 40.0, seed: int = 0
) -> Path:
    """root/split/class/number.png; the class is a colour, which a patch mean can read."""
    rng = np.random.default_rng(seed)
    for split, count in sizes:
        for name, colour in COLOURS.items():
            folder = root / split / name if split else root / name
            folder.mkdir(parents=True)
            for number in range(count):
                picture(rng, colour, spread).save(folder / f"{number:03}.png")
    return root


@pytest.fixture
def photos(tmp_path) -> Path:
    return make_photos(tmp_path / "photos")


@pytest.fixture
def tiny(tiny_backbone):
    """The name under which the tiny backbone is registered."""
    from extract.backbones.registry import REGISTERED, register_backbone

    register_backbone("tiny")(lambda **options: tiny_backbone())
    yield "tiny"
    REGISTERED.pop("tiny", None)


@pytest.fixture
def run(tiny_backbone):
    """`visbench.run` with the tiny backbone; repeats that and the task where they do not matter."""
    backbone = tiny_backbone()

    def call(data, task="classification", **options):
        return visbench.run(backbone, task, data, **options)

    return call


@pytest.fixture
def command(tiny, tmp_path, monkeypatch):
    """Call `visbench` as a person types it; results go to a folder of the test."""
    from visbench.cli.app import app

    monkeypatch.chdir(tmp_path)

    def call(*words, code=0):
        done = CliRunner().invoke(app, [str(word) for word in words])
        assert done.exit_code == code, done.output
        return done

    return call
