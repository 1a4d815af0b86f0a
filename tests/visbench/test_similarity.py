"""The 2AFC measurement on arrays and in whole runs."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from sklearn.metrics import accuracy_score, f1_score, precision_score, recall_score
from sklearn.metrics.pairwise import paired_cosine_distances, paired_euclidean_distances

import visbench
from extract.datasets import ImageSet, Splits
from extract.datasets.groups import Groups
from probes import statistics
from visbench import samples
from visbench.errors import UsageError
from visbench.options import make_options
from visbench.similarity import Similarity, SimilarityProbe


def draw(seed, n=40, d=9, t=200):
    rng = np.random.default_rng(seed)
    members = np.stack([rng.permutation(n)[:3] for _ in range(t)])
    return rng.normal(size=(n, d)).astype(np.float16), members, rng.random(t) < 0.45


def triplets(seed=0, n=30, t=60, *, names=None, order=None, **truth) -> Splits:
    """Images of one colour and triplets of them; people choose the image whose colour is nearer by angle."""
    rng = np.random.default_rng(seed)
    colours = rng.integers(20, 236, (n, 3))
    images = [np.broadcast_to(colour.astype(np.uint8), (40, 40, 3)).copy() for colour in colours]
    members = np.stack([rng.permutation(n)[:3] for _ in range(t)])
    reference, left, right = (colours[column].astype(float) for column in members.T)
    said = paired_cosine_distances(reference, right) < paired_cosine_distances(reference, left)
    truth = {"right": said, **truth}
    order = np.arange(t) if order is None else order
    groups = Groups(
        "triplet",
        members[order],
        tuple(f"row {row}" for row in order),
        {name: each[order] for name, each in truth.items()},
    )
    named = tuple(names or (f"{row}.png" for row in range(n)))
    return Splits({"test": ImageSet("likeness", "test", images, named, groups=groups)})


@pytest.fixture
def similar(run):
    """A run of the measurement with the tiny backbone, whose cls is an image's mean colour and two constants."""
    return lambda data, **options: run(data, "similarity", **options)


@pytest.mark.parametrize("metric", ["cosine", "euclidean"])
def test_every_metric_is_that_of_scikit_learn_where_nothing_ties(metric):
    features, members, right = draw(0)
    reference, one, other = (features[column].astype(float) for column in members.T)
    away = {"cosine": paired_cosine_distances, "euclidean": paired_euclidean_distances}[metric]
    said = away(reference, other) < away(reference, one)
    outcome = SimilarityProbe(metric=metric).score(features, members, right)
    expected = [measure(right, said) for measure in (accuracy_score, precision_score, recall_score, f1_score)]
    assert list(outcome.metrics.values()) == pytest.approx([*expected, 0])
    assert list(outcome.metrics) == ["accuracy", "precision", "recall", "f1", "tie_rate"]
    assert (outcome.per_sample["accuracy"] == (said == right)).all()
    assert outcome.n == dict.fromkeys(outcome.metrics, 200)
    assert outcome.context == {"chance": 0.5, "right_share": right.mean()}
    assert not outcome.warnings


@given(st.integers(0, 2**31))
def test_the_order_of_triplets_changes_neither_scores_nor_intervals(seed):
    features, members, right = draw(seed, t=60)
    members[:10, 2] = members[:10, 1]
    order = np.random.default_rng(seed).permutation(60)
    outcome, again = (
        SimilarityProbe().score(features, members[rows], right[rows]) for rows in (np.arange(60), order)
    )
    assert (again.metrics, again.intervals) == (outcome.metrics, outcome.intervals)
    assert (again.per_sample["accuracy"] == outcome.per_sample["accuracy"][order]).all()
    for name, (low, high) in outcome.intervals.items():
        assert 0 <= low <= outcome.metrics[name] <= high <= 1


def test_the_interval_is_wilsons_where_nothing_ties_and_resampled_where_something_does():
    features, members, right = draw(1)
    probe = SimilarityProbe()
    outcome = probe.score(features, members, right)
    hits = outcome.per_sample["accuracy"]
    assert outcome.intervals["accuracy"] == list(statistics.wilson(int(hits.sum()), 200))
    members[:50, 2] = members[:50, 1]
    outcome = probe.score(features, members, right)
    values = outcome.per_sample["accuracy"]
    assert outcome.metrics["accuracy"] == pytest.approx(values.mean())
    assert sorted(set(values)) == [0, 0.5, 1]
    spread = 1.96 * values.std() / np.sqrt(200)
    low, high = outcome.intervals["accuracy"]
    assert (low, high) == pytest.approx((values.mean() - spread, values.mean() + spread), abs=0.012)
    assert outcome.intervals["tie_rate"] == list(statistics.wilson(50, 200))


