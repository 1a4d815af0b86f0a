"""Tiles on a page, words that fit, scales and which samples are shown."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from visbench.errors import UsageError
from visbench.mapoverlay import ramp
from visbench.showing import legends, words
from visbench.showing.choosing import Scores, Wanted, chosen, said, wanted
from visbench.showing.page import EDGE, GAP, MARGIN, RIGHT, WRONG, Heading, Row, Tile, grid, page


def plain(colour, size=60):
    return Image.new("RGB", (size, size), colour)


def found(image, colour):
    """Rows and columns of the pixels of a colour."""
    return np.argwhere((np.asarray(image) == colour).all(axis=-1))


def test_tiles_stand_in_columns_and_answers_in_frames():
    inks = [(250, 0, 0), (0, 250, 0), (0, 0, 250)]
    tiles = [Tile(plain(inks[0])), Tile(plain(inks[1]), ("caption",), True), Tile(plain(inks[2]), (), False)]
    drawn = page(Heading("title"), [Row(tuple(tiles), "row")])
    tops, lefts = zip(*(found(drawn, ink).min(axis=0) for ink in inks), strict=True)
    assert len(set(tops)) == 1
    steps = np.diff(lefts)
    assert lefts[0] == MARGIN + EDGE
    assert steps.tolist() == [60 + GAP, 60 + 2 * EDGE + GAP]
    for ink, colour in ((inks[1], RIGHT), (inks[2], WRONG)):
        top, left = found(drawn, ink).min(axis=0)
        assert tuple(np.asarray(drawn)[top - EDGE, left - EDGE]) == colour
        assert tuple(np.asarray(drawn)[top + 59 + EDGE, left + 59 + EDGE]) == colour
    assert (
        len(found(drawn.crop((lefts[1], tops[1], lefts[1] + 30, tops[1] + 30)), (255, 255, 255))) > 10
    )  # a tick


def test_a_tick_and_a_cross_differ_in_more_than_colour():
    marks = []
    for right in (True, False):
        drawn = page(Heading(""), [Row((Tile(plain((9, 9, 9)), (), right),))])
        top, left = found(drawn, (9, 9, 9)).min(axis=0)
        marks.append((np.asarray(drawn)[top : top + 30, left : left + 30] == 255).all(axis=-1))
    assert (marks[0] != marks[1]).sum() > 15


def test_a_grid_breaks_rows():
    assert [len(row.tiles) for row in grid([Tile(plain((0, 0, 0)))] * 7, 3)] == [3, 3, 1]


@pytest.mark.parametrize("text", ["train/cat/" + "a" * 90 + ".jpg", "short", "Größe 日本 Ж λ ✓ \x07"])
def test_words_fit_their_room(text):
    short = words.cut(text, 120)
    assert words.width(short) <= 120
    assert short == text or short.endswith(text[-4:])
    assert all(words.width(line) <= 200 for line in words.wrapped(f"{text} {text} and more words", 200))
    canvas = Image.new("RGB", (300, 30), (255, 255, 255))
    words.write(ImageDraw.Draw(canvas), (0, 0), text)
    assert (np.asarray(canvas) < 100).any()


def test_letters_that_no_font_has_are_said_otherwise(monkeypatch):
    monkeypatch.setattr(words, "_WIDER", ())
    monkeypatch.setattr(words, "_CJK", ())
    assert words.fitting("Größe – 日")[0] == "Gro?e - ?"


def test_a_scale_runs_from_the_first_colour_to_the_last():
    bar = np.asarray(legends.scale(0, 16, "px", beyond=True))
    row = words.height(words.PLAIN) + 5
    low, high = ramp(np.array([0.0, 1.0]))
    assert (bar[row, 0] == low).all()
    assert (bar[row, legends.BAR - 1] == high).all()
    assert (np.abs(np.diff(bar[row, : legends.BAR].astype(int), axis=0)).max(axis=1) <= 4).all()


@pytest.mark.parametrize(
    ("value", "span", "text"), [(0.0259, 1.3, "0.03"), (4, 16, "4"), (-0.001, 1, "0"), (1e-4, 4e-4, "0.0001")]
)
def test_numbers_of_a_scale_are_short(value, span, text):
    assert legends._short(value, span) == text


NAMES = [[f"row {row}", f"a/{row}.png"] for row in range(5)]


def shown(want, values, *, lower=False, badness=None):
    scores = Scores("top1", np.array(values, float), lower, badness)
    return chosen(want, scores, NAMES, seed=0, what="image").tolist()


def test_the_worst_come_first_and_ties_by_badness():
    values = [1, 0, np.nan, 0, 0.5]
    assert shown(Wanted("worst", 3), values) == [1, 3, 4]
    assert shown(Wanted("worst", 9), values, badness=np.array([0, 1, 9, 2, 0])) == [3, 1, 4, 0]
    assert shown(Wanted("best", 2), values) == [0, 4]
    assert shown(Wanted("worst", 2), values, lower=True) == [0, 4]
    assert shown(Wanted("best", 2), values, lower=True, badness=np.array([0, 1, 9, 2, 0])) == [1, 3]


def test_some_are_drawn_by_the_seed_and_some_are_named():
    drawn = shown(Wanted("random", 3), [np.nan] * 5)
    assert len(set(drawn)) == 3
    assert drawn == shown(Wanted("random", 3), [0.0] * 5)
    assert shown(Wanted(frames=("3.png", "row 0")), [0] * 5) == [3, 0]


def test_what_is_shown_is_said():
    scores = Scores("top1", np.zeros(5), False)
    assert (
        said(Wanted("worst", 2), 2, 5, scores, "image") == "the 2 worst of 5 images by top1, the worst first"
    )
    assert said(Wanted("best", 9), 5, 5, scores, "pair") == "all 5 pairs by top1, the best first"


@pytest.mark.parametrize(
    ("call", "words_"),
    [
        (lambda: wanted(worst=2, best=2, random=None), "give one of them"),
        (lambda: wanted(worst=None, best=None, random=1, frames=["a"]), "give one of them"),
        (lambda: Wanted("worst", 0), "1 …"),
        (lambda: Wanted("worst", True), "1 …"),
        (lambda: shown(Wanted(frames=("a/33.png",)), [0] * 5), "Did you mean"),
        (lambda: shown(Wanted(), [np.nan] * 5), "take random"),
    ],
)
def test_what_cannot_be_shown_is_refused(call, words_):
    with pytest.raises(UsageError, match=words_):
        call()
