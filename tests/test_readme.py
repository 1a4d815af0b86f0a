"""What the README shows is run: its console commands and its Python, on a small folder called photos/."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from PIL import Image

from visbench.cli.app import app

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
SESSIONS = [
    [line[2:] for line in text.splitlines() if line[:1] == "$"] for kind, text in BLOCKS if kind == "console"
]
COMMANDS = [command for session in SESSIONS for command in session]
PROGRAMS = [text for kind, text in BLOCKS if kind == "python"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """photos/{train,test}/{cat,dog,owl}: eight and four pictures of each."""
    place = tmp_path_factory.mktemp("readme")
    rng = np.random.default_rng(0)
    for split, count in (("train", 8), ("test", 4)):
        for name, colour in (("cat", (200, 60, 60)), ("dog", (60, 200, 60)), ("owl", (60, 60, 200))):
            (place / "photos" / split / name).mkdir(parents=True)
            for number in range(count):
                pixels = np.clip(colour + rng.normal(0, 40, (48, 48, 3)), 0, 255).astype(np.uint8)
                Image.fromarray(pixels).save(place / "photos" / split / name / f"{number}.png")
    make_streets(place / "streets", rng)
    return place


def make_streets(root, rng):
    """streets/{train,val}/{images,labels}: eight and four pictures of coloured blocks, whose map is their class."""
    colours = np.array([(200, 60, 60), (60, 200, 60), (60, 60, 200)])
    for split, count in (("train", 8), ("val", 4)):
        for folder in ("images", "labels"):
            (root / split / folder).mkdir(parents=True)
        for number in range(count):
            labels = np.kron(rng.integers(0, 3, (3, 3)), np.ones((20, 20), int)).astype(np.uint8)
            pixels = np.clip(colours[labels] + rng.normal(0, 30, (60, 60, 3)), 0, 255).astype(np.uint8)
            Image.fromarray(pixels).save(root / split / "images" / f"{number}.png")
            Image.fromarray(labels).save(root / split / "labels" / f"{number}.png")


@pytest.fixture(autouse=True)
def in_folder(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("VISBENCH_CACHE", str(folder / "cache"))
    monkeypatch.delenv("VISBENCH_STORE", raising=False)


def test_there_is_something_to_run():
    assert len(COMMANDS) >= 8
    assert len(PROGRAMS) >= 3


@pytest.mark.parametrize("session", SESSIONS, ids=lambda session: session[-1])
def test_console_examples_run(session):
    for command in session:  # a later one may read what an earlier one wrote
        run(command)


def run(command):
    program, *words = shlex.split(command)
    assert program == "visbench"
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("program", PROGRAMS)
def test_python_examples_run(program):
    exec(compile(program, "README.md", "exec"), {"__name__": "readme"})


def test_every_command_and_option_of_the_readme_exists():
    named = set(re.findall(r"`(--[a-zA-Z][\w-]*)", README))
    every = {"--version"}
    for path in (
        ("run", "classification"),
        ("run", "retrieval"),
        ("extract",),
        ("check",),
        ("demo",),
        ("compare",),
        ("sweep", "classification"),
        ("run", "semantic_segmentation"),
        ("run", "generic_segmentation"),
        ("run", "depth"),
    ):
        said = CliRunner().invoke(app, [*path, "--help"]).output
        every |= set(re.findall(r"--[a-zA-Z][\w-]*", said))
    assert named <= every


@pytest.mark.parametrize("target", re.findall(r"\]\(([^)#]+)\)", README))
def test_links_lead_somewhere(target):
    assert target.startswith("https://") or (ROOT / target).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="the commands are for Linux")
def test_the_two_commands_are_marked_and_short():
    for mark in ("demo-command", "test-command"):
        block = re.search(rf"<!-- {mark} -->\n```bash\n(.*?)```", README, flags=re.DOTALL)
        assert block is not None
        assert len(block[1].strip().splitlines()) == 1
