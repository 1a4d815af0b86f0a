"""Features and groups as a run reads them: aligned by content, answers shuffled for a control."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

import visbench
from extract.datasets import ImageSet, Splits
from extract.datasets.groups import Groups
from visbench import features
from visbench.grouped import Grouped
from visbench.options import make_options
from visbench.pipeline import Session


def files(folder, n=24, t=40, seed=0) -> Splits:
    """Pictures of one colour each, and triplets in which people chose the image that is nearer in brightness."""
    rng = np.random.default_rng(seed)
    values = rng.permutation(256)[:n]
    paths = [folder / f"{row}.png" for row in range(n)]
    for path, level in zip(paths, values, strict=True):
        Image.fromarray(np.full((40, 40, 3), level, np.uint8)).save(path)
    members = np.stack([rng.permutation(n)[:3] for _ in range(t)])
    reference, left, right = values[members].T
    truth = {"right": abs(reference - right) < abs(reference - left), "first": reference}
    groups = Groups("triplet", members, tuple(f"row {row}" for row in range(t)), truth)
    named = tuple(path.name for path in paths)
    return Splits({"test": ImageSet("grey", "test", paths, named, groups=groups)})


@pytest.fixture
def session(tiny_backbone, tmp_path):
    def make(data=None, **options):
        settings = make_options(pooling="cls", **options)
        return Session("similarity", data or files(tmp_path), settings, [tiny_backbone()])

    return make


def read(session, source=None):
    source = source or session.sources[0]
    images, ids = session.images()
    plan, _ = features.ensure(
        source, images, ids, source.taps, session.options, store=session.store, memo=session.memo
    )
    return Grouped(session)(source, plan)("cls")


def test_members_are_rows_of_the_features(session):
    found = read(session())
    level = found.features[:, 0].astype(float) * 255  # the tiny backbone says the mean of red
    truth = found.groups.truth
    reference, left, right = (np.round(level[column]) for column in found.groups.members.T)
    np.testing.assert_allclose(reference, truth["first"], atol=1)
    assert (truth["right"] == (abs(reference - right) < abs(reference - left))).all()
    assert found.ids.shape == (40, 16)
    assert (found.ids == found.groups.ids).all()


def test_for_a_control_answers_go_to_other_triplets_and_all_else_stays(session):
    made = session(controls=("shuffle",))
    own, shuffled = (read(made, source) for source in made.sources)
    assert (shuffled.ids == own.ids).all()
    assert (shuffled.groups.members == own.groups.members).all()
    assert (shuffled.groups.truth["first"] == own.groups.truth["first"]).all()
    before, after = own.groups.truth["right"], shuffled.groups.truth["right"]
    assert before.sum() == after.sum()
    assert (before != after).any()
    again = read(made, made.sources[1])
    assert (again.groups.truth["right"] == after).all()
    other = session(controls=("shuffle",), seed=1)
    assert (read(other, other.sources[1]).groups.truth["right"] != after).any()


def test_shuffled_answers_score_at_chance(tiny_backbone, tmp_path):
    data = files(tmp_path, n=60, t=1000)
    own, control = visbench.sweep(
        tiny_backbone(), "similarity", data, pooling="cls", metric="euclidean", controls=("shuffle",)
    ).results
    assert own.metrics["accuracy"] > 0.98  # less where left and right are equally near
    assert control.record.control == "shuffled labels"
    low, high = control.intervals["accuracy"]
    assert low - 0.01 < 0.5 < high + 0.01
    assert len(control.per_sample["accuracy"]) == 1000


def test_triplets_with_an_image_that_cannot_be_read_are_left_out(run, tmp_path):
    data = files(tmp_path)
    (tmp_path / "3.png").write_bytes(b"no picture")
    whole = (data["test"].groups.members != 3).all(axis=1)
    result = run(data, "similarity", pooling="cls", on_bad="skip")
    assert result.record.n["accuracy"] == whole.sum() < 40
    assert result.record.unreadable.keys() == {"3.png"}
    rest = data["test"].subset([row for row in range(24) if row != 3])
    alone = run(Splits({"test": rest}), "similarity", pooling="cls")
    assert alone.metrics == result.metrics


def test_two_files_of_one_picture_tie(run, tmp_path):
    data = files(tmp_path, t=30)
    groups = data["test"].groups
    (tmp_path / "copy.png").write_bytes((tmp_path / "5.png").read_bytes())
    images = replace(
        data["test"],
        sources=[*data["test"].sources, tmp_path / "copy.png"],
        names=(*data["test"].names, "copy.png"),
        groups=replace(groups, members=np.array([[row % 4, 5, 24] for row in range(30)])),
    )
    result = run(Splits({"test": images}), "similarity", pooling="cls")
    assert (result.metrics["accuracy"], result.metrics["tie_rate"]) == (0.5, 1)
    assert any("30 of 30 triplets are ties" in said for said in result.warnings)
