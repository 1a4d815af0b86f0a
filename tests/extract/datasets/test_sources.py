"""The same twenty pictures, however they come: arrays, torch-style, Hugging Face, shards and a folder."""

import io
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from extract.datasets import open_dataset
from extract.errors import InputError, UnreadableImageError
from extract.images import read_image
from extract.memo import Memo

CLASSES = ("ant", "bee")
N = 20


def picture(i: int) -> Image.Image:
    """Larger than high, with one bright corner, so that a turn shows."""
    image = Image.new("RGB", (8, 6), (i * 10, 40, 40))
    image.paste((255, 255, 255), (0, 0, 2, 2))
    return image


def encoded(i: int) -> bytes:
    """A JPEG that EXIF turns."""
    stream, exif = io.BytesIO(), Image.Exif()
    exif[0x0112] = 6
    picture(i).save(stream, "JPEG", quality=95, exif=exif)
    return stream.getvalue()


@pytest.fixture
def folder(tmp_path) -> Path:
    for i in range(N):
        file = tmp_path / "folder" / CLASSES[i // 10] / f"{i:02}.jpg"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(encoded(i))
    return tmp_path / "folder"


class TorchStyle:
    """What torchvision's datasets have in common, and a lock: nothing that could be pickled."""

    def __init__(self, items, classes=None, targets=None):
        self.items, self.asked, self.lock = items, 0, threading.Lock()
        if classes is not None:
            self.classes = classes
        if targets is not None:
            self.targets = targets

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        self.asked += 1
        return self.items[i]


class ClassLabel:
    def __init__(self, names):
        self.names = names


class ImageFeature:
    def __init__(self, decode=True):
        self.decode = decode


class HuggingFace:
    """The part of `datasets.Dataset` that is used."""

    column_names = ("image", "label")

    def __init__(self, rows, decode=True, names=CLASSES):
        self.rows = rows
        self.features = {"image": ImageFeature(decode), "label": ClassLabel(list(names))}

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, key):
        if isinstance(key, str):
            return [row[key] for row in self.rows]
        row = dict(self.rows[key])
        if self.features["image"].decode:
            row["image"] = Image.open(io.BytesIO(row["image"]["bytes"]))
        return row

    def cast_column(self, column, feature):
        assert column == "image"
        return HuggingFace(self.rows, feature.decode, self.features["label"].names)


