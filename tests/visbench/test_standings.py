"""Boards of results files: which records they take, what ranks them, and pages that hold them."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import stats

from visbench import overview, published, results, samples
from visbench.board import boards
from visbench.cli.app import app
from visbench.errors import UsageError
from visbench.overview import spearman
from visbench.record import Record
from visbench.standings import Wanted, single, standings

BASE = Record(
    timestamp="2026-01-01T00:00:00Z",
    task="classification",
    level="high",
    probe="logistic",
    dataset="photos",
    split="test",
    backbone="one",
    headline="top1",
    image_size=224,
    taps=["default"],
)


def row(name, score, metric="top1", **values):
    return replace(
        BASE, backbone=name, headline=metric, metrics={metric: score, **values.pop("metrics", {})}, **values
    )


def pairs(name, pixels, patches, **values):
    more = {
        "task": "correspondence",
        "level": "mid",
        "probe": None,
        "metrics": {"recall@1p": patches},
        **values,
    }
    return row(name, pixels, "recall@5px", **more)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Two tasks of three backbones, and one record with another image size."""
    monkeypatch.chdir(tmp_path)
    made = [
        *(row("one", 0.9), row("two", 0.8), row("three", 0.7), row("one", 0.95, image_size=336)),
        *(pairs("one", 0.5, 0.5), pairs("two", 0.6, 0.4), pairs("three", 0.7, 0.6)),
    ]
    results.append("results/visbench.jsonl", made)
    return ["results/visbench.jsonl"]


def run(*words, code=0):
    done = CliRunner().invoke(app, [str(word) for word in words])
    assert done.exit_code == code, done.output
    return done


def test_a_board_each_for_what_may_be_compared(files):
    found = standings(files)
    assert [len(board.entries) for board in found] == [3, 1, 3]
    assert len({board.key for board in found}) == 3


def test_records_are_chosen_by_task_dataset_backbone_and_digest(files):
    assert len(standings(files, Wanted(task="correspondence"))) == 1
    (board,) = standings(files, Wanted(task="classification", backbones=("two", "three")))
    assert [entry.label for entry in board.entries] == ["two", "three"]
    assert standings(files, Wanted(board=board.key[:6]))[0].key == board.key


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        (Wanted(task="clasification"), 'the task "clasification" .* Did you mean "classification"'),
        (Wanted(dataset="nix"), 'the dataset "nix" .* There are photos'),
        (Wanted(backbones=("four",)), 'the backbone "four" .* There are one, two, three'),
        (Wanted(by="top9"), 'no record has a metric "top9".* Did you mean "top1"'),
        (Wanted(board="zz"), "there is no board zz; there are"),
        (Wanted(task="classification", probe="knn"), 'the probe "knn"'),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(files, wanted, said):
    with pytest.raises(UsageError, match=said):
        standings(files, wanted)


def test_another_metric_ranks_on_request(files):
    with pytest.warns(UserWarning, match="left out, having no recall@1p: classification"):
        (board,) = standings(files, Wanted(by="recall@1p"))
    assert [entry.label for entry in board.entries] == ["three", "one", "two"]
    assert (board.headline, board.better) == ("recall@1p", "higher")


def test_a_metric_whose_direction_nobody_knows_cannot_rank(tmp_path):
    results.append(tmp_path / "r.jsonl", [row("one", 0.1, metrics={"odd": 3.0})])
    with pytest.raises(UsageError, match="whether a higher odd of classification is better"):
        standings([tmp_path / "r.jsonl"], Wanted(by="odd"))


def test_rows_are_told_apart_by_the_samples_of_the_metric_that_ranks(tmp_path):
    file, ids = tmp_path / "r.jsonl", np.arange(400 * 16, dtype=np.uint8).reshape(400, 16)
    made = []
    for name, share in (("one", 0.9), ("two", 0.5)):
        hits = (np.arange(400) < 400 * share).astype(np.float32)
        said = samples.write(file, {"top1": np.full(400, 0.5, np.float32), "top5": hits}, ids)
        made.append(row(name, 0.5, metrics={"top5": share}, samples=said))
    results.append(file, made)
    assert [entry.rank for entry in standings([file])[0].entries] == ["1–2", "1–2"]
    assert [entry.rank for entry in standings([file], Wanted(by="top5"))[0].entries] == ["1", "2"]


def test_every_record_of_a_backbone_on_request(tmp_path):
    later = replace(row("one", 0.4), timestamp="2026-02-03T04:05:06Z")
    results.append(tmp_path / "r.jsonl", [row("one", 0.5), later])
    assert [len(board.entries) for board in standings([tmp_path / "r.jsonl"])] == [1]
    (board,) = standings([tmp_path / "r.jsonl"], Wanted(every=True))
    assert [entry.label for entry in board.entries] == ["one [at=01-01T00:00:00]", "one [at=02-03T04:05:06]"]


def test_one_board_is_refused_where_records_make_two(files):
    with pytest.raises(UsageError, match=r"make 2 boards, .* differ in image_size 224 against 336"):
        single(standings(files, Wanted(task="classification")))


def test_metrics_that_order_rows_otherwise_are_told(files):
    text = run("board", "correspondence").stdout
    assert "first would be" not in text  # three is first by both
    results.append(files[0], [pairs("four", 0.2, 0.9)])
    assert "first would be four by recall@1p" in run("board", "correspondence").stdout


