"""A run from images to a record, through Python, with a backbone that costs nothing."""

from __future__ import annotations

import shutil
import warnings

import pytest

import visbench
from visbench.errors import UsageError
from visbench.options import make_options
from visbench.pipeline import Session
from visbench.record import board_key, run_key


def test_a_run_gives_metrics_intervals_a_record_and_a_probe(run, photos):
    result = run(photos)
    assert result.metrics["top1"] >= 0.8
    low, high = result.intervals["top1"]
    assert low < result.metrics["top1"] <= high
    assert result.probe.train_top1 >= 0.8
    assert result.probe.train_loss < 1
    record = result.record
    assert (record.task, record.level, record.protocol) == ("classification", "high", "standard")
    assert (record.split, record.train_split, record.val_split) == ("test", "train", None)
    assert record.dataset == "photos"
    assert record.counts["train"] == 36
    assert record.counts["test"] == record.dataset_size == record.n["top1"] == 18
    assert record.taps == ["default"]
    assert record.taps_resolved == ["cls@1"]
    assert record.selection["how"] == "C chosen on held-out training data"
    assert len(record.selection["outcome"]["scores"]) == 21
    assert record.hyperparameters["l2"] == pytest.approx(1 / (36 * record.hyperparameters["C"]))
    assert record.convergence["converged"] is True
    assert record.context["chance"] == pytest.approx(1 / 3)
    assert record.finetune is None
    assert record.versions["jax"]


def test_the_second_run_forwards_nothing(run, photos, monkeypatch):
    first = run(photos)
    monkeypatch.setattr("extract.loop.extract", lambda *a, **k: pytest.fail("extracted again"))
    again = run(photos, probe="knn", k=3)
    assert run(photos).metrics == first.metrics
    assert again.metrics["top1"] >= 0.8


def test_val_selects_and_joins_the_refit(run, photos):
    shutil.copytree(photos / "test", photos / "validation")
    result = run(photos)
    assert result.record.val_split == "val"
    assert result.record.selection["how"] == "C chosen on the val split"
    kept = run(photos, refit=False)
    c = kept.record.hyperparameters["C"]
    assert kept.record.hyperparameters["l2"] == pytest.approx(1 / (36 * c))
    assert run_key(result.record) != run_key(kept.record)


def test_permuted_test_labels_change_no_choice(run, photos):
    fair = run(photos)
    for a, b in (("cat", "x"), ("dog", "cat"), ("owl", "dog"), ("x", "owl")):
        (photos / "test" / a).rename(photos / "test" / b)
    permuted = run(photos)
    assert permuted.record.hyperparameters == fair.record.hyperparameters
    assert permuted.record.selection["outcome"] == fair.record.selection["outcome"]
    assert permuted.metrics["top1"] < 0.3


def test_retrieval_scores_and_refuses_a_training_set(run, photos):
    result = run(photos, task="retrieval")
    assert result.metrics["map"] > 0.7
    assert result.record.probe is None
    assert result.record.dataset_size == 18
    with pytest.raises(UsageError, match="learns nothing"):
        run(photos, task="retrieval", train_dataset=photos)


def test_a_name_of_a_module_without_a_backbone_is_refused(photos):
    with pytest.raises(UsageError, match="CustomBackbone"):
        visbench.run(object(), "classification", photos)


@pytest.mark.parametrize(
    ("task", "options", "words"),
    [
        ("clasification", {}, 'Did you mean "classification"'),
        ("classification", {"probe": "logstic"}, 'Did you mean "logistic"'),
        ("classification", {"poolin": "cls"}, 'Did you mean "pooling"'),
        ("classification", {"pooling": "max"}, "default, cls, mean"),
        ("classification", {"layer": 7}, "0 … 1"),
        ("classification", {"probe": "knn", "C": 1.0}, "knn has no setting C"),
        ("retrieval", {"C": 1.0}, "retrieval has no setting C"),
        ("retrieval", {"probe": "knn"}, "nothing is learnt"),
    ],
)
def test_wrong_words_are_refused(run, photos, task, options, words):
    with pytest.raises(ValueError, match=words):
        run(photos, task=task, **options)


def test_the_classic_protocol(run, photos):
    record = run(photos, protocol="visbench", epochs=3).record
    assert record.probe == "linear"
    assert record.task_params["standardize"] is False
    assert record.task_params["refit"] is False
    assert record.hyperparameters == {"learning_rate": 0.01, "weight_decay": 1e-4}
    assert record.training == {"optimizer": "adamw", "epochs": 3, "batch_size": 256, "schedule": "constant"}


def test_linear_is_chosen_by_its_own_settings(run, photos):
    assert run(photos, epochs=2).record.probe == "linear"
    assert run(photos, lr=0.1, epochs=2).record.hyperparameters["learning_rate"] == 0.1


def test_controls_and_seeds_are_in_the_record(photos):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = visbench.run("pixels", "classification", photos, C=1.0, seed=3).record
    assert record.control == "pixels"
    assert record.seed == 3


def test_more_neighbours_than_rows_are_refused_before_anything_is_extracted(run, photos, monkeypatch):
    monkeypatch.setattr("extract.loop.extract", lambda *a, **k: pytest.fail("extracted"))
    with pytest.raises(
        UsageError, match=r"k is 37, but there are 36 training images to vote; give smaller ones"
    ):
        run(photos, probe="knn", k=37)
    with pytest.raises(UsageError, match="k is 31, but there are 30 training images to vote, those held out"):
        run(photos, probe="knn", k=(5, 31))


def test_recall_at_more_than_there_is_is_said(run, photos):
    result = run(photos, "retrieval", topk=(1, 500))
    assert "recall@500" not in result.metrics
    assert "recall@500" in result.warnings[0]


def test_the_size_a_backbone_object_sees_is_the_one_recorded(tiny_backbone, photos):
    sizes = [visbench.run(tiny_backbone(size), "classification", photos, C=1.0).record for size in (32, 64)]
    assert [record.image_size for record in sizes] == [32, 64]
    assert board_key(sizes[0]) != board_key(sizes[1])


def test_a_registered_backbone_with_a_size_of_its_own_says_so(tiny, photos):
    assert visbench.run(tiny, "classification", photos, C=1.0).record.image_size == 32


@pytest.mark.parametrize(
    "options", [{"image_size": 64}, {"checkpoint": "a.pth"}, {"pretrained": False}, {"precision": "bf16"}]
)
def test_what_a_finished_backbone_cannot_heed_is_refused(run, photos, options):
    with pytest.raises(UsageError, match=f"{next(iter(options))} would change nothing"):
        run(photos, **options)


def test_random_weights_are_a_control(photos):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        record = visbench.run(
            "timm:test_vit", "classification", photos, C=1.0, image_size=32, pretrained=False
        ).record
    assert record.control == "random weights"


def test_standardisation_is_a_setting_of_the_probes_that_have_it(run, photos, tiny_backbone):
    session = Session(
        "classification",
        photos,
        make_options(standardize=False, k=3),
        [tiny_backbone()],
        ["logistic", "knn"],
    )
    scaled, votes = (each.record for each in session.run())
    assert scaled.task_params["standardize"] is False
    assert votes.probe == "knn"
    with pytest.raises(UsageError, match="knn has no setting standardize; it is a setting of logistic and"):
        run(photos, probe="knn", standardize=False)
