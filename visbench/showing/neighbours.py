"""Retrieval: a query and the images nearest to it.  Axes: n images, d dims, q queries, k neighbours."""

from __future__ import annotations

import numpy as np
from PIL import Image

from probes import knn
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
    cosines, places = knn.search(features[queries], features, k=min(count + 1, len(features)))
    own = places == np.asarray(queries)[:, None]
    own[~own.any(axis=1), -1] = True  # behind many copies of itself it is not among the nearest
    kept = len(queries), places.shape[1] - 1
    return places[~own].reshape(kept), cosines[~own].reshape(kept)