def test_a_collapsed_backbone_is_at_chance_and_is_said_to_tie():
    _, members, right = draw(2)
    features = np.full((40, 9), 0.3, np.float16)
    outcome = SimilarityProbe().score(features, members, right)
    assert (outcome.metrics["accuracy"], outcome.metrics["tie_rate"]) == (0.5, 1)
    (said,) = outcome.warnings
    assert said.startswith("200 of 200 triplets are ties")
    classic = SimilarityProbe(ties="left").score(features, members, right)
    assert classic.metrics["accuracy"] == pytest.approx(1 - right.mean())
    assert classic.metrics["precision"] == classic.metrics["recall"] == 0
    assert "as an answer left" in classic.warnings[0]


def test_a_few_ties_are_no_news():
    features, members, right = draw(3)
    members[:2, 2] = members[:2, 1]
    assert not SimilarityProbe().score(features, members, right).warnings
    members[2, 2] = members[2, 1]
    assert "3 of 200 triplets" in SimilarityProbe().score(features, members, right).warnings[0]


def test_answers_on_one_side_are_told():
    features, members, right = draw(4)
    said = SimilarityProbe().score(features, members, right).per_sample["accuracy"] == right
    turned = np.where(said[:, None], members, members[:, [0, 2, 1]])
    (warning,) = SimilarityProbe().score(features, turned, right).warnings
    assert warning.startswith("every answer is right")
    (warning,) = SimilarityProbe().score(features, members, np.zeros(200, bool)).warnings
    assert warning.startswith("people chose left in every triplet")


def test_the_probe_takes_arrays():
    features, members, right = draw(5)
    probe = visbench.get_probe("similarity").fit()
    expected = SimilarityProbe().score(features, members, right).metrics
    assert probe.evaluate(features, members.tolist(), right.astype(int).tolist()) == expected
    classic = visbench.get_probe("similarity", protocol="visbench")
    assert (classic.ties, classic.metric) == ("left", "cosine")
    assert visbench.get_probe("similarity", metric="euclidean").metric == "euclidean"
    with pytest.raises(UsageError, match=r"0\.25"):
        probe.evaluate(features, members, right / 4)


def test_settings_that_mean_nothing_are_refused():
    for given_, match in (
        ({"metric": "dot"}, "cosine or euclidean"),
        ({"k": 5}, "no setting k"),
        ({"standardize": True}, "no setting standardize"),
        ({"metric": "euclidean", "protocol": "visbench"}, "compares by cosine"),
    ):
        with pytest.raises(UsageError, match=match):
            Similarity(None, make_options(**given_))


def test_a_run_says_for_each_triplet_what_its_features_say(similar, tmp_path):
    rng = np.random.default_rng(0)
    noise = rng.random(60) < 0.3
    data = triplets(votes=np.arange(60) % 4 + 6, imagenet=np.arange(60) < 20)
    truth = data["test"].groups.truth
    truth["right"][noise] ^= True
    result = similar(data, pooling="cls", results=tmp_path / "results.jsonl")
    colours = np.stack([image[0, 0] / 255 for image in data["test"].sources])
    rows = np.column_stack([colours, -np.ones((30, 2))])
    reference, one, other = (rows[column] for column in data["test"].groups.members.T)
    said = paired_cosine_distances(reference, other) < paired_cosine_distances(reference, one)
    agreed = said == truth["right"]
    assert result.metrics["accuracy"] == pytest.approx(agreed.mean())
    assert result.metrics["accuracy_imagenet"] == pytest.approx(agreed[:20].mean())
    assert result.metrics["accuracy_no_imagenet"] == pytest.approx(agreed[20:].mean())
    record = result.record
    assert (record.n["accuracy"], record.n["accuracy_imagenet"], record.dataset_size) == (60, 20, 60)
    assert record.intervals["accuracy_imagenet"] == list(statistics.wilson(int(agreed[:20].sum()), 20))
    assert record.task_params == {"metric": "cosine", "ties": "half"}
    assert record.context == {"chance": 0.5, "right_share": truth["right"].mean(), "min_votes": 6}
    kept = samples.read(tmp_path / "results.jsonl", record)
    assert len(np.unique(kept.ids, axis=0)) == 60
    assert (kept.scores["accuracy"] == result.per_sample["accuracy"]).all()


def test_a_part_without_triplets_has_no_score(similar):
    result = similar(triplets(imagenet=np.ones(60, bool)))
    assert result.metrics["accuracy_imagenet"] == result.metrics["accuracy"]
    assert "accuracy_no_imagenet" not in result.metrics


