"""A run from files to a record, through Python, with a backbone that costs nothing."""

from __future__ import annotations

import hashlib
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import visbench
from extract.errors import InputError
from visbench import results
from visbench.errors import UsageError
from visbench.options import make_options
from visbench.pipeline import Session
from visbench.record import board_key, run_key


def digest_of(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(p).encode() + p.read_bytes() for p in files)).hexdigest()


@pytest.fixture
def run(tiny_backbone):
    """`visbench.run` with the tiny backbone; repeats that and the task where they do not matter."""
    backbone = tiny_backbone()

    def call(data, task="classification", **options):
        return visbench.run(backbone, task, data, **options)

    return call


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


def test_what_was_kept_in_the_data_folder_is_unchanged(run, photos):
    before = digest_of(photos)
    run(photos)
    assert digest_of(photos) == before


def test_a_store_inside_the_data_is_refused(run, photos):
    for inside in (photos, photos / "store"):
        with pytest.raises(InputError, match="--store"):
            run(photos, store=inside)


def test_classes_map_by_name_and_stray_folders_change_nothing(run, photos):
    plain = run(photos, C=1.0)
    shutil.rmtree(photos / "test" / "cat")  # test now has dog and owl alone
    (photos / "test" / ".ipynb_checkpoints").mkdir()
    fewer = run(photos, C=1.0)
    assert fewer.metrics["top1"] >= plain.metrics["top1"] - 0.1
    assert fewer.record.n["top1"] == 12
    assert fewer.record.context["classes_scored"] == 2


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


def test_without_splits_a_fifth_is_drawn(run, photos):
    result = run(photos / "train")
    assert result.record.counts == {"train": 30, "test": 6, "classes": 3, "unreadable": 0, "converted": {}}
    assert result.record.dataset_params["drawn_test"] == 0.2


def test_limit_takes_per_class(run, photos):
    result = run(photos, limit=2, C=1.0)
    assert result.record.counts["train"] == 6
    assert result.record.dataset_params["limit"] == 2


def test_the_same_picture_in_train_and_test_is_counted_and_scored_without(run, photos):
    shutil.copy(photos / "train" / "cat" / "000.png", photos / "test" / "cat" / "copy.png")
    record = run(photos, C=1.0).record
    assert record.context["duplicates"] == 1
    assert 0 <= record.context["top1_without_duplicates"] <= 1


