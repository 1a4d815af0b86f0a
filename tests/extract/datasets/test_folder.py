"""Folders: layouts, classes by name, what is passed over and what is refused."""

import hashlib
import os
import time
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from extract.datasets import open_dataset
from extract.errors import InputError
from extract.images import content_bytes, read_image
from extract.memo import Memo


def make(root: Path, *paths: str) -> Path:
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(path.encode())
    return root


def checksum(root: Path) -> str:
    """Of every name, content, size and time below `root`."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        digest.update(f"{path} {path.lstat()}".encode() + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def test_classes_alone(tmp_path):
    splits = open_dataset(make(tmp_path / "pets", "dog/b.jpg", "cat/2.png", "cat/10.png", "dog/a.jpg"))
    assert list(splits) == ["all"]
    images = splits["all"]
    assert (images.name, images.split, images.folders) == ("pets", None, (tmp_path / "pets",))
    assert images.classes == splits.classes == ("cat", "dog")
    assert images.names == ("cat/10.png", "cat/2.png", "dog/a.jpg", "dog/b.jpg")
    assert images.labels.tolist() == [0, 0, 1, 1]
    assert images.sources[2] == tmp_path / "pets/dog/a.jpg"
    assert images.counts.tolist() == [2, 2]


@pytest.mark.parametrize("val", ["val", "valid", "Validation", "VAL"])
def test_splits_with_classes_by_name(tmp_path, val):
    root = make(
        tmp_path, "Train/a/1.jpg", "Train/b/2.jpg", "Train/c/3.jpg", f"{val}/b/4.jpg", f"{val}/c/5.jpg"
    )
    splits = open_dataset(root)
    assert list(splits) == ["train", "val"]
    assert splits["val"].labels.tolist() == [1, 2]
    assert splits["val"].names == (f"{val}/b/4.jpg", f"{val}/c/5.jpg")
    perfect = splits["train"].labels[[1, 2]]  # b and c, as a probe that learnt from train says
    assert (perfect == splits["val"].labels).mean() == 1.0


def test_hidden_and_system_files_change_nothing_and_are_listed_once(tmp_path):
    clean = make(tmp_path / "clean", "train/a/1.jpg", "train/b/2.jpg", "val/b/3.jpg")
    dirty = make(
        tmp_path / "dirty", "train/a/1.jpg", "train/b/2.jpg", "val/b/3.jpg",
        ".DS_Store", "train/.DS_Store", ".ipynb_checkpoints/x.jpg", "val/.ipynb_checkpoints/y.jpg",
        "__MACOSX/train/a/1.jpg", "train/a/Thumbs.db", "README.md", "LICENSE", "train/a/._1.jpg", "val/b/._3.jpg",
    )  # fmt: skip
    expected, splits = open_dataset(clean), open_dataset(dirty)
    assert splits.classes == expected.classes == ("a", "b")
    for split in ("train", "val"):
        assert splits[split].names == expected[split].names
        assert splits[split].labels.tolist() == expected[split].labels.tolist()
    assert splits["val"].labels.tolist() == [1]
    assert splits.hidden == (
        ".DS_Store", "._*", ".ipynb_checkpoints", "LICENSE", "README.md", "Thumbs.db", "__MACOSX",
    )  # fmt: skip
    assert splits.ignored == {}


def test_a_class_or_picture_called_like_a_paper_is_kept(tmp_path):
    images = open_dataset(make(tmp_path, "license/readme.jpg", "notice/licence.png"))["all"]
    assert images.names == ("license/readme.jpg", "notice/licence.png")


def test_extensions_in_any_case_and_those_left_unread(tmp_path):
    read = ["1.JPG", "2.JPEG", "3.Png", "4.webp", "5.tif", "6.bmp", "7.gif", "8.TIFF"]
    splits = open_dataset(make(tmp_path, *read, "a.heic", "b.HEIC", "c.txt", "noext"))
    assert splits["all"].names == tuple(read)
    assert splits["all"].labels is None
    assert splits.ignored == {".heic": 2, ".txt": 1, "no extension": 1}


def test_one_name_in_two_classes_is_two_rows(tmp_path):
    images = open_dataset(make(tmp_path, "a/001.jpg", "b/001.jpg"))["all"]
    assert images.names == ("a/001.jpg", "b/001.jpg")
    ids = Memo(tmp_path.parent / "memo").row_ids(images.sources)
    assert ids[0].tolist() != ids[1].tolist()


def test_numbered_classes_are_in_numeric_order(tmp_path):
    images = open_dataset(make(tmp_path, "2/a.jpg", "10/b.jpg", "1/c.jpg"))["all"]
    assert images.classes == ("1", "2", "10")
    assert images.names == ("1/c.jpg", "2/a.jpg", "10/b.jpg")
    assert images.labels.tolist() == [0, 1, 2]


def test_an_empty_class_folder(tmp_path):
    root = make(tmp_path, "train/a/1.jpg", "train/b/2.jpg", "val/a/3.jpg")
    (root / "val" / "b").mkdir()
    (root / "val" / "never").mkdir()
    val = open_dataset(root)["val"]
    assert val.classes == ("a", "b")
    assert val.counts.tolist() == [1, 0]
    (root / "train" / "c").mkdir()
    with pytest.raises(
        InputError, match=r"train has class folders without images: c; .*--allow-empty-classes"
    ):
        open_dataset(root)
    train = open_dataset(root, allow_empty_classes=True)["train"]
    assert train.classes == ("a", "b", "c")
    assert train.counts.tolist() == [1, 1, 0]


def test_a_class_that_only_test_has_keeps_its_name(tmp_path):
    splits = open_dataset(make(tmp_path, "train/a/1.jpg", "train/c/2.jpg", "test/b/3.jpg"))
    assert splits.classes == ("a", "b", "c")
    assert splits["train"].labels.tolist() == [0, 2]
    assert splits["test"].labels.tolist() == [1]


def test_an_unlabelled_test_split(tmp_path):
    splits = open_dataset(make(tmp_path, "train/a/1.jpg", "train/b/2.jpg", "test/3.jpg"))
    assert splits["test"].labels is None
    assert splits["test"].unlabelled == 1
    assert splits["test"].classes == ("a", "b")


def test_folders_below_a_class_count_for_it(tmp_path):
    images = open_dataset(make(tmp_path, "a/x/1.jpg", "a/x/y/2.jpg", "a/3.jpg", "b/4.jpg"))["all"]
    assert images.names == ("a/3.jpg", "a/x/1.jpg", "a/x/y/2.jpg", "b/4.jpg")
    assert images.labels.tolist() == [0, 0, 0, 1]


def test_links_are_followed_and_loops_are_not(tmp_path):
    root = make(tmp_path / "set", "a/1.jpg", "b/2.jpg")
    make(tmp_path / "elsewhere", "3.jpg")
    (root / "c").symlink_to(tmp_path / "elsewhere")
    (root / "a" / "loop").symlink_to(root)
    (root / "b" / "gone.jpg").symlink_to(tmp_path / "nowhere.jpg")  # reported when it is read
    images = open_dataset(root)["all"]
    assert images.names == ("a/1.jpg", "b/2.jpg", "b/gone.jpg", "c/3.jpg")


def test_names_of_any_kind(tmp_path):
    odd = ["a b#c%20'\".png", "写真.png", "😀.png", "new\nline.png", os.fsdecode(b"\xff.png")]
    make(tmp_path, *(f"a/{name}" for name in odd[:4]))
    for name in odd:
        Image.new("RGB", (2, 2)).save(tmp_path / "a" / name, "PNG")
    images = open_dataset(tmp_path)["all"]
    assert set(images.names) == {*(f"a/{name}" for name in odd[:4]), "a/\\xff.png"}
    for i, name in enumerate(images.names):
        name.encode()  # can be written anywhere
        assert read_image(images.sources[i], name=name).pixels.shape == (2, 2, 3)


@pytest.mark.parametrize(
    ("paths", "reason"),
    [
        (["a/1.jpg", "2.jpg"], r"has 1 image \(2\.jpg, …\) beside the class folders a; move them"),
        (["train/a/1.jpg", "train/2.jpg"], r"train has 1 image \(2\.jpg"),
        (["train/a/1.jpg", "dog/1.jpg"], "train beside dog: split folders stand alone"),
        (["train/a/1.jpg", "x.jpg"], r"train beside x\.jpg"),
        (["val/a/1.jpg", "valid/a/1.jpg"], "val and valid, both meaning val"),
        (["pets/train/a/1.jpg", "pets/test/a/1.jpg"], r"pets/test has the name of a split .*/pets the dataset\?"),
        (["cat/train/1.jpg", "dog/train/1.jpg"], r"splits come first \(train/class/image\)"),
        (["a/1.heic", "b/2.heic", "c/n.txt"], r"no image that can be read \(other files: \.heic \(2\), \.txt \(1\)\)"),
        (["train/a/1.jpg", "test/a/n.txt"], "test holds no image; fill the split or remove"),
    ],
)  # fmt: skip
def test_what_could_be_read_in_two_ways_is_refused(tmp_path, paths, reason):
    with pytest.raises(InputError, match=reason):
        open_dataset(make(tmp_path, *paths))


def test_a_folder_that_cannot_be_listed_is_named(tmp_path, monkeypatch):
    def refuse(folder):
        raise PermissionError(13, "Permission denied", folder)

    make(tmp_path, "a/1.jpg")
    monkeypatch.setattr(os, "scandir", refuse)
    with pytest.raises(InputError, match=f"{tmp_path} cannot be listed: Permission denied"):
        open_dataset(tmp_path)


def test_other_folders_without_images_are_no_matter(tmp_path):
    splits = open_dataset(make(tmp_path, "train/a/1.jpg", "annotations/train.json"))
    assert list(splits) == ["train"]
    assert splits.ignored == {".json": 1}


def test_a_path_that_is_not_there(tmp_path):
    make(tmp_path, "photos/a/1.jpg")
    with pytest.raises(InputError, match=r"there is no .*/photo; did you mean .*/photos\?"):
        open_dataset(tmp_path / "photo")
    with pytest.raises(InputError, match=r"there is no .*/x/y, nor a folder .*/x$"):
        open_dataset(str(tmp_path / "x" / "y"))
    with pytest.raises(InputError, match="neither a folder of images nor a table"):
        open_dataset(tmp_path / "photos/a/1.jpg")
    with pytest.raises(InputError, match="label_column is for tables; a folder has no use for it"):
        open_dataset(tmp_path / "photos", label_column="x")


def test_nothing_is_written_to_the_data(tmp_path):
    root = tmp_path / "photos"
    for name in ("train/a/1.png", "train/b/2.png", "test/a/3.png"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (3, 2), (9, 8, 7)).save(root / name)
    before = checksum(root)
    memo = Memo(tmp_path / "cache" / "memo.sqlite")
    for images in open_dataset(root).values():
        memo.row_ids(images.sources)
        for i, name in enumerate(images.names):
            assert read_image(images.sources[i], name=name).pixels.shape == (2, 3, 3)
            content_bytes(images.sources[i])
    assert checksum(root) == before


def test_many_files_are_listed_without_opening_any(tmp_path, monkeypatch):
    for c in range(20):
        folder = tmp_path / f"class {c}"
        folder.mkdir()
        for i in range(500):
            os.mknod(folder / f"{i}.jpg") if hasattr(os, "mknod") else (folder / f"{i}.jpg").touch()
    monkeypatch.setattr(Path, "open", lambda *args, **kwargs: pytest.fail("opened"))
    monkeypatch.setattr(Image, "open", lambda *args, **kwargs: pytest.fail("opened"))
    began = time.process_time()
    images = open_dataset(tmp_path)["all"]
    assert len(images) == 10_000
    assert np.array_equal(images.counts, np.full(20, 500))
    assert time.process_time() - began < 1.0  # 0.06 s on a quiet machine


@pytest.mark.parametrize(
    "names", [("training", "testing"), ("train", "dev"), ("Training", "val", "evaluation")]
)
def test_folders_that_look_like_splits_are_not_taken_for_classes(tmp_path, names):
    with pytest.raises(InputError, match="look like splits; call them train, val and test"):
        open_dataset(make(tmp_path, *(f"{name}/cat/1.jpg" for name in names)))


def test_an_address_is_no_folder():
    with pytest.raises(InputError, match="s3://lab/photos is an address"):
        open_dataset("s3://lab/photos")


def test_one_class_may_be_called_like_a_split(tmp_path):
    assert open_dataset(make(tmp_path, "training/1.jpg", "racing/1.jpg")).classes == ("racing", "training")