def test_the_older_protocol_is_named_and_calls_ties_left(similar):
    data = triplets()
    groups = data["test"].groups
    groups.members[:30, 2] = groups.members[:30, 1]
    result, classic = similar(data), similar(data, protocol="visbench")
    assert classic.record.task_params == {"metric": "cosine", "ties": "left", "protocol": "midvision_2afc"}
    assert result.metrics["tie_rate"] == classic.metrics["tie_rate"] >= 0.5
    ours, theirs = result.per_sample["accuracy"], classic.per_sample["accuracy"]
    assert (theirs[ours != 0.5] == ours[ours != 0.5]).all()
    assert set(theirs) == {0, 1}


def test_names_of_files_and_the_order_of_rows_change_nothing(similar):
    order = np.random.default_rng(1).permutation(60)
    names = [f"{row * 7919 % 30:03}" for row in range(30)]
    one, other = similar(triplets()), similar(triplets(names=names, order=order))
    assert one.metrics == other.metrics
    assert one.record.dataset_fingerprint == other.record.dataset_fingerprint
    assert (one.per_sample["accuracy"] == other.per_sample["accuracy"]).all()


def test_neither_torch_nor_jax_is_imported_to_compare():
    ask = "import visbench.similarity, visbench.grouped, sys; print({'jax', 'torch'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.fixture
def nights(tmp_path):
    """Twelve triplets as NIGHTS lays them out: four of train, eight of test, every other one of ImageNet."""
    rng = np.random.default_rng(0)
    root = tmp_path / "nights"
    (root / "ref").mkdir(parents=True)
    for number in range(12):
        Image.fromarray(rng.integers(0, 256, (32, 32, 3), np.uint8)).save(root / "ref" / f"{number}.png")
    lines = ["id,ref_path,left_path,right_path,left_vote,right_vote,votes,split,is_imagenet"]
    for row in range(12):
        paths = ",".join(f"ref/{(row + step) % 12}.png" for step in (0, 1, 5))
        split, inside = ("train" if row < 4 else "test"), row % 2 == 0
        lines.append(
            f"{row},{paths},{row // 2 % 2},{1 - row // 2 % 2},{5 if row == 5 else 8},{split},{inside}"
        )
    (root / "data.csv").write_text("\n".join(lines))
    return root


def scored(command, *words, code=0):
    words = ("run", "similarity", *words, "--backbone", "tiny", "--no-results", "--workers", "1", "--json")
    done = command(*words, code=code)
    return json.loads(done.stdout) if code == 0 else done.stderr


def test_a_part_of_nights_is_scored_alone(command, nights):
    whole = scored(command, nights)
    assert whole["n"]["accuracy"] == 7  # one of eight has five votes
    for part, count in (("imagenet", 4), ("no_imagenet", 3)):
        own = scored(command, nights, "--partition", part)
        assert own["n"]["accuracy"] == count
        assert own["dataset_params"]["partition"] == part
        assert own["metrics"]["accuracy"] == whole["metrics"][f"accuracy_{part}"]
    assert scored(command, nights, "--min-votes", "0")["n"]["accuracy"] == 8


def test_a_part_that_is_not_there_is_refused(command, nights):
    said = scored(command, nights, "--partition", "imagenet", "--split", "train", code=2)
    assert "the split train was asked for" in said
    table = nights / "data.csv"
    table.write_text(table.read_text().replace("True", "False"))
    said = scored(command, nights, "--partition", "imagenet", code=2)
    assert "all of its test split are in test_no_imagenet" in said
    table.write_text(table.read_text().replace("is_imagenet", "other"))
    assert "no column is_imagenet" in scored(command, nights, "--partition", "imagenet", code=2)


def test_columns_of_triplets_can_be_told(command, nights):
    lines = [f"ref/{row}.png,ref/{row + 1}.png,ref/{row + 2}.png,left" for row in range(8)]
    table = nights / "mine.csv"
    table.write_text("\n".join(["photo,left,b,choice", *lines]))
    said = scored(command, table, "--column", "reference=photo", code=2)
    assert "as right=b" in said
    told = ("--column", "reference=photo", "--column", "right=b")
    assert scored(command, table, *told)["n"]["accuracy"] == 8
    table.write_text(table.read_text().replace("ref/2.png,ref/3.png", "ref/bad.png,ref/3.png"))
    (nights / "ref" / "bad.png").write_bytes(b"none")
    found = scored(command, table, *told, "--on-bad", "skip")
    assert (found["n"]["accuracy"], list(found["unreadable"])) == (6, ["ref/bad.png"])


def test_of_one_triplet_nothing_is_resampled():
    features, members = np.eye(3), np.array([[0, 1, 1]])
    outcome = SimilarityProbe().score(features, members, np.array([1]), parts={"imagenet": np.array([True])})
    assert outcome.metrics["accuracy"] == outcome.metrics["accuracy_imagenet"] == 0.5
    assert set(outcome.intervals) == {"tie_rate"}
