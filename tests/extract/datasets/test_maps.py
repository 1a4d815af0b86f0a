"""Images and maps in folders: the three layouts, pairing by stem, lists of stems, and what is refused."""

import numpy as np
import pytest

from extract.datasets.maps import open_maps
from extract.errors import InputError
from extract.maps.readers import DepthReader, ForegroundReader, LabelReader, ResponseReader

LABELS = LabelReader(num_classes=3)


def touch(root, *paths):
    for path in paths:
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(path.encode())
    return root


def test_splits_first_read_from_real_files(tmp_path, save, photo):
    """A palette PNG beside a JPEG, 16-bit grey, and a .npy: every map comes with its own image."""
    for split, stems in (("train", "ab"), ("val", "c")):
        for i, stem in enumerate(stems):
            save(tmp_path / split / "images" / f"{stem}.jpg", photo(i))
    first, second, third = (np.random.default_rng(i).integers(0, 3, (6, 8)) for i in range(3))
    second[0, 0] = 255
    save(tmp_path / "train/labels/a.png", first, palette=True)
    save(tmp_path / "train/labels/b.png", second.astype(np.uint16))
    save(tmp_path / "val/labels/c.npy", third)
    splits = open_maps(tmp_path, reader=LABELS, classes=("x", "y", "z"))
    assert list(splits) == ["train", "val"]
    train = splits["train"]
    assert train.names == ("train/images/a.jpg", "train/images/b.jpg")
    assert train.targets.names == ("train/labels/a.png", "train/labels/b.png")
    assert train.targets.classes == ("x", "y", "z")
    assert train.targets.params == {"target_dir": "labels"}
    assert train.labels is None
    assert (train.targets.read(0) == first).all()
    assert (train.targets.read(1) == second).all()
    assert (splits["val"].targets.read(0) == third).all()


@pytest.mark.parametrize("name", ["Val", "valid", "validation"])
def test_splits_below_images_and_maps(tmp_path, name):
    touch(tmp_path, "images/Train/a.jpg", f"images/{name}/b.jpg", "depth/Train/a.png", f"depth/{name}/b.png")
    splits = open_maps(tmp_path, reader=DepthReader(scale=1000))
    assert {split: each.names for split, each in splits.items()} == {
        "train": ("images/Train/a.jpg",), "val": (f"images/{name}/b.jpg",)
    }  # fmt: skip
    assert splits["val"].targets.names == (f"depth/{name}/b.png",)


def test_no_splits_and_folders_below(tmp_path):
    touch(
        tmp_path,
        "images/x/1.jpg",
        "images/y/1.png",
        "images/2.jpg",
        "Masks/x/1.png",
        "Masks/y/1.gif",
        "Masks/2.bmp",
    )
    splits = open_maps(tmp_path, reader=ForegroundReader(), name="things")
    assert list(splits) == ["all"]
    assert splits.name == "things"
    assert splits["all"].split is None
    assert splits["all"].names == ("images/2.jpg", "images/x/1.png".replace("png", "jpg"), "images/y/1.png")
    assert splits["all"].targets.names == ("Masks/2.bmp", "Masks/x/1.png", "Masks/y/1.gif")


def test_subsets_and_limits_keep_images_and_maps_together(tmp_path):
    touch(tmp_path, *(f"images/{i}.jpg" for i in range(5)), *(f"labels/{i}.png" for i in range(5)))
    images = open_maps(tmp_path, reader=LABELS)["all"]
    part = images.subset([3, 1])
    assert part.names == ("images/3.jpg", "images/1.jpg")
    assert part.targets.sources[0][0] == tmp_path / "labels/3.png"
    assert images.limit(2).targets.names == ("labels/0.png", "labels/1.png")


def test_folders_by_name_relative_or_absolute(tmp_path):
    touch(tmp_path / "data", "train/rgb/a.jpg", "train/fine/labels/a.png")
    here = open_maps(tmp_path / "data", reader=LABELS, image_dir="rgb", target_dir="fine/labels")
    assert here["train"].targets.params == {"target_dir": "fine/labels"}
    touch(tmp_path, "pictures/a.jpg", "elsewhere/a.png")
    far = open_maps(
        tmp_path / "data", reader=LABELS, image_dir=tmp_path / "pictures", target_dir=tmp_path / "elsewhere"
    )["all"]
    assert far.names == (str(tmp_path / "pictures/a.jpg"),)
    assert set(far.folders) == {tmp_path / "data", tmp_path / "pictures", tmp_path / "elsewhere"}
    assert far.targets.params == {"target_dir": "elsewhere"}


