"""What is wrong with a name or a tap is refused before an image is read, however many there are."""

from __future__ import annotations

import pytest

import visbench
from extract.errors import InputError
from extract.memo import Memo


@pytest.fixture(autouse=True)
def no_reading(monkeypatch):
    monkeypatch.setattr(Memo, "row_ids", lambda *a, **k: pytest.fail("read the images"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("run", "classification", "photos", "--backbone", "dinvo2_vits14"), "did you mean dinov2_vits14"),
        (("run", "retrieval", "photos", "--backbone", "tiny", "--backbone", "timm:resnt18"), "resnet18"),
        (("run", "retrieval", "photos", "--backbone", "dinvo2", "--dry-run"), 'no backbone "dinvo2"'),
        (("run", "classification", "photos", "--backbone", "tiny", "--layer", "9"), "0 … 1"),
        (("run", "classification", "photos", "--backbone", "tiny", "--probe", "lgistic"), "logistic"),
        (
            ("run", "classification", "photos", "--backbone", "tiny", "--probe", "knn", "--C", "1"),
            "no setting C",
        ),
        (("run", "retrieval", "photos", "--backbone", "pixels", "--pooling", "cls"), "no CLS token"),
        (("probe", "retrieval", "photos", "--backbone", "dinvo2"), 'no backbone "dinvo2"'),
        (("extract", "photos", "--backbone", "dinvo2"), 'no backbone "dinvo2"'),
        (("extract", "photos", "--backbone", "tiny", "--taps", "cls@9"), "0 … 1"),
        (("extract", "photos", "--backbone", "tiny", "--taps", "cls,patches@9"), "0 … 1"),
        (("extract", "photos", "--backbone", "tiny", "--taps", "clss"), '"clss" is not a tap'),
    ],
)
@pytest.mark.usefixtures("photos")
def test_a_name_that_cannot_be(command, words, said):
    done = command(*words, code=2)
    assert said in done.stderr
    assert done.stdout == ""


def test_a_name_that_cannot_be_in_python(photos):
    with pytest.raises(InputError, match='no backbone "dinvo2"'):
        visbench.run("dinvo2", "classification", photos)


def test_a_layout_that_cannot_be_scored_is_refused_before_a_backbone_is_loaded(command, photos, monkeypatch):
    monkeypatch.setattr("visbench.sources.find", lambda *a, **k: pytest.fail("looked for the backbone"))
    for name in ("cat", "dog"):
        for path in (photos / "train" / name).iterdir():
            path.unlink()
        (photos / "train" / name).rmdir()
    assert "has only the class 'owl'" in command("run", "classification", photos, code=2).stderr
