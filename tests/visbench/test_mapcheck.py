"""What `visbench check` says of images with maps: ranges, classes, faults, copies, and what a run would refuse."""

import json

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from extract.datasets.bsds import open_bsds
from extract.datasets.maps import open_maps
from extract.errors import InputError
from extract.maps.readers import DepthReader, ForegroundReader, LabelReader, NormalsReader, ResponseReader
from visbench import mapcheck


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))


def photo(seed, height=6, width=8):
    return np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)


def save(path, array, orientation=None):
    path.parent.mkdir(parents=True, exist_ok=True)
    exif = Image.Exif()
    if orientation is not None:
        exif[0x0112] = orientation
    Image.fromarray(array).save(path, **({"exif": exif} if orientation is not None else {}))


@pytest.fixture
def dataset(tmp_path):
    """`dataset({"train": [map, …], …}, folder)`: a photo of its own beside every map."""

    def make(maps, folder="labels"):
        root = tmp_path / "data"
        for number, (split, arrays) in enumerate(maps.items()):
            for i, array in enumerate(arrays):
                array = np.asarray(array)
                save(root / split / "images" / f"{i}.png", photo(100 * number + i, *array.shape[:2]))
                save(root / split / folder / f"{i}.png", array)
        return root

    return make


def labels(*rows):
    return np.array(rows, np.uint8)


def test_classes_shares_and_void(dataset):
    train = [labels([0, 0, 1, 255], [0, 0, 1, 1]), labels([1, 1, 1, 1], [1, 1, 1, 1])]
    root = dataset({"train": train, "test": [labels([0, 3, 3, 255], [0, 3, 3, 255])]})
    splits = open_maps(root, reader=LabelReader(num_classes=4), classes=("sky", "road", "car", "bus"))
    found = mapcheck.check(splits, workers=2)
    report = found.splits["train"]
    assert report.classes == {"sky": 4 / 15, "road": 11 / 15}
    assert report.images_with == {"sky": 1, "road": 2}
    assert (report.images, report.valid, report.constant, report.faults) == (2, 15 / 16, 1, {})
    assert found.splits["test"].classes == {"sky": 2 / 6, "bus": 4 / 6}
    assert found.notes == [
        "test has bus, which no map of train shows: it cannot be learnt",
        "no pixel anywhere of car",
    ]
    assert (found.kind, found.num_classes, found.refused, found.height, found.width) == (
        "labels",
        4,
        None,
        2,
        4,
    )
    said = mapcheck.text(found).splitlines()
    assert said[0] == "data  train 2 · test 1 images with maps of classes, 4 classes"
    assert (
        said[1]
        == "  train: 6.25 % of the pixels not valid; 2 classes shown, of the valid pixels road 73.3 %, sky 26.7 %"
    )
    assert said[-1] == "  ready to run"
    assert json.loads(json.dumps(found.to_dict()))["splits"]["train"]["images"] == 2