def test_a_relative_root_and_an_absolute_folder_in_it(tmp_path, monkeypatch):
    touch(tmp_path / "data", "rgb/a.jpg", "labels/a.png")
    monkeypatch.chdir(tmp_path)
    found = open_maps("data", reader=LABELS, image_dir=tmp_path / "data/rgb")["all"]
    assert (found.names, found.targets.names) == (("rgb/a.jpg",), ("labels/a.png",))


def test_lists_of_stems_choose_and_order(tmp_path):
    touch(tmp_path, *(f"images/{x}.jpg" for x in "abcde"), *(f"labels/{x}.png" for x in "abcdx"))
    (tmp_path / "train.txt").write_text("d\n\n a \n")
    (tmp_path / "val.txt").write_text("\ufeffb\n", encoding="utf-8")
    splits = open_maps(
        tmp_path, reader=LABELS, stems=tmp_path / "val.txt", train_stems=tmp_path / "train.txt"
    )
    assert splits["train"].names == ("images/d.jpg", "images/a.jpg")
    assert splits["train"].targets.names == ("labels/d.png", "labels/a.png")
    assert splits["test"].names == ("images/b.jpg",)
    assert splits["test"].targets.params == {"lists": ["train.txt", "val.txt"], "target_dir": "labels"}
    assert list(open_maps(tmp_path, reader=LABELS, stems=tmp_path / "val.txt")) == ["all"]
    assert list(open_maps(tmp_path, reader=LABELS, train_stems=tmp_path / "val.txt")) == ["train"]


@pytest.mark.parametrize(
    ("train", "scored", "said"),
    [
        ("a\nb\n", "b\n", "train and test share 1 stem: b"),
        ("a\na\n", "b\n", "lists a twice"),
        ("", "b\n", "is empty"),
        ("a\n", "e\nz\n", r"no image for 1 stem of the list: z"),
        ("a\n", "e\n", r"no map for 1 stem of the list: e"),
    ],
)
def test_lists_that_cannot_be(tmp_path, train, scored, said):
    touch(tmp_path, *(f"images/{x}.jpg" for x in "abcde"), *(f"labels/{x}.png" for x in "abcd"))
    (tmp_path / "train.txt").write_text(train)
    (tmp_path / "val.txt").write_text(scored)
    with pytest.raises(InputError, match=said):
        open_maps(tmp_path, reader=LABELS, stems=tmp_path / "val.txt", train_stems=tmp_path / "train.txt")
    with pytest.raises(InputError, match="cannot be read: No such file"):
        open_maps(tmp_path, reader=LABELS, stems=tmp_path / "none.txt")


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["images/a.jpg", "images/b.jpg", "labels/a.png"], r"have 1 image without a map \(b\); add"),
        (["images/a.jpg", "labels/a.png", "labels/b.png"], r"have 1 map without an image \(b\)"),
        (
            [*(f"images/{i}.jpg" for i in range(6)), "labels/0.png", "labels/x.png"],
            r"5 images without a map \(1, 2, 3 and 2 more\) and 1 map without an image \(x\)",
        ),
        (["images/a.jpg", "images/a.png", "labels/a.png"], r"has a\.jpg and a\.png, two files of one stem"),
        (["images/a.jpg", "labels/a.png", "labels/a.npy"], r"has a\.npy and a\.png, two files of one stem"),
        (["images/a_rgb.jpg", "labels/a_mask.png"], r"shares its stem .* called a_rgb, the maps a_mask"),
        (["images/a.jpg", "labels/a.jpg"], r"1 map saved with loss \(a\.jpg\)"),
        (["images/a.jpg", "labels/a.txt"], r"holds no map that can be read \(other files: \.txt \(1\)\)"),
        (["train/images/a.jpg", "train/labels/b.txt"], r"labels holds no map"),
    ],
)
def test_pairs_that_do_not_come_out(tmp_path, paths, said):
    with pytest.raises(InputError, match=said):
        open_maps(touch(tmp_path, *paths), reader=LABELS)


