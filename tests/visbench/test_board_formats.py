import csv
import html
import io
import json
import re
from dataclasses import replace

import pytest

from visbench import board_formats, board_text
from visbench.board import boards
from visbench.record import Record

BASE = Record(
    timestamp="2026-01-01T00:00:00Z",
    task="classification",
    probe="logistic",
    dataset="digits",
    split="test",
    backbone="one",
    headline="top1",
    image_size=224,
    taps=["default"],
)
ODD = r"a_b & c|d <e> 50% #1 $x ^~ {y} \z*"


def row(name, top1, low=None, high=None, **values):
    intervals = {} if low is None else {"top1": [low, high]}
    metrics = {"top1": top1, "top5": 0.98765, "steps": 12345}
    return replace(BASE, backbone=name, **{"metrics": metrics, "intervals": intervals, **values})


APART = [row("a", 0.91239, 0.8812, 0.9251), row("b", 0.5, 0.4, 0.6), row("c", None, metrics={"top1": None})]
TOGETHER = [row("a", 0.91239, 0.8812, 0.9251), row("b", 0.9, 0.85, 0.95)]


def board_of(records):
    (board,) = boards(records)
    return board


def numbers_of_markdown(board):
    lines = [line for line in board_text.markdown(board).splitlines() if line.startswith("| ")][2:]
    return [[cell.strip(" *") for cell in line.strip("|").split(" | ")] for line in lines]


def numbers_of_latex(board):
    body = board_formats.latex(board).split("\\midrule\n")[1].split("\\bottomrule")[0]
    cells = [line.removesuffix(r" \\").split(" & ") for line in body.strip().split("\n")]
    plain = {"\\textbf{": "", "}": "", "--": "–", r"\dots{": "…"}
    return [[_replaced(cell, plain) for cell in line] for line in cells]


def numbers_of_html(board):
    rows = re.findall("<tr>(<td.*?)</tr>", board_formats.html(board).split("<tbody>")[1].split("</tbody>")[0])
    cells = [re.findall("<td[^>]*>(.*?)</td>", line) for line in rows]
    return [[html.unescape(re.sub("</?strong>", "", cell)) for cell in line] for line in cells]


def numbers_of_csv(board):
    lines = list(csv.DictReader(io.StringIO(board_formats.csv(board))))
    joined = []
    for line in lines:
        low, high = line.pop("low"), line.pop("high")
        cells = list(line.values())
        joined.append([*cells[:3], f"{low} … {high}" if low else "", *cells[3:]])
    return joined


def _replaced(cell, pairs):
    for old, new in pairs.items():
        cell = cell.replace(old, new)
    return cell


@pytest.mark.parametrize("records", [APART, TOGETHER])
def test_all_formats_say_the_same_numbers(records):
    board = board_of(records)
    expected = numbers_of_markdown(board)
    assert expected[0][:4] == [board.entries[0].rank, "a", "0.912", "0.881 … 0.925"]
    assert numbers_of_latex(board) == numbers_of_html(board) == expected
    bare = [[*line[:2], *(_replaced(cell, {"–": "", ",": ""}) for cell in line[2:])] for line in expected]
    assert numbers_of_csv(board) == bare


def test_decimals():
    board = board_of(APART)
    for form in ("latex", "html", "csv"):
        said = getattr(board_formats, form)(board, decimals=1)
        assert "0.9" in said
        assert "0.91" not in said


def test_the_best_is_marked_only_where_it_is_separable():
    apart, together = board_of(APART), board_of(TOGETHER)
    marks = {"latex": r"\textbf{0.912}", "html": '<td class="number best"><strong>0.912</strong></td>'}
    for form, mark in marks.items():
        assert getattr(board_formats, form)(apart).count(mark) == 1
        said = getattr(board_formats, form)(together)
        assert "textbf" not in said
        assert "strong" not in said
    assert [entry["best"] for entry in board_formats.as_dict(apart)["entries"]] == [True, False, False]
    assert not any(entry["best"] for entry in board_formats.as_dict(together)["entries"])
    assert [line[0] for line in numbers_of_csv(together)] == ["1–2", "1–2"]


def test_names_stand_in_every_format_as_they_are():
    board = board_of([row(ODD, 0.9), row("two\nlines", 0.8)])
    latex = board_formats.latex(board)
    assert (
        r"a\_b \& c\textbar{}d \textless{}e\textgreater{} 50\% \#1 \$x \textasciicircum{}\textasciitilde{} "
        in latex
    )
    assert r"\{y\} \textbackslash{}z*" in latex
    assert r"two\textbackslash{}nlines" in latex
    page = board_formats.html(board)
    assert f'<td class="backbone">{html.escape(ODD)}</td>' in page
    assert "<e>" not in page
    rows = list(csv.DictReader(io.StringIO(board_formats.csv(board))))
    assert [each["backbone"] for each in rows] == [ODD, r"two\nlines"]
    assert "| 1–2 | a_b & c\\|d &lt;e> 50% #1 $x ^~ {y} \\\\z\\* |" in board_text.markdown(board)
    assert json.loads(board_formats.json(board))["entries"][0]["label"] == ODD


def test_titles_and_captions_are_escaped_too():
    board = board_of([row("a", 0.9, dataset="<script>&_%")])
    assert "<script>" not in board_formats.html(board)
    assert r"\textless{}script\textgreater{}\&\_\%" in board_formats.latex(board)


def test_json_holds_scores_unrounded_and_what_the_group_is():
    board = board_of(APART)
    told = json.loads(board_formats.json(board))
    assert (told["title"], told["board"], told["headline"], told["better"]) == (
        board.title,
        board.key,
        "top1",
        "higher",
    )
    first, _, last = told["entries"]
    assert (first["rank"], first["metrics"]["top1"], first["intervals"]) == (
        [1, 1],
        0.91239,
        {"top1": [0.8812, 0.9251]},
    )
    assert (last["rank"], last["metrics"]["top1"]) == (None, None)
    assert told["caption"] == board_text.caption(board)


def test_several_boards():
    both = boards([*TOGETHER, row("a", 0.5, dataset="letters")])
    assert board_formats.drawn(both, "html").count("<table") == 2
    assert board_formats.drawn(both, "latex").count(r"\begin{tabular}") == 2
    assert board_formats.drawn(both, "md").count("### ") == 2
    assert board_formats.drawn(both, "csv").count("rank,backbone") == 2
    assert [each["title"] for each in json.loads(board_formats.drawn(both, "json"))] == [
        each.title for each in both
    ]


def test_latex_balances_its_braces():
    latex = board_formats.latex(board_of([row(ODD, 0.9), row("b", 0.1, 0.0, 0.2)]))
    bare = latex.replace(r"\{", "").replace(r"\}", "")
    assert bare.count("{") == bare.count("}")
    columns = re.search(r"\\begin\{tabular\}\{(\w+)\}", latex)[1]
    body = [line for line in latex.splitlines() if line.endswith(r"\\")]
    assert {line.count(" & ") + 1 for line in body} == {len(columns)}
