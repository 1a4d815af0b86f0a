"""Retrieval: a query and the images nearest to it.  Axes: n images, d dims, q queries, k neighbours."""

from __future__ import annotations

import numpy as np
from PIL import Image

from visbench.showing import legends
from visbench.showing.choosing import Scores
from visbench.showing.page import Row, Tile, page
from visbench.showing.seen import Seen

TILE, FIRST = 132, 7  # pixels, and neighbours that are shown


def scores(seen: Seen) -> Scores:
    """The average precision of each query."""
    return seen.scores("map")


def draw(seen: Seen, rows: np.ndarray, found: Scores, shown: str) -> Image.Image:
    """The page."""
    features = seen.rows(seen.measure.taps[0])["test"].features
    labels, images = seen.images.known_labels, seen.images
    places, cosines = nearest(features, rows, FIRST)
    listed = []
    for query, near, alike in zip(map(int, rows), places, cosines, strict=True):
        tiles = [Tile(seen.picture(query, TILE), ("query", seen.classes[labels[query]]))]
        for rank, (place, cosine) in enumerate(zip(map(int, near), alike, strict=True), 1):
            right = bool(labels[place] == labels[query])
            lines = (f"{rank}.  cosine {cosine:.2f}", seen.classes[labels[place]])
            tiles.append(Tile(seen.picture(place, TILE), lines, right))
        score = found[query].replace("map", "average precision", 1)
        listed.append(Row(tuple(tiles), f"{images.names[query]} · {score}"))
    return page(seen.heading(shown), listed, [legends.answers("of the query's class", "of another")])


def nearest(features: np.ndarray, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """(q, k) places and cosines of the rows nearest to some of the rows (n, d), themselves left out."""
    rows: np.ndarray = features.astype(np.float32)
    length = np.linalg.norm(rows, axis=1, keepdims=True)
    rows = rows / np.where(length > 0, length, 1)
    cosines = rows[queries] @ rows.T
    cosines[np.arange(len(queries)), queries] = -np.inf
    places = np.argsort(-cosines, axis=1, kind="stable")[:, : min(count, len(rows) - 1)]
    return places, np.take_along_axis(cosines, places, axis=1)