def test_ranges_of_depth_and_a_mark_of_holes(dataset):
    depth = np.array([[0, 1000, 2000, 3000], [65535, 65535, 2500, 2500]], np.uint16)
    root = dataset({"train": [depth], "val": [depth // 2]}, "depth")
    found = mapcheck.check(open_maps(root, reader=DepthReader(scale=1000)))
    train = found.splits["train"]
    assert (train.least, train.most) == (1, pytest.approx(65.535))
    assert train.median == pytest.approx(np.median([1, 2, 3, 65.535, 65.535, 2.5, 2.5]))
    assert train.valid == 7 / 8
    assert any("hold the largest value, 65.535" in note and "--target-hole" in note for note in found.notes)
    known = mapcheck.check(open_maps(root, reader=DepthReader(scale=1000, hole=65535)))
    assert known.splits["train"].most == 3
    assert "1 … 3, median 2.5" in mapcheck.text(known)


def test_constant_responses_are_counted(dataset):
    same, other = np.full((2, 4), 7, np.uint16), np.arange(8, dtype=np.uint16).reshape(2, 4)
    found = mapcheck.check(
        open_maps(dataset({"train": [same, other], "val": [other]}, "edges"), reader=ResponseReader(scale=1))
    )
    assert found.splits["train"].constant == 1
    assert found.notes == ["train has 1 map of one value only: no correlation is defined there"]


def slanted(order=(0, 1, 2), sign=1):
    """Normals of a wall seen at an angle and a floor, in colours."""
    vectors = np.zeros((6, 8, 3))
    vectors[:3], vectors[3:] = (0.6, 0.0, 0.8), (-0.2, 0.9, 0.39)
    vectors[:, :4, 0] *= -1
    vectors[..., 2] *= sign
    return np.rint((vectors[..., list(order)] + 1) * 127.5).astype(np.uint8)


def test_normals_as_they_should_be_swapped_or_of_two_conventions(dataset):
    right = mapcheck.check(
        open_maps(dataset({"train": [slanted()], "val": [slanted()]}, "normals"), reader=NormalsReader())
    )
    assert right.notes == []
    assert right.splits["train"].facing == 1
    swapped = dataset({"train": [slanted((2, 1, 0))], "val": [slanted((2, 1, 0))]}, "normals")
    notes = mapcheck.check(open_maps(swapped, reader=NormalsReader())).notes
    assert len(notes) == 2
    assert all("seem to be swapped" in note for note in notes)
    two = dataset({"train": [slanted()], "val": [slanted(sign=-1)]}, "normals")
    assert mapcheck.check(open_maps(two, reader=NormalsReader())).notes == [
        "z of the normals is positive in train, negative in val: two conventions, of which one has to be turned"
    ]


def test_maps_that_do_not_lie_on_their_images(dataset):
    root = dataset({"train": [labels([0, 1, 1], [0, 1, 1])] * 6, "val": [labels([0, 1, 0], [0, 1, 0])]})
    images, maps = root / "train/images", root / "train/labels"
    save(images / "0.png", photo(0, 3, 2), orientation=6)  # turned to 2×3, and the map fits
    save(images / "1.png", photo(1, 2, 3), orientation=6)  # turned to 3×2, and the map was not
    save(images / "2.png", photo(2, 3, 3))  # of another shape
    save(images / "3.png", photo(3, 2, 3), orientation=3)  # upside down, and nothing tells about the map
    (images / "4.png").write_bytes(b"no picture")
    (maps / "5.png").write_bytes((maps / "5.png").read_bytes()[:40])
    found = mapcheck.check(open_maps(root, reader=LabelReader(num_classes=2)))
    faults = found.splits["train"].faults
    assert set(faults) == {f"train/images/{i}.png" for i in (1, 2, 3, 4, 5)}
    assert "EXIF orientation 6" in faults["train/images/1.png"]
    assert "3×2" in faults["train/images/2.png"]
    assert "cannot be told from the sizes" in faults["train/images/3.png"]
    assert "no image" in faults["train/images/4.png"]
    assert "train/labels/5.png" in faults["train/images/5.png"]
    assert found.splits["train"].turned == 1
    assert found.refused.startswith("5 images or their maps cannot be used")
    assert "cannot be used in train: 5" in mapcheck.text(found)


def test_labels_beyond_the_classes_are_told_for_every_map(dataset):
    root = dataset({"train": [labels([0, 11]), labels([0, 1])], "val": [labels([1, 11])]})
    found = mapcheck.check(open_maps(root, reader=LabelReader(num_classes=11)))
    assert list(found.splits["train"].faults) == ["train/images/0.png"]
    assert found.splits["val"].valid == 0
    assert "no image with a map that can be used" in mapcheck.text(found)


def test_the_same_picture_in_two_splits_and_with_two_maps(dataset):
    first, other = labels([0, 1, 1, 0]), labels([1, 0, 0, 1])
    root = dataset({"train": [first, first, first], "test": [first, first]})
    for copied, source in (
        ("test/images/0.png", "train/images/2.png"),
        ("train/images/1.png", "train/images/0.png"),
    ):
        (root / copied).write_bytes((root / source).read_bytes())
    save(root / "train/labels/1.png", other)
    found = mapcheck.check(open_maps(root, reader=LabelReader(num_classes=2)))
    assert found.duplicates == ["train: train/images/2.png = test: test/images/0.png"]
    assert found.contradictions == ["train: train/images/0.png = train: train/images/1.png"]
    assert found.splits["train"].repeated == 1
    assert found.refused is None


@pytest.mark.parametrize(
    ("maps", "said"),
    [
        ({"train": [labels([0, 1])]}, "there is only a training split"),
        ({"train": [labels([1, 1])], "val": [labels([0, 1])]}, "every valid pixel to learn from is 1"),
        ({"train": [labels([0, 1])], "val": [labels([255, 255])]}, "no map of val has a valid pixel"),
    ],
)
def test_what_a_run_would_refuse(dataset, maps, said):
    found = mapcheck.check(open_maps(dataset(maps), reader=LabelReader(num_classes=2)))
    assert said in found.refused
    assert mapcheck.text(found).splitlines()[-1] == f"  a run would refuse this: {found.refused}"


def test_masks_of_foreground(dataset):
    root = dataset({"train": [labels([0, 255, 255, 255])], "val": [labels([0, 0, 1, 0])]}, "masks")
    found = mapcheck.check(open_maps(root, reader=ForegroundReader()))
    assert found.splits["train"].classes == {"background": 0.25, "foreground": 0.75}
    assert found.splits["val"].classes == {"background": 0.75, "foreground": 0.25}


def test_images_without_maps_are_another_check(tmp_path):
    from extract.datasets import open_dataset

    save(tmp_path / "a.png", photo(0))
    with pytest.raises(InputError, match="without maps"):
        mapcheck.check(open_dataset(tmp_path))


def test_the_overlay_is_written_only_where_asked_and_never_among_the_data(dataset, tmp_path):
    root = dataset({"train": [labels([0, 0, 0, 0]), labels([0, 1, 255, 1])], "val": [labels([0, 1, 0, 1])]})
    splits = open_maps(root, reader=LabelReader(num_classes=2))
    before = sorted(path for path in tmp_path.rglob("*"))
    assert mapcheck.check(splits).overlay is None
    assert sorted(tmp_path.rglob("*")) == before
    found = mapcheck.check(splits, overlay=tmp_path / "o.png")
    assert found.overlay == "val/images/0.png"  # of two classes, and valid throughout
    assert Image.open(tmp_path / "o.png").format == "PNG"
    for path, said in (
        (root / "o.png", "lies in the dataset"),
        (root / "train/labels/o.png", "lies in the dataset"),
        (tmp_path / "o.jpg", r"is no \.png"),
        (tmp_path / "none/o.png", "there is no folder"),
    ):
        with pytest.raises(InputError, match=said):
            mapcheck.check(splits, overlay=path)
        assert not path.exists()


def test_boundaries_of_several_people_are_drawn_as_their_share(tmp_path):
    save(tmp_path / "bsds/images/train/a.png", photo(0))
    people = np.empty((1, 3), object)
    for place, column in enumerate((2, 2, 5)):
        marks = np.zeros((6, 8), np.uint8)
        marks[:, column] = 1
        people[0, place] = {"Segmentation": np.ones_like(marks), "Boundaries": marks}
    (tmp_path / "bsds/groundTruth/train").mkdir(parents=True)
    savemat(tmp_path / "bsds/groundTruth/train/a.mat", {"groundTruth": people})
    found = mapcheck.check(open_bsds(tmp_path / "bsds"), overlay=tmp_path / "o.png")
    assert found.overlay == "images/train/a.png"
    assert Image.open(tmp_path / "o.png").format == "PNG"
