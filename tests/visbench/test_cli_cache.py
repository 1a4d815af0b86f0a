import json
from typing import Any, NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

from extract.store import Store
from visbench.cli.app import app


class Identity(NamedTuple):
    digest: str
    plain: dict[str, Any]


def described(digit, architecture):
    plain = {
        "architecture": architecture,
        "weights": digit * 32,
        "transform": {"size": 224},
        "tap": "cls",
        "layer": 11,
        "dtype": "float16",
    }
    return Identity(digit * 32, plain)


@pytest.fixture
def place(tmp_path):
    """A store of two identities, 10 rows of 4 and 3 of 2, beside a file that is not the store's."""
    location = tmp_path / "store"
    store, rng = Store(location), np.random.default_rng(0)
    for identity, rows, dims in ((described("a", "vit_small"), 10, 4), (described("b", "resnet50"), 3, 2)):
        with store.writer(identity, (dims,), "float16") as writer:
            ids = rng.integers(0, 256, (rows, 16), np.uint8)
            writer.add(ids, rng.normal(size=(rows, dims)).astype(np.float32))
    (location / "mine.txt").write_text("mine")
    return location


def run(*arguments, **options):
    return CliRunner().invoke(app, ["cache", *map(str, arguments)], **options)


def test_ls(place):
    heading, first, second = run("ls", "--store", place).stdout.splitlines()
    assert " ".join(heading.split()) == "identity backbone weights pixels tap rows shape dtype parts size"
    assert first.split()[:9] == [
        "aaaaaaaa",
        "vit_small",
        "aaaaaaaa",
        "224",
        "cls@11",
        "10",
        "4",
        "float16",
        "1",
    ]
    assert second.split()[:2] == ["bbbbbbbb", "resnet50"]
    rows = json.loads(run("ls", "--json", "--store", place).stdout)
    assert [(each["digest"], each["rows"], each["row_shape"]) for each in rows] == [
        ("a" * 32, 10, [4]),
        ("b" * 32, 3, [2]),
    ]


def test_the_store_may_come_from_the_environment(place):
    assert "vit_small" in run("ls", env={"VISBENCH_STORE": str(place)}).stdout


def test_stats(place):
    told = json.loads(run("stats", "--json", "--store", place).stdout)
    assert (told["identities"], told["rows"], told["parts"]) == (2, 13, 2)
    assert told["store"] == str(place)
    assert told["bytes"] >= 13 * 16 + (40 + 6) * 2
    assert told["free_bytes"] > 0
    url, line = run("stats", "--store", place).stdout.splitlines()
    assert url == str(place)
    assert line.startswith(" 2 identities · 13 rows in 2 parts · ")
    assert line.endswith(" free")


def test_stats_tell_what_is_stored_twice_apart(tmp_path):
    ids = np.arange(160, dtype=np.uint8).reshape(10, 16)
    for rows in (slice(0, 6), slice(2, 10)):
        with Store(tmp_path).writer(described("a", "vit_small"), (4,), "float16") as writer:
            writer.add(ids[rows], np.zeros((len(ids[rows]), 4), np.float32))
    told = json.loads(run("stats", "--json", "--store", tmp_path).stdout)
    assert (told["rows"], told["surplus_rows"], told["surplus_bytes"]) == (10, 4, 4 * (4 * 2 + 16))
    _, line, more = run("stats", "--store", tmp_path).stdout.splitlines()
    assert line.startswith(" 1 identity · 10 rows in 2 parts · ")
    assert "96 bytes are 4 rows stored twice" in more
    assert run("ls", "--store", tmp_path).stdout.splitlines()[1].split()[5] == "10"


def test_an_empty_store(tmp_path):
    done = run("ls", "--store", tmp_path / "none")
    assert (done.exit_code, done.stdout, done.stderr) == (0, "", "The store is empty.\n")
    assert run("clear", "--store", tmp_path / "none").exit_code == 0
    assert list(tmp_path.iterdir()) == []


def test_verify_and_gc_find_and_remove_damage(place):
    assert run("verify", "--store", place).exit_code == 0
    part = max(
        (path for path in (place / ("a" * 32) / "parts").rglob("*") if path.is_file()),
        key=lambda p: p.stat().st_size,
    )
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 0xFF
    part.write_bytes(content)
    done = run("verify", "--store", place)
    assert done.exit_code == 1
    assert done.stdout.startswith("aaaaaaaa  ")
    assert run("verify", "b", "--store", place).exit_code == 0
    (problem,) = json.loads(run("verify", "--json", "--store", place).stdout)
    assert problem["identity"] == "a" * 32
    assert "1 damaged" in run("gc", "--store", place).stdout
    assert run("verify", "--store", place).exit_code == 0
    assert run("gc", "--store", place).stdout == "Nothing to do.\n"


def test_rm_asks_and_removes_what_is_named(place):
    done = run("rm", "b", "--store", place, input="n\n")
    assert done.exit_code == 1
    assert done.stdout.strip() == ""
    assert "resnet50" in done.stderr
    assert "Remove 1 identity, " in done.stderr
    assert len(Store(place).identities()) == 2
    assert run("rm", "b", "bbbb", "--yes", "--store", place).exit_code == 0
    assert [each.digest for each in Store(place).identities()] == ["a" * 32]


@pytest.mark.parametrize(
    ("start", "said"), [("c", '"c" is the beginning of nothing'), ("", '"" is the beginning of 2 identities')]
)
def test_rm_refuses_what_names_no_one_identity(place, start, said):
    done = run("rm", "--yes", "--store", place, "--", start)
    assert done.exit_code == 2
    assert said in done.stderr
    assert len(Store(place).identities()) == 2


def test_clear_leaves_what_is_not_the_stores(place):
    assert run("clear", "--store", place, input="n\n").exit_code == 1
    assert run("clear", "--store", place, input="y\n").exit_code == 0
    assert [path.name for path in place.rglob("*") if path.is_file()] == ["mine.txt"]


def test_a_place_that_is_no_store(tmp_path):
    (tmp_path / "file").write_text("")
    done = run("ls", "--store", tmp_path / "file")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: the store ")