def test_a_truncated_file_is_refused_or_skipped(run, photos):
    whole = (photos / "test" / "owl" / "005.png").read_bytes()
    bad = photos / "test" / "owl" / "zzz.png"
    bad.write_bytes(whole[: len(whole) // 2])
    for _ in range(2):  # the second time it is remembered
        with pytest.raises(InputError, match=r"owl/zzz.png.*--on-bad skip") as refused:
            run(photos)
        assert "cannot be read" in str(refused.value)
    for _ in range(2):
        result = run(photos, on_bad="skip")
        assert result.record.counts["test"] == 18
        assert result.record.counts["unreadable"] == 1
        assert list(result.record.unreadable) == ["test/owl/zzz.png"]
    bad.write_bytes(b"")
    with pytest.raises(InputError, match=r"owl/zzz.png"):
        run(photos)


def test_results_are_appended_and_resume_finds_them(run, photos, tmp_path, monkeypatch):
    path = tmp_path / "deep" / "results.jsonl"
    first = run(photos, results=path, C=1.0)
    assert [record.metrics for record in results.read(path)] == [first.metrics]
    monkeypatch.setattr("visbench.features.ensure", lambda *a, **k: pytest.fail("looked for features"))
    again = run(photos, results=path, C=1.0, resume=True)
    assert again.metrics == first.metrics
    assert len(results.read(path)) == 1


@pytest.mark.parametrize(
    "change", [{"C": 2.0}, {"probe": "knn"}, {"limit": 8}, {"pooling": "mean"}, {"refit": False}]
)
def test_resume_runs_what_differs(run, photos, tmp_path, change):
    path = tmp_path / "results.jsonl"
    run(photos, results=path, C=1.0)
    options = {"C": 1.0, **change}
    if "probe" in change:
        options.pop("C")
    run(photos, results=path, resume=True, **options)
    assert len(results.read(path)) == 2


def test_an_unwritable_results_file_is_refused_before_anything_runs(run, photos, tmp_path, monkeypatch):
    monkeypatch.setattr("visbench.features.find", lambda *a, **k: pytest.fail("went on"))
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="--results"):
        run(photos, results=tmp_path / "file" / "results.jsonl")


def test_retrieval_scores_and_refuses_a_training_set(run, photos):
    result = run(photos, task="retrieval")
    assert result.metrics["map"] > 0.7
    assert result.record.probe is None
    assert result.record.dataset_size == 18
    with pytest.raises(UsageError, match="learns nothing"):
        run(photos, task="retrieval", train_dataset=photos)


def test_training_images_may_lie_elsewhere(run, photos):
    apart = run(photos / "test", train_dataset=photos / "train", C=1.0)
    together = run(photos, C=1.0)
    assert apart.metrics == together.metrics


def test_arrays_datasets_and_files_of_the_same_images_score_the_same(run, photos):
    def loaded(split):
        files = sorted((photos / split).rglob("*.png"))
        return [np.asarray(Image.open(path)) for path in files], [path.parent.name for path in files]

    arrays = {"train": loaded("train"), "test": loaded("test")}
    assert run(arrays, C=1.0).metrics == run(photos, C=1.0).metrics


def test_a_table_gives_the_same_as_its_folders(run, photos, tmp_path):
    rows = ["path,label,split"]
    rows += [
        f"{p.relative_to(tmp_path)},{p.parent.name},{p.parent.parent.name}"
        for p in sorted(photos.rglob("*.png"))
    ]
    table = tmp_path / "photos.csv"
    table.write_text("\n".join(rows))
    assert run(table, C=1.0).metrics == run(photos, C=1.0).metrics


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


def test_a_changed_image_is_extracted_again(run, photos):
    before = run(photos, C=1.0).record
    path = photos / "train" / "cat" / "000.png"
    Image.new("RGB", (40, 40), (0, 255, 0)).save(path)
    after = run(photos, C=1.0).record
    assert before.dataset_fingerprint != after.dataset_fingerprint
    assert (
        before.context != after.context
        or before.metrics != after.metrics
        or before.convergence != after.convergence
    )


def test_what_is_drawn_does_not_depend_on_when_a_bad_file_became_known(run, photos):
    root, bad = photos / "train", 0
    for number in range(40):  # some of these come first in the order of content, and would be scored
        (root / "cat" / f"bad{number}.png").write_bytes(b"no image %d" % number)
        bad += 1
    first, second = (run(root, on_bad="skip", C=1.0).record for _ in range(2))
    assert first.counts == second.counts == {**first.counts, "train": 30, "test": 6, "unreadable": bad}
    assert first.dataset_fingerprint == second.dataset_fingerprint
    assert first.metrics == second.metrics


def test_more_neighbours_than_rows_are_refused_before_anything_is_extracted(run, photos, monkeypatch):
    monkeypatch.setattr("extract.loop.extract", lambda *a, **k: pytest.fail("extracted"))
    with pytest.raises(UsageError, match=r"k is 37, but there are 36 training images to vote; .*--k"):
        run(photos, probe="knn", k=37)
    with pytest.raises(UsageError, match="k is 31, but there are 30 training images to vote, those held out"):
        run(photos, probe="knn", k=(5, 31))


def test_a_set_too_small_to_draw_from_is_refused(run, photos):
    with pytest.raises(UsageError, match="none can be drawn to be scored"):
        run(photos / "train", limit=1)


def test_a_split_in_two_roles_is_no_duplicate(run, photos, capsys):
    run(photos, split="train", allow_same=True, C=1.0)
    assert "same picture" not in capsys.readouterr().err


def test_recall_at_more_than_there_is_is_said(run, photos):
    result = run(photos, "retrieval", topk=(1, 500))
    assert "recall@500" not in result.metrics
    assert "recall@500" in result.warnings[0]


def test_every_setting_that_changes_a_number_is_in_the_keys(run, photos):
    def key(**options):
        return run_key(run(photos, **options).record)

    assert key(probe="knn", k=5) != key(probe="knn", k=5, temperature=1.0)
    assert key(probe="knn", k=(3, 5)) != key(probe="knn", k=(3, 5), temperature=1.0)
    assert key() != key(probe_settings={"max_steps": 900})


def test_one_setting_written_in_two_ways_has_one_key(run, photos):
    def key(**options):
        return run_key(run(photos, **options).record)

    assert key(C=[1, 10]) == key(C=[10.0, 1.0, 1.0])
    assert key(probe="knn", k=(3, 5)) == key(probe="knn", k=[5, 3])
    assert key(lr=1, epochs=2) == key(lr=1.0, epochs=2.0)
    assert key(C=1.0) == key(l2=1 / 36)


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
    session = Session("classification", photos, make_options(standardize=False, k=3))
    scaled, votes = (each.record for each in session.run([tiny_backbone()], ["logistic", "knn"]))
    assert scaled.task_params["standardize"] is False
    assert votes.probe == "knn"
    with pytest.raises(UsageError, match="knn has no setting standardize; it is a setting of logistic and"):
        run(photos, probe="knn", standardize=False)