def test_the_commands(files):
    said = run("board").stdout
    assert all(f"board {board.key[:8]}" in said for board in standings(files))
    assert len(json.loads(run("board", "--format", "json").stdout)) == 3
    assert run("board", "correspondence", "--format", "csv").stdout.startswith("rank,backbone,recall@5px")
    assert "make 3 boards" in run("board", "--format", "csv", code=2).stderr
    assert r"\toprule" in run("board", "--format", "latex").stdout
    assert run("board", "--format", "html").stdout.count("<table") == 3
    assert "**" not in run("board", "classification", "--format", "md").stdout
    assert run("board", "depth", code=2).stderr.startswith("error: there is no record of the task")
    assert "there are no results at" in run("board", "--results", "nix.jsonl", code=2).stderr
    assert "mean rank" in run("overview").stdout
    assert "| backbone |" in run("overview", "--format", "md").stdout


PAGE = """# Ours

```markdown
<!-- visbench:board task=nothing -->
```

<!-- visbench:board task=correspondence records=results/visbench.jsonl -->
stale
<!-- /visbench:board -->

End
"""


def test_a_page_is_drawn_anew_and_nothing_else_of_it_changes(files, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert "+| 1 | three" in run("board", "--check", page, code=1).stdout.replace("1–3", "1")
    assert page.read_text() == PAGE
    assert published.write(page)
    text = page.read_text()
    assert text.startswith(PAGE.partition("stale")[0])
    assert text.endswith("<!-- /visbench:board -->\n\nEnd\n")
    assert "| three | 0.700 | 0.600 |" in text
    assert not published.write(page)
    assert run("board", "--check", page).stdout == ""
    results.append(files[0], [pairs("four", 0.9, 0.9)])
    assert published.drift(page)
    run("board", "--write", page)
    assert "| four |" in page.read_text()


@pytest.mark.parametrize(
    ("mark", "said"),
    [
        (
            "<!-- visbench:board task=classification -->\n<!-- /visbench:board -->",
            "line 1: these records make 2",
        ),
        ("<!-- visbench:board -->", "not closed"),
        ("<!-- visbench:bord -->\n<!-- /visbench:bord -->", "there is no block visbench:bord"),
        ("<!-- visbench:board tsk=1 -->\n<!-- /visbench:board -->", "tsk is no KEY=VALUE"),
        ('<!-- visbench:board task="a -->\n<!-- /visbench:board -->', "cannot be read"),
        ("nothing", "has no marked block"),
    ],
)
def test_marks_that_mean_nothing_are_refused_and_the_page_is_left_alone(files, tmp_path, mark, said):
    page = tmp_path / "page.md"
    page.write_text(mark)
    assert said in run("board", "--write", page, code=2).stderr
    assert page.read_text() == mark


def test_a_page_may_hold_an_overview(files, tmp_path):
    page = tmp_path / "page.md"
    page.write_text("<!-- visbench:overview task=correspondence -->\n<!-- /visbench:overview -->\n")
    published.write(page, files)
    assert "| three | 0.700 |" in page.read_text()  # one board alone is no more than the backbones


def test_mean_ranks_are_over_common_boards_and_tasks_weigh_alike():
    made = [
        *(row("one", 0.9), row("two", 0.5), row("three", 0.1)),
        *(row("one", 0.9, probe="knn"), row("two", 0.5, probe="knn"), row("three", 0.1, probe="knn")),
        *(pairs("one", 0.1, 0.1), pairs("two", 0.2, 0.2), pairs("three", 0.3, 0.3)),
        row("two", 0.9, dataset="others"),
    ]
    found = overview.of(boards(made, separable=lambda a, b: True))
    assert found.names == (
        "classification logistic photos",
        "classification knn",
        "correspondence",
        "classification logistic others",
    )
    assert found.common == found.names[:3]
    ranks = {line.label: line.mean_rank for line in found.lines}
    assert ranks == {"one": 2, "two": 2, "three": 2}  # (1 + 3) / 2: the two boards of one task count once
    assert {line.label: line.covered for line in found.lines} == {"one": 3, "two": 4, "three": 3}
    assert found.correlation[0][2] is None  # three rows are too few
    more = overview.of(
        boards([*made, row("four", 0.0), pairs("four", 0.4, 0.4)], separable=lambda a, b: True)
    )
    assert more.correlation[0][2] == pytest.approx(-1)


def test_rank_correlation_is_that_of_scipy():
    rng = np.random.default_rng(0)
    for _ in range(50):
        a, b = rng.integers(0, 5, (2, 8)).astype(float)
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic)
    assert spearman(a[:2], b[:2]) is None
    assert spearman(np.ones(5), b[:5]) is None
    holes = a.copy()
    holes[3] = np.nan
    assert spearman(holes, b) == pytest.approx(stats.spearmanr(np.delete(a, 3), np.delete(b, 3)).statistic)


def test_a_wide_overview_is_turned():
    found = overview.of(
        boards([row("one", 0.9), row("two", 0.8), pairs("one", 0.5, 0.5), pairs("two", 0.4, 0.4)])
    )
    wide, narrow = overview.text(found), overview.text(found, width=50)
    assert wide.splitlines()[1].split()[:3] == ["one", "0.900", "0.500"]
    assert narrow.splitlines()[1].split() == ["classification", "0.900", "0.800"]


def test_who_beats_whom(files, tmp_path):
    text = run("compare", "--task", "correspondence").stdout
    assert "+0.100?" in text
    assert "−0.200?" in text
    told = json.loads(run("compare", "--json").stdout)
    assert [len(board["pairs"]) for board in told] == [6, 6]
    ahead = {(pair["a"], pair["b"]): pair["ahead"] for pair in told[0]["pairs"]}
    assert ahead["one", "three"] == pytest.approx(0.2)
    assert ahead["three", "one"] == pytest.approx(-0.2)
    assert "alone is compared with nothing" in run("compare", "one", code=2).stderr
    assert "are for two that are named" in run("compare", "--common", code=2).stderr
