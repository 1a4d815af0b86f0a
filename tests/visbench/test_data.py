"""The images of a run: names, roles, and what is left of them once some cannot be read."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from extract.datasets import ImageSet, Splits
from extract.errors import InputError
from visbench.errors import UsageError
from visbench.record import board_key

SKIP = {"C": 1.0, "on_bad": "skip"}


def digest_of(folder: Path) -> str:
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return hashlib.sha256(b"".join(str(p).encode() + p.read_bytes() for p in files)).hexdigest()


def encoded(folder):
    """Encoded pictures and their class names, as arrays and datasets hand them over."""
    files = sorted(folder.rglob("*.png"))
    return [path.read_bytes() for path in files], [path.parent.name for path in files]


def cut(pictures, at):
    """The same with one picture that ends too soon."""
    return [each[: len(each) // 2] if i == at else each for i, each in enumerate(pictures)]


def test_an_unreadable_image_takes_no_image_of_another_split_with_it(run, photos):
    train, names = encoded(photos / "train")
    for _ in range(2):  # met while extracting, then remembered
        record = run({"train": (cut(train, 3), names), "test": encoded(photos / "test")}, **SKIP).record
        assert (record.counts["train"], record.counts["test"]) == (35, 18)
        assert list(record.unreadable) == ["train: image 3"]


def test_a_set_in_two_roles_loses_an_unreadable_image_in_both(run, photos):
    whole = (photos / "test" / "owl" / "005.png").read_bytes()
    (photos / "test" / "owl" / "zzz.png").write_bytes(whole[: len(whole) // 2])
    for _ in range(2):
        record = run(photos, split="test", train_split="test", allow_same=True, **SKIP).record
        assert (record.counts["train"], record.counts["test"]) == (18, 18)
        assert list(record.unreadable) == ["test/owl/zzz.png"]


def test_a_class_whose_only_training_image_is_unreadable_is_refused(run, photos):
    train, names = encoded(photos / "train")
    few = {"train": (cut(train[:25], 24), names[:25]), "test": encoded(photos / "test")}  # of owls one
    for _ in range(2):
        with pytest.raises(InputError, match=r"owl, of which .* has none to learn from"):
            run(few, **SKIP)


def test_what_was_kept_in_the_data_folder_is_unchanged(run, photos):
    before = digest_of(photos)
    run(photos)
    assert digest_of(photos) == before


def test_classes_map_by_name_and_stray_folders_change_nothing(run, photos):
    plain = run(photos, C=1.0)
    shutil.rmtree(photos / "test" / "cat")  # test now has dog and owl alone
    (photos / "test" / ".ipynb_checkpoints").mkdir()
    fewer = run(photos, C=1.0)
    assert fewer.metrics["top1"] >= plain.metrics["top1"] - 0.1
    assert fewer.record.n["top1"] == 12
    assert fewer.record.context["classes_scored"] == 2


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


def test_a_set_too_small_to_draw_from_is_refused(run, photos):
    with pytest.raises(UsageError, match="none can be drawn to be scored"):
        run(photos / "train", limit=1)


def test_a_split_in_two_roles_is_no_duplicate(run, photos, capsys):
    run(photos, split="train", allow_same=True, C=1.0)
    assert "same picture" not in capsys.readouterr().err


def test_conversions_are_in_every_record(run, photos, capsys):
    for number in range(2):
        Image.new("CMYK", (20, 20), (0, 255, 255, number)).save(
            photos / "train" / "cat" / f"cmyk{number}.jpg"
        )
    Image.new("1", (20, 20)).save(photos / "test" / "owl" / "bits.png")
    first, again = run(photos, C=1.0).record, run(photos, probe="knn", k=3).record
    assert first.counts["converted"] == again.counts["converted"] == {"1-bit": 1, "CMYK": 2}
    assert capsys.readouterr().err.count("converted on reading, by kind: 1-bit (1), CMYK (2)") == 1


def test_the_same_files_are_told_unreadable_in_the_same_order(run, photos):
    (photos / "test" / "owl" / "aaa.png").write_bytes(b"")
    whole = (photos / "train" / "cat" / "000.png").read_bytes()
    (photos / "train" / "cat" / "zzz.png").write_bytes(whole[: len(whole) // 2])
    (photos / "train" / "cat" / "one.png").write_bytes(b"?")
    first, again = (run(photos, **SKIP).record for _ in range(2))
    names = ["test/owl/aaa.png", "train/cat/one.png", "train/cat/zzz.png"]
    assert list(first.unreadable) == list(again.unreadable) == names


def renamed(photos, to):
    """The same images and classes under names that sort the other way round, some in a folder of their own."""
    for path in photos.rglob("*.png"):
        number = int(path.stem)
        folder = to / path.relative_to(photos).parent / ("zz" if number % 2 else "")
        folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, folder / f"{99 - number}.png")
    return to


def shuffled_table(photos, table):
    rows = [f"{path},{path.parent.name},{path.parent.parent.name}" for path in photos.rglob("*.png")]
    np.random.default_rng(0).shuffle(rows)
    table.write_text("\n".join(["path,label,split", *rows]))
    return table


@pytest.mark.parametrize(
    "probe", [{"probe": "linear", "epochs": 5}, {"C": 1.0}, {"probe": "knn", "k": 3}, {"probe": "ridge"}]
)
def test_neither_names_of_files_nor_their_order_change_a_board_or_a_number(run, photos, tmp_path, probe):
    ours = run(photos, **probe)
    features = np.random.default_rng(0).normal(size=(50, 5)).astype(np.float32)
    for data in (renamed(photos, tmp_path / "renamed"), shuffled_table(photos, tmp_path / "rows.csv")):
        theirs = run(data, **probe)
        assert theirs.record.dataset_fingerprint == ours.record.dataset_fingerprint
        assert board_key(theirs.record) == board_key(ours.record)
        assert theirs.metrics == ours.metrics
        assert theirs.intervals == ours.intervals
        assert (theirs.probe.logits(features) == ours.probe.logits(features)).all()


def test_the_order_in_which_classes_are_listed_changes_nothing(run, photos):
    def listed(*classes):
        files = [path for name in classes for path in sorted((photos / "train" / name).iterdir())]
        labels = np.array([classes.index(path.parent.name) for path in files])
        return Splits({"all": ImageSet("x", None, files, tuple(map(str, files)), labels, classes)})

    one, other = (run(listed(*order), C=1.0) for order in (("cat", "dog", "owl"), ("owl", "cat", "dog")))
    assert one.record.dataset_fingerprint == other.record.dataset_fingerprint
    assert one.metrics == other.metrics
    assert one.probe.classes_.tolist() == other.probe.classes_.tolist() == ["cat", "dog", "owl"]


@pytest.mark.parametrize("change", ["class", "label", "content", "split"])
def test_what_the_data_are_is_in_the_fingerprint(run, photos, change):
    before = run(photos, C=1.0).record
    cat = photos / "train" / "cat"
    if change == "class":
        for split in ("train", "test"):
            (photos / split / "cat").rename(photos / split / "tiger")
    elif change == "label":
        (cat / "000.png").rename(photos / "train" / "dog" / "999.png")
    elif change == "content":
        Image.new("RGB", (8, 8)).save(cat / "000.png")
    else:
        (cat / "000.png").rename(photos / "test" / "cat" / "999.png")
    after = run(photos, C=1.0).record
    assert after.dataset_fingerprint != before.dataset_fingerprint
    assert board_key(after) != board_key(before)


def test_a_dataset_is_called_by_what_is_scored(run, photos):
    (photos / "test").rename(photos / "mine")
    assert run(photos / "mine", train_dataset=photos / "train", C=1.0).record.dataset == "mine"


def test_copies_are_named_by_the_splits_of_the_data(run, photos, capsys):
    (photos / "test").rename(photos / "val")
    shutil.copy(photos / "train" / "cat" / "000.png", photos / "val" / "cat" / "copy.png")
    run(photos, C=1.0)
    assert "= val: " in capsys.readouterr().err
