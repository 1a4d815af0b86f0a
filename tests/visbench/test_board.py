from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from visbench import board_text
from visbench.board import boards, newest, ranks
from visbench.record import Record

BASE = Record(
    timestamp="2026-01-01T00:00:00Z",
    task="classification",
    probe="logistic",
    dataset="digits",
    split="test",
    backbone="one",
    headline="top1",
    selection={"how": "C chosen on held-out training data"},
    image_size=224,
    taps=["default"],
)


def row(name, top1, low=None, high=None, **values):
    intervals = {} if low is None else {"top1": [low, high]}
    return replace(BASE, backbone=name, metrics={"top1": top1}, intervals=intervals, **values)


TOUR = [
    row("efficientnet_lite0", 0.95, 0.91, 0.97, n={"top1": 180}),
    row("efficientnet_lite1", 0.96, 0.92, 0.98, n={"top1": 180}),
    row("pixels", 0.8, 0.73, 0.85, n={"top1": 180}, control="pixels"),
]
TOUR = [
    replace(
        each,
        metrics={**each.metrics, "balanced_accuracy": each.metrics["top1"] - 0.001, "macro_f1": 0.5},
        context={"chance": 0.1, "train_top1": 1.0, "per_class": [1, 2], "duplicates": 0},
    )
    for each in TOUR
]


def test_a_board_reads_like_this():
    (board,) = boards(TOUR, separable=lambda a, b: "pixels" in (a.backbone, b.backbone))
    assert board_text.text(board) == "\n".join(
        [
            "digits · classification · logistic, C chosen on held-out training data",
            " rank  backbone             top1  95 % interval  balanced  macro_f1  train",
            " 1–2   efficientnet_lite1  0.960  0.920 … 0.980     0.959     0.500  1.000",
            " 1–2   efficientnet_lite0  0.950  0.910 … 0.970     0.949     0.500  1.000",
            " 3     pixels (control)    0.800  0.730 … 0.850     0.799     0.500  1.000",
            " chance 0.100 · n = 180 (test)"
            " · rows that share a rank are not separable (paired bootstrap, Holm)",
        ]
    )


def test_a_narrow_terminal_folds_context_and_keeps_names():
    (board,) = boards(TOUR)
    lines = board_text.text(board, width=62).split("\n")
    assert max(map(len, lines[1:])) <= 62
    assert lines[1:4] == [
        " rank  backbone             top1  95 % interval  balanced",
        " 1–2   efficientnet_lite1  0.960  0.920 … 0.980     0.959",
        "       macro_f1 0.500 · train 1.000",
    ]
    assert "efficientnet_lite1" in board_text.text(board, width=10)


def test_only_a_separable_best_is_bold():
    (shared,) = boards(TOUR)
    (apart,) = boards([row("a", 0.9, 0.88, 0.92), row("b", 0.5, 0.4, 0.6)])
    (alone,) = boards([row("a", 0.9, 0.88, 0.92)])
    assert (shared.best, alone.best) == (None, None)
    assert apart.best.label == "a"
    assert "\x1b[1m0.900\x1b[0m" in board_text.text(apart, styled=True)
    assert "**0.900**" in board_text.markdown(apart)
    assert "**" not in board_text.markdown(shared)


def test_without_a_test_overlapping_intervals_share_ranks_and_the_caption_says_so():
    chain = [row("a", 0.9, 0.8, 1.0), row("b", 0.8, 0.7, 0.9), row("c", 0.7, 0.6, 0.79)]
    (board,) = boards(chain)
    assert [entry.rank for entry in board.entries] == ["1–2", "1–3", "2–3"]  # a = b and b = c, but a > c
    assert board.rule == "rows that share a rank are not separable (overlap of their 95 % intervals)"


def test_a_mixture_of_evidence_is_told():
    rows = [row("a", 0.9, 0.8, 1.0), row("b", 0.8, 0.7, 0.9), row("c", 0.7)]
    (board,) = boards(rows, separable=lambda a, b: True if {a.backbone, b.backbone} == {"a", "b"} else None)
    assert [entry.rank for entry in board.entries] == ["1–2", "2–3", "1–3"]
    assert board.rule.endswith("(paired bootstrap, Holm; some have no interval to tell them apart)")


def test_newest_record_of_each_backbone():
    old = row("a", 0.1)
    new = row("a", 0.9, timestamp="2026-01-02T01:00:00+02:00")  # 2026-01-01T23:00Z
    undated = row("a", 0.5, timestamp="")
    (board,) = boards([new, old, undated])
    assert [entry.record for entry in board.entries] == [new]
    assert "newest record of each backbone, 2 older left out" in board_text.caption(board)
    twin = replace(new, metrics={"top1": 0.8})
    assert newest([new, twin]) == [twin]  # the later line


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image_size": 518}, "image size 518"),
        ({"protocol": "visbench"}, "protocol visbench"),
        ({"taps": ["cls@3"]}, "cls@3"),
        ({"finetune": {"blocks": 2}}, "fine-tuned"),
        ({"split": "val"}, "split=val"),
        ({"dataset_params": {"limit": 50}}, "dataset_params.limit=50"),
        ({"dataset_fingerprint": "0123456789abcdef0"}, "data=0123456789ab…"),
    ],
)
def test_what_is_not_comparable_is_never_ranked_together(change, said):
    first, second = boards([row("a", 0.9), row("b", 0.8, **change)])
    assert [len(each.entries) for each in (first, second)] == [1, 1]
    assert said in second.title
    assert first.title != second.title


