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

from visbench import published
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
    make_related(place, rng)
    make_cells(place / "cells", rng)
    (place / "page.md").write_text("<!-- visbench:overview -->\n<!-- /visbench:overview -->\n")
    return place


def make_related(root, rng):
    """pairs.csv, triplets.csv and posed.csv over a few pictures of noise."""

    def picture(name):
        path = root / name
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(rng.integers(0, 256, (48, 64, 3), np.uint8)).save(path)
        return name

    def table(name, header, rows):
        (root / name).write_text("\n".join([header, *(",".join(map(str, row)) for row in rows)]) + "\n")

    names = [picture(f"others/{number}.png") for number in range(6)]
    (root / "others" / "H.txt").write_text("1 0 4\n0 1 2\n0 0 1\n")
    table("pairs.csv", "image_1,image_2,homography", [(names[0], names[1], "others/H.txt")])
    table("triplets.csv", "reference,left,right,choice", [(*names[:3], "left"), (*names[3:], "right")])
    poses = []
    for split, count in (("train", 8), ("test", 4)):
        for number in range(count):
            quaternion = rng.normal((1, 0, 0, 0), 0.3)
            poses.append(
                (picture(f"cup/{split}{number}.png"), "cup", *quaternion, *rng.normal(0, 0.1, 3), split)
            )
    table("posed.csv", "path,scene,qw,qx,qy,qz,tx,ty,tz,split", poses)


def make_cells(root, rng):
    """cells/: a VOC devkit of two classes, a bright disc of either colour on grey."""
    for folder in ("JPEGImages", "Annotations", "ImageSets/Main"):
        (root / folder).mkdir(parents=True)
    stems = {"train": range(8), "val": range(8, 12)}
    for split, numbers in stems.items():
        (root / "ImageSets" / "Main" / f"{split}.txt").write_text("".join(f"{each}\n" for each in numbers))
        for number in numbers:
            x, y = rng.integers(8, 40, 2)
            pixels = np.full((64, 64, 3), 110, np.uint8)
            pixels[y : y + 16, x : x + 16] = (230, 60, 60) if number % 2 else (60, 60, 230)
            Image.fromarray(pixels).save(root / "JPEGImages" / f"{number}.png")
            box = f"<xmin>{x + 1}</xmin><ymin>{y + 1}</ymin><xmax>{x + 16}</xmax><ymax>{y + 16}</ymax>"
            name = "red" if number % 2 else "blue"
            (root / "Annotations" / f"{number}.xml").write_text(
                "<annotation><size><width>64</width><height>64</height><depth>3</depth></size>"
                f"<object><name>{name}</name><difficult>0</difficult><bndbox>{box}</bndbox></object></annotation>"
            )


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
        ("run", "correspondence"),
        ("run", "similarity"),
        ("run", "zeroshot"),
        ("run", "detection"),
        ("board",),
        ("overview",),
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


@pytest.mark.parametrize("page", ["README.md", "LEADERBOARD.md"])
def test_published_boards_are_what_their_records_say(page):
    assert published.drift(ROOT / page) == ""
