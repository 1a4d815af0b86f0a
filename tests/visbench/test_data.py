"""The images of a run: names, roles, and what is left of them once some cannot be read."""

from __future__ import annotations

import pytest

import visbench
from extract.errors import InputError


def encoded(folder):
    """Encoded pictures and their class names, as arrays and datasets hand them over."""
    files = sorted(folder.rglob("*.png"))
    return [path.read_bytes() for path in files], [path.parent.name for path in files]


def cut(pictures, at):
    """The same with one picture that ends too soon."""
    return [each[: len(each) // 2] if i == at else each for i, each in enumerate(pictures)]


@pytest.fixture
def run(tiny_backbone):
    backbone = tiny_backbone()

    def call(data, **options):
        return visbench.run(backbone, "classification", data, C=1.0, on_bad="skip", **options)

    return call


def test_an_unreadable_image_takes_no_image_of_another_split_with_it(run, photos):
    train, names = encoded(photos / "train")
    for _ in range(2):  # met while extracting, then remembered
        record = run({"train": (cut(train, 3), names), "test": encoded(photos / "test")}).record
        assert (record.counts["train"], record.counts["test"]) == (35, 18)
        assert list(record.unreadable) == ["train: image 3"]


def test_a_set_in_two_roles_loses_an_unreadable_image_in_both(run, photos):
    whole = (photos / "test" / "owl" / "005.png").read_bytes()
    (photos / "test" / "owl" / "zzz.png").write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        record = run(photos, split="test", train_split="test", allow_same=True).record
        assert (record.counts["train"], record.counts["test"]) == (18, 18)
        assert list(record.unreadable) == ["test/owl/zzz.png"]


def test_a_class_whose_only_training_image_is_unreadable_is_refused(run, photos):
    train, names = encoded(photos / "train")
    few = {"train": (cut(train[:25], 24), names[:25]), "test": encoded(photos / "test")}  # of owls one
    for _ in range(2):
        with pytest.raises(InputError, match=r"owl, of which .* has none to learn from"):
            run(few)