def test_one_name_used_in_two_ways_is_told_apart():
    rows = [row("a", 0.9, feature_dtype="float16"), row("a", 0.8, feature_dtype="float32"), row("b", 0.7)]
    (board,) = boards(rows)
    assert [entry.label for entry in board.entries] == [
        "a [feature_dtype=float16]",
        "a [feature_dtype=float32]",
        "b",
    ]


def test_undefined_scores_stand_last_without_a_rank():
    (board,) = boards([row("a", None), row("b", 0.2, 0.1, 0.3)])
    assert [(entry.label, entry.rank) for entry in board.entries] == [("b", "1"), ("a", "–")]
    assert board.best is None
    assert " –     a" in board_text.text(board)


def test_lower_can_be_better():
    (board,) = boards([row("a", 0.9, better="lower"), row("b", 0.2, better="lower")])
    assert [entry.label for entry in board.entries] == ["b", "a"]
    assert "lower top1 is better" in board_text.caption(board)


def test_headlines_for_records_that_name_none():
    old = replace(BASE, headline=None, metrics={"loss": 1.0, "rmse": 2.0})
    (board,) = boards([old], headlines={"classification": ("rmse", "lower")})
    assert (board.headline, board.better) == ("rmse", "lower")
    assert boards([old])[0].headline == "loss"


def test_context_that_differs_is_a_column():
    (board,) = boards([row("a", 0.9, context={"chance": 0.1}), row("b", 0.8, context={"chance": 0.2})])
    assert "chance" in board_text.text(board).split("\n")[1]
    assert "chance" not in board_text.caption(board)


def test_counts_are_told_below_the_board_and_are_no_columns():
    contexts = [
        {"classes_scored": 3, "duplicates": 1, "near_duplicates": 4, "top1_without_duplicates": 0.7},
        {"classes_scored": 3, "duplicates": 1, "near_duplicates": 2, "queries_without_match": 1_000},
        {"classes_scored": 3, "duplicates": 1, "near_duplicates": 2, "empty": 0},
    ]
    (board,) = boards([row(f"b{i}", 0.9, context=context) for i, context in enumerate(contexts)])
    heading, *_, told = board_text.text(board).split("\n")[1:]
    assert heading.split() == ["rank", "backbone", "top1", "top1_without_duplicates"]
    counts = "classes scored 3 · duplicates 1 · near duplicates 2–4 · queries without match up to 1,000 · "
    assert told.startswith(f" {counts}")
    assert f"\n\n{counts}" in board_text.markdown(board)
    assert "near duplicates" not in board_text.text(boards([row("a", 0.9)])[0])


def test_numbers_are_rounded_in_one_place():
    said = [board_text.number(value) for value in (None, 1.0, 0.12345, 1234, 0)]
    assert said == ["–", "1.000", "0.123", "1,234", "0"]
    assert board_text.number(0.12345, 2) == "0.12"
    (board,) = boards([row("a", 0.12345, 0.1, 0.2)])
    assert "0.123" in board_text.text(board)
    assert "0.123" in board_text.markdown(board)


def test_markdown():
    (board,) = boards([row("a|b", 0.9, 0.8, 1.0, dataset="x\ny")])
    assert board_text.markdown(board).split("\n") == [
        "### x\\ny · classification · logistic, C chosen on held-out training data".replace("\\n", "\\\\n"),
        "",
        "| rank | backbone | top1 | 95 % interval |",
        "| --- | --- | ---: | --- |",
        "| 1 | a\\|b | 0.900 | 0.800 … 1.000 |",
        "",
        f"board {board.key[:8]}",
        "",
    ]


@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 5)), max_size=8))
def test_rank_ranges_hold_the_rank_by_value(intervals):
    rows = sorted(intervals, key=lambda each: -each[0])
    found = ranks(len(rows), lambda i, j: rows[i][0] - rows[i][1] > rows[j][0] + rows[j][1])
    for position, (first, last) in enumerate(found, start=1):
        assert 1 <= first <= position <= last <= len(rows)


def test_no_records_no_boards():
    assert boards([]) == []


def test_a_control_says_which_kind_it_is():
    records = [
        row("pixels", 0.8, 0.7, 0.9, control="pixels"),
        row("a", 0.7, 0.6, 0.8, control="random weights"),
    ]
    (board,) = boards(records)
    assert [entry.label for entry in board.entries] == ["pixels (control)", "a (random weights)"]