def shard(path: Path, samples: dict[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name, data in samples.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return path


def samples(rows) -> dict[str, bytes]:
    return {
        f"{i:03}.{ending}": data
        for i in rows
        for ending, data in (("jpg", encoded(i)), ("cls", CLASSES[i // 10].encode()))
    }


def as_arrays(folder):
    return [encoded(i) for i in range(N)], [CLASSES[i // 10] for i in range(N)]


def as_torch_style(folder):
    items = [(Image.open(io.BytesIO(encoded(i))), i // 10) for i in range(N)]
    return TorchStyle(items, CLASSES, [i // 10 for i in range(N)])


def as_hugging_face(folder):
    return HuggingFace([{"image": {"bytes": encoded(i), "path": None}, "label": i // 10} for i in range(N)])


def as_shards(folder):
    shard(folder.parent / "s-00.tar", samples(range(12)))
    shard(folder.parent / "s-01.tar", samples(range(12, N)))
    return str(folder.parent / "s-{00..01}.tar")


def as_torchvision(folder):
    from torchvision.datasets import ImageFolder

    return ImageFolder(str(folder))


@pytest.mark.filterwarnings("ignore:The image decoding:DeprecationWarning")
@pytest.mark.parametrize("make", [as_arrays, as_torch_style, as_hugging_face, as_shards, as_torchvision])
def test_the_same_pictures_classes_and_order(folder, make):
    expected = open_dataset(folder)["all"]
    images = open_dataset(make(folder))["all"]
    assert len(images) == N
    assert images.classes == expected.classes == CLASSES
    assert images.labels.tolist() == expected.labels.tolist()
    for i in range(N):
        one = read_image(images.sources[i], name=images.names[i]).pixels.astype(int)
        assert one.shape == (8, 6, 3)  # upright
        assert np.abs(one - read_image(expected.sources[i], name="").pixels).max() <= 2
    if make is not as_torch_style:  # decoded there, the bytes of the file elsewhere
        memo = Memo(folder.parent / "memo")
        assert np.array_equal(memo.row_ids(images.sources), memo.row_ids(expected.sources))


def test_arrays():
    array = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    images = open_dataset((array, [5, 0]), name="noise")["all"]
    assert (images.name, images.split, images.names) == ("noise", None, ("image 0", "image 1"))
    assert images.classes == ("0", "5")
    assert images.labels.tolist() == [1, 0]
    assert np.array_equal(images.sources[1], array[1])
    assert open_dataset(array)["all"].labels is None
    assert open_dataset(array[:, :, :, 0])["all"].sources[0].shape == (4, 5)
    several = open_dataset((array, np.array([[1, 0, 1], [0, 0, 0]])))["all"]
    assert several.multilabel
    assert several.classes == ("0", "1", "2")


def test_a_list_of_paths_is_called_by_them(folder):
    paths = [str(folder / "bee" / "10.jpg"), folder / "ant" / "00.jpg"]
    images = open_dataset(paths)["all"]
    assert images.names == (str(paths[0]), str(paths[1]))
    assert images.sources[0] == Path(paths[0])


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (np.zeros((2, 3, 4, 5), np.uint8), r"shape \(2, 3, 4, 5\); it should be \(n, h, w\) or"),
        (np.zeros((2, 4, 5, 3)), "float64 of no known range; give uint8"),
        (([b"a", b"b"], [0]), "2 images, 2 names and 1 label"),
        ([], "there are no images"),
        ([3.5], "an image is a float"),
        (([b"a"], np.array([[0.5]])), r"\(n, c\) of 0 and 1"),
        (7, "int is no dataset that can be read"),
        ({}, "there are no splits"),
        ({"fold": [b"a"]}, "names the split 'fold'"),
    ],
)
def test_what_is_refused_in_memory(data, reason):
    with pytest.raises(InputError, match=reason):
        open_dataset(data)


def test_splits_given_one_by_one_share_classes_by_name():
    splits = open_dataset(
        {"train": ([b"a", b"b", b"c"], ["x", "y", "z"]), "validation": ([b"d", b"e"], ["z", "y"])}
    )
    assert list(splits) == ["train", "val"]
    assert splits["val"].labels.tolist() == [2, 1]
    assert splits["val"].classes == ("x", "y", "z")
    assert splits["val"].split == "val"
    unlabelled = open_dataset({"train": ([b"a", b"b"], [0, 7]), "test": [b"c"]})
    assert unlabelled["test"].labels is None
    assert unlabelled["test"].classes == ("0", "7")


def test_several_labels_are_matched_by_name_too():
    from extract.datasets.base import ImageSet
    from extract.datasets.labels import unite

    def several(classes, labels):
        return ImageSet("s", None, [b"a"], ("a",), np.array([labels], np.uint8), classes)

    sets = unite({"train": several(("a", "b", "c"), [1, 0, 1]), "test": several(("c", "b"), [1, 0])})
    assert sets["test"].labels.tolist() == [[0, 0, 1]]
    with pytest.raises(InputError, match="some splits have one label an image and some have several"):
        open_dataset({"train": several(("a",), [1]), "test": ([b"a"], ["a"])})


def test_labels_of_a_torch_style_dataset_without_targets():
    data = TorchStyle([(np.full((2, 2, 3), i, np.uint8), i % 2) for i in range(4)], CLASSES)
    images = open_dataset(data)["all"]
    assert images.labels.tolist() == [0, 1, 0, 1]
    assert images.name == "TorchStyle"
    assert open_dataset(TorchStyle([b"a", b"b"]))["all"].labels is None
    listed = TorchStyle([b"a", b"b"], targets=[1, 0])
    assert open_dataset(listed)["all"].labels.tolist() == [1, 0]
    assert listed.asked == 0  # nothing is decoded to learn the labels
    with pytest.raises(InputError, match="from 0 to 2, but what is named is 2 classes"):
        open_dataset(TorchStyle([b"a", b"b"], CLASSES, [0, 2]))
    with pytest.raises(InputError, match="is empty"):
        open_dataset(TorchStyle([]))


def test_tensors():
    torch = pytest.importorskip("torch")
    pixels = torch.arange(3 * 4 * 5, dtype=torch.uint8).reshape(3, 4, 5)
    images = open_dataset(TorchStyle([(pixels, torch.tensor(1)), (pixels, torch.tensor(0))], CLASSES))["all"]
    assert images.labels.tolist() == [1, 0]
    assert np.array_equal(images.sources[0], pixels.permute(1, 2, 0).numpy())
    floats = open_dataset(TorchStyle([(pixels.float(), 0)] * 2, CLASSES))["all"]
    with pytest.raises(InputError, match="give the dataset without its transform"):
        floats.sources[0]


def test_a_torch_subset(folder):
    from torch.utils.data import Subset

    images = open_dataset(Subset(as_torchvision(folder), [15, 2]))["all"]
    assert images.labels.tolist() == [1, 0]
    assert images.names == (str(folder / "bee/15.jpg"), str(folder / "ant/02.jpg"))


def test_a_dataset_with_a_transform_keeps_it(folder):
    from torchvision.datasets import ImageFolder

    images = open_dataset(ImageFolder(str(folder), transform=lambda image: image.resize((2, 2))))["all"]
    assert images.names[3] == "image 3"
    assert read_image(images.sources[3], name="image 3").pixels.shape == (2, 2, 3)


def test_a_damaged_item_is_named():
    class Damaged(TorchStyle):
        def __getitem__(self, i):
            return Image.open(io.BytesIO(b"no image")), i

    images = open_dataset(Damaged([0, 0], CLASSES, [0, 1]))["all"]
    with pytest.raises(UnreadableImageError, match="image 1 cannot be read"):
        images.sources[1]


def test_one_thread_at_a_time_asks_a_dataset(tmp_path):
    class Alone(TorchStyle):
        def __getitem__(self, i):
            assert self.lock.acquire(blocking=False), "asked by two threads at once"
            try:
                return Image.new("RGB", (30, 30), (i, i, i)).resize((60, 60)), 0
            finally:
                self.lock.release()

    images = open_dataset(Alone([0] * 200, CLASSES, [0, 1] * 100))["all"]
    ids = Memo(tmp_path / "memo").row_ids(images.sources, workers=8)
    assert len(np.unique(ids, axis=0)) == 200


def test_hugging_face_columns_and_splits():
    rows = [{"image": {"bytes": encoded(i), "path": None}, "label": i} for i in (1, 0, -1)]
    splits = open_dataset({"train": HuggingFace(rows), "test": HuggingFace(rows[:1], names=("bee", "ant"))})
    assert splits["train"].classes == CLASSES
    assert splits["train"].labels.tolist() == [1, 0, -1]
    assert splits["test"].labels.tolist() == [0]  # index 1 is "ant" there
    assert splits["train"].params == {"image_column": "image", "label_column": "label"}
    with pytest.raises(InputError, match=r"no column 'x'; it has image, label"):
        open_dataset(HuggingFace(rows), label_column="x")
    with pytest.raises(InputError, match="split_column is for tables"):
        open_dataset(HuggingFace(rows), split_column="x")


def test_shards(tmp_path):
    path = shard(
        tmp_path / "a.tar", {"x/1.jpg": encoded(1), "x/1.cls": b"7", "y/1.jpg": encoded(2), "y/1.cls": b"0"}
    )
    images = open_dataset(path)["all"]
    assert images.names == ("a.tar/x/1", "a.tar/y/1")
    assert images.classes == ("0", "7")
    assert images.labels.tolist() == [1, 0]
    assert images.sources[1] == encoded(2)
    bare = shard(tmp_path / "b.tar", {"1.jpg": encoded(1), "1.json": b"{}"})
    assert open_dataset(bare)["all"].labels is None


def test_what_is_missing_in_shards_is_named(tmp_path):
    lacking = samples(range(3))
    del lacking["001.cls"]
    shard(tmp_path / "s-0.tar", lacking)
    with pytest.raises(
        InputError, match=r"the sample s-0\.tar/001 has no 'cls' \(samples without it: 1 of 3\)"
    ):
        open_dataset(tmp_path / "s-0.tar")
    with pytest.raises(InputError, match=r"the sample s-0\.tar/000 has no 'txt'"):
        open_dataset(tmp_path / "s-0.tar", label_column="txt")
    with pytest.raises(InputError, match=r"there is no shard .*/s-1\.tar \(3 shards named\)"):
        open_dataset(str(tmp_path / "s-{0..2}.tar"))
    (tmp_path / "z.tar").write_bytes(b"no tar" * 300)
    with pytest.raises(InputError, match=r"z\.tar is damaged or compressed, or is no tar file"):
        open_dataset(tmp_path / "z.tar")
    shard(tmp_path / "two.tar", {"1.jpg": encoded(1), "1.png": b"mask"})
    with pytest.raises(InputError, match=r"several images \(jpg, png\)"):
        open_dataset(tmp_path / "two.tar")
    shard(tmp_path / "none.tar", {"1.txt": b"x"})
    with pytest.raises(InputError, match="no sample with an image"):
        open_dataset(tmp_path / "none.tar")
