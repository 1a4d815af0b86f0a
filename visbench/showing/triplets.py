"""Similarity: a reference and two images, which of them people chose and which the features.  Axes: t triplets."""

from __future__ import annotations

import numpy as np
from PIL import Image

from probes import similarity
from visbench.showing import legends
from visbench.showing.choosing import Scores
from visbench.showing.page import Row, Tile, page
from visbench.showing.seen import Seen

TILE = 190


def compared(seen: Seen) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(t,) how similar left and right are to the reference, and whether people chose right."""
    found = seen.rows(seen.measure.taps[0])
    left, right = similarity.compare(found.features, found.groups.members, metric=seen.measure.probe.metric)
    return left, right, found.groups.truth["right"].astype(bool)


def scores(seen: Seen) -> Scores:
    """Of each triplet; of two wrong answers the worse is the one by the wider margin."""
    left, right, chosen = compared(seen)
    return seen.scores("accuracy", np.where(chosen, left - right, right - left))


def draw(seen: Seen, rows: np.ndarray, found: Scores, shown: str) -> Image.Image:
    """The page."""
    left, right, chosen = compared(seen)
    groups, called = seen.images.groups, seen.measure.probe.metric
    assert groups is not None
    listed = []
    for row in map(int, rows):
        images = [seen.picture(int(place), TILE) for place in groups.members[row]]
        names = [seen.images.names[int(place)] for place in groups.members[row]]
        agreed = float(found.values[row])
        tiles = tiles_of(images, names, (left[row], right[row]), bool(chosen[row]), agreed, called)
        verdict = "agree" if agreed == 1 else "a tie" if agreed == 0.5 else "disagree"
        listed.append(Row(tiles, f"{groups.names[row]} · {verdict} · {found[row]}"))
    legend = legends.answers(
        "the features choose it, as people do", "the features choose it, and people the other"
    )
    return page(seen.heading(shown), listed, [legend])


def tiles_of(
    images: list[Image.Image],
    names: list[str],
    near: tuple[float, float],
    people_right: bool,
    agreed: float,
    metric: str,
) -> tuple[Tile, ...]:
    """Left, reference, right; a frame around what the features choose."""
    reference, left, right = images
    tied = agreed == 0.5
    said_right = people_right == (agreed == 1)

    def side(image: Image.Image, which: str, name: str, value: float, is_right: bool) -> Tile:
        marks = [f"{which}: {_nearness(metric, value)}"]
        said = [
            who
            for who, yes in (
                ("people", people_right == is_right),
                ("features", said_right == is_right and not tied),
            )
            if yes
        ]
        marks.append(f"chosen by {' and '.join(said)}" if said else "chosen by neither")
        return Tile(image, (*marks, name), None if tied or said_right != is_right else agreed == 1)

    return (
        side(left, "left", names[1], near[0], False),
        Tile(reference, ("reference", names[0])),
        side(right, "right", names[2], near[1], True),
    )


def _nearness(metric: str, value: float) -> str:
    return f"cosine {value:.3f}" if metric == "cosine" else f"distance {-value:.3g}"
