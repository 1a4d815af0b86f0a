"""A picture that was saved again is found by its features."""

from __future__ import annotations

import io

import numpy as np
from PIL import Image

import visbench
from visbench import demo
from visbench.near_copies import near_copies
from visbench.outcome import Rows


def rows(features, first=0):
    ids = np.zeros((len(features), 16), np.uint8)
    ids[:, 0] = np.arange(first, first + len(features))
    return Rows(np.asarray(features, np.float32), np.zeros(len(features), int), ids)


def test_a_near_copy_is_told_from_neighbours_and_from_exact_copies():
    rng = np.random.default_rng(0)
    trained = rows(rng.normal(size=(50, 20)))
    scored = rows(rng.normal(size=(5, 20)), first=100)
    scored.features[3] = trained.features[17] + 0.01 * rng.normal(size=20)
    scored.features[4] = trained.features[18]
    scored.ids[4] = trained.ids[18]
    assert near_copies(scored, trained).tolist() == [[3, 17]]


def test_a_picture_saved_again_is_warned_of(monkeypatch):
    monkeypatch.setattr(demo, "CROP", 150)
    monkeypatch.setattr(demo, "COUNTS", {"train": 2, "test": 1})
    data = demo.crops()
    again = io.BytesIO()
    Image.fromarray(data["train"][0][4]).save(again, "JPEG", quality=90)
    data["test"][0].append(again.getvalue())
    data["test"][1].append(data["train"][1][4])
    result = visbench.run("efficientnet_lite0", "classification", data, C=1.0)
    assert result.record.context["near_duplicates"] == 1
    assert any("test: image 15 looks like a copy of train: image 4," in text for text in result.warnings)
