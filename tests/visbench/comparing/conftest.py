"""Records with the scores of every sample, as runs leave them."""

from __future__ import annotations

import numpy as np
import pytest

from visbench import results, samples
from visbench.record import Record

N = 300


def _made_ids(n=N, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (n, 16), np.uint8)


def _hits(share, seed=0, n=N):
    """The same samples are hard for everybody."""
    rng = np.random.default_rng(5)
    return rng.random(n) + 0.15 * np.random.default_rng(seed).standard_normal(n) < share


@pytest.fixture
def add(tmp_path):
    """Append a record with its scores, as a run does."""

    def append(backbone, scores, *, ids=None, file="r.jsonl", metric="top1", values=None, **fields):
        path = tmp_path / file
        scores = np.asarray(scores)
        fields = {
            "timestamp": "2026-01-01T00:00:00Z",
            "task": "classification",
            "probe": "logistic",
            "dataset": "photos",
            "split": "test",
            "dataset_fingerprint": "f",
            "taps": ["default"],
            "image_size": 224,
            "headline": metric,
            "backbone_key": f"weights of {backbone}",
            "metrics": {metric: float(np.nanmean(scores))},
            **fields,
        }
        ids = _made_ids(len(scores)) if ids is None else ids
        reference = samples.write(path, values if values is not None else {metric: scores}, ids)
        record = Record.from_dict({**fields, "backbone": backbone, "samples": reference})
        results.append(path, [record])
        return record

    return append


@pytest.fixture
def path(tmp_path):
    return tmp_path / "r.jsonl"


@pytest.fixture(scope="session")
def made_ids():
    """Content digests of n samples."""
    return _made_ids


@pytest.fixture(scope="session")
def hits():
    """Which samples a backbone of so good a share gets right."""
    return _hits
