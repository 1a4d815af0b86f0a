"""Class embeddings and cosines against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from probes import zeroshot
from probes.errors import InputError


def texts_of(counts, dims=6, seed=0):
    """Embeddings of so many texts a class, and whose they are."""
    owners = np.repeat(np.arange(len(counts)), counts)
    rng = np.random.default_rng(seed)
    return rng.normal(size=(len(owners), dims)).astype(np.float32), owners


def in_numpy(embeddings, owners, num_classes):
    """Normalised, averaged, normalised again, in float64."""
    rows = embeddings / np.linalg.norm(embeddings.astype(float), axis=1, keepdims=True)
    means = np.stack([rows[owners == each].mean(0) for each in range(num_classes)])
    return means / np.linalg.norm(means, axis=1, keepdims=True)


@settings(max_examples=20, deadline=None)
@given(counts=st.lists(st.integers(1, 4), min_size=2, max_size=5), seed=st.integers(0, 99))
def test_class_embeddings_are_means_of_texts_of_length_one(counts, seed):
    embeddings, owners = texts_of(counts, seed=seed)
    found = zeroshot.class_embeddings(embeddings, owners, num_classes=len(counts))
    np.testing.assert_allclose(found, in_numpy(embeddings, owners, len(counts)), atol=1e-6)
    rng = np.random.default_rng(seed)
    order, lengths = rng.permutation(len(owners)), rng.uniform(0.1, 100, (len(owners), 1))
    again = zeroshot.class_embeddings(
        (embeddings * lengths).astype(np.float32)[order], owners[order], num_classes=len(counts)
    )
    np.testing.assert_allclose(again, found, atol=1e-6)


def test_how_many_texts_a_class_has_does_not_favour_it():
    embeddings, owners = texts_of([1, 1])
    once = zeroshot.class_embeddings(embeddings, owners, num_classes=2)
    often = zeroshot.class_embeddings(embeddings[[0, 0, 0, 1]], owners[[0, 0, 0, 1]], num_classes=2)
    np.testing.assert_allclose(often, once, atol=1e-7)


@pytest.mark.parametrize("block", [4, 4096])
def test_similarities_are_cosines_in_blocks_of_any_size(block, monkeypatch):
    monkeypatch.setattr(zeroshot, "BLOCK", block)
    rng = np.random.default_rng(1)
    images, classes = rng.normal(size=(21, 6)).astype(np.float16), rng.normal(size=(3, 6)).astype(np.float32)
    images[7] = 0
    found = zeroshot.similarity(images, classes)
    wide = images.astype(float)
    lengths = np.linalg.norm(wide, axis=1, keepdims=True)
    rows = wide / np.where(lengths > 0, lengths, 1)
    np.testing.assert_allclose(
        found, rows @ (classes / np.linalg.norm(classes, axis=1, keepdims=True)).T, atol=1e-6
    )
    assert (found[7] == 0).all()


def test_what_names_no_direction_is_refused():
    embeddings, owners = texts_of([2, 1])
    with pytest.raises(InputError, match="class 2 has no text"):
        zeroshot.class_embeddings(embeddings, owners, num_classes=3)
    embeddings[1] = -embeddings[0]
    with pytest.raises(InputError, match="texts of class 0 cancel out"):
        zeroshot.class_embeddings(embeddings, owners, num_classes=2)
    with pytest.raises(InputError, match="features and class embeddings have 5 and 6 dims"):
        zeroshot.similarity(np.ones((2, 5), np.float32), embeddings)
