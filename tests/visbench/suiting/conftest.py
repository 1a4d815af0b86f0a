"""A suite of two tasks over the photos, and backbones that count what they are shown."""

from __future__ import annotations

import pytest

WHOLE = """
results = "out/suite.jsonl"
backbones = ["tiny"]
[defaults]
seed = 0
[[tasks]]
task = "classification"
data = "photos/"
probes = ["logistic", "knn"]
C = 1
k = 3
[[tasks]]
task = "retrieval"
data = "photos"
layer = 0
"""


@pytest.fixture
def whole():
    """The text of the usual suite file."""
    return WHOLE


@pytest.fixture
def seen(tiny, tiny_backbone):
    """How many images the backbones `tiny` and `other` were shown."""
    from extract.backbones.registry import REGISTERED, register_backbone

    shown = []

    def made(**options):
        backbone = tiny_backbone()
        backbone.module.register_forward_pre_hook(lambda module, given: shown.append(len(given[0])))
        return backbone

    register_backbone("tiny")(made)
    register_backbone("other")(lambda **options: tiny_backbone(16, 4, name="other"))
    yield shown
    REGISTERED.pop("other", None)


@pytest.fixture
def written(tmp_path, monkeypatch, photos):
    """Write a suite file beside the photos."""
    monkeypatch.chdir(tmp_path)

    def write(text=WHOLE, name="suite.toml"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write