@pytest.mark.parametrize(
    ("paths", "said"),
    [
        (["images/a.jpg", "labels/a.png", "masks/a.png"], r"has labels and masks, all of which could be the maps"),
        (["images/a.jpg", "stuff/a.png"], r"no folder of maps under a usual name .* its other folders: stuff"),
        (["pictures/a.jpg", "labels/a.png"], r"no folder images \(its folders: labels, pictures\).*--image-dir"),
        (["train/images/a.jpg", "train/labels/a.png", "val/labels/b.png"], r"val has no folder images"),
        (["train/images/a.jpg", "train/labels/a.png", "images/b.jpg"], r"images beside the split folders train"),
        (["val/images/a.jpg", "valid/images/a.jpg"], r"val and valid, both meaning val"),
        (["images/train/a.jpg", "images/val/b.jpg", "labels/train/a.png"], r"split into train, val and .* into train;"),
        (["images/train/a.jpg", "labels/a.png"], r"split into train and .* into nothing"),
        (["train/images/a.jpg", "train/labels/a.png", "val/images/a.jpg", "val/gt/a.png"], r"labels \(train\) and gt"),
        (["images/training/a.jpg", "labels/training/a.png"], r"look like splits; call them train"),
    ],
)  # fmt: skip
def test_layouts_that_could_be_read_in_two_ways_or_in_none(tmp_path, paths, said):
    with pytest.raises(InputError, match=said):
        open_maps(touch(tmp_path, *paths), reader=LABELS)


def test_what_was_named_and_is_not_there(tmp_path):
    touch(tmp_path, "images/a.jpg", "labels/a.png")
    with pytest.raises(InputError, match="has no folder fine"):
        open_maps(tmp_path, reader=LABELS, target_dir="fine")
    with pytest.raises(InputError, match="there is no folder"):
        open_maps(tmp_path / "nowhere", reader=LABELS)
    with pytest.raises(InputError, match=r"names for 2 classes and 3 were asked for"):
        open_maps(tmp_path, reader=LABELS, classes=("a", "b"))
    with pytest.raises(InputError, match=r"two classes are called 'a'"):
        open_maps(tmp_path, reader=LABELS, classes=("a", "b", "a"))


def test_the_folder_of_a_task_among_those_of_others(tmp_path):
    """Edges and keypoints are responses both, so the kind alone cannot choose."""
    touch(tmp_path, "images/a.jpg", "edges/a.png", "keypoints2d/a.png")
    reader = ResponseReader(scale=1000)
    with pytest.raises(InputError, match="edges and keypoints2d"):
        open_maps(tmp_path, reader=reader)
    chosen = open_maps(tmp_path, reader=reader, target_dir=("keypoints2d", "keypoints"))
    assert chosen["all"].targets.names == ("keypoints2d/a.png",)


def test_what_is_passed_over(tmp_path):
    touch(
        tmp_path, "train/images/a.jpg", "train/images/.DS_Store", "train/images/a.txt", "train/labels/a.png",
        "train/labels/.ipynb_checkpoints/b.png", "train/labels/._a.npy", "train/labels/a.json", "train/labels/.x/c.npy",
    )  # fmt: skip
    splits = open_maps(tmp_path, reader=LABELS)
    assert splits.ignored == {".txt": 1, ".json": 1}
    assert splits.hidden == (".DS_Store", "._*", ".ipynb_checkpoints", ".x")
    touch(tmp_path, "train/labels/._b.npy", "train/images/b.jpg", "train/labels/b.npy")
    assert open_maps(tmp_path, reader=LABELS)["train"].targets.names == (
        "train/labels/a.png",
        "train/labels/b.npy",
    )


def test_masks_may_be_jpegs(tmp_path):
    touch(tmp_path, "images/a.jpg", "masks/a.jpg")
    assert open_maps(tmp_path, reader=ForegroundReader(above=127))["all"].targets.names == ("masks/a.jpg",)


def test_names_that_are_no_usual_text(tmp_path):
    names = ["a b", "#1", "50%", "x.y.z", "写真", "🙂", "line\nbreak"]
    touch(tmp_path, *(f"images/{name}.jpg" for name in names), *(f"labels/{name}.png" for name in names))
    images = open_maps(tmp_path, reader=LABELS)["all"]
    assert set(images.names) == {f"images/{name}.jpg" for name in names}
    for i, name in enumerate(images.names):
        assert images.targets.sources[0][i].stem == images.sources[i].stem, name
