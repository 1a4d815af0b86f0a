"""NYUv2 as probe3d packs it, made by hand: the pickle, GeoNet's files, and what is not there."""

import builtins
import pickle

import numpy as np
import pytest
import scipy.io

from extract.datasets.nyu import find_packed, open_nyu
from extract.errors import InputError, MissingExtraError, UnreadableImageError
from extract.maps.readers import DepthReader, LabelReader, NormalsReader

DEPTH, NORMALS = DepthReader(max_depth=10), NormalsReader()
MEANS = 2 * np.array([122.175, 116.169, 103.508])


def unit(values):
    return (values / np.linalg.norm(values, axis=-1, keepdims=True)).astype(np.float32)


@pytest.fixture
def frames():
    """Five frames of 12×16: images, depths with a hole and a far wall, normals."""
    random = np.random.default_rng(0)
    depths = random.uniform(1, 9, (5, 12, 16)).astype(np.float32)
    depths[:, 0, 0], depths[:, 0, 1] = 0, 11
    return random.integers(0, 256, (5, 12, 16, 3), np.uint8), depths, unit(random.normal(size=(5, 12, 16, 3)))


@pytest.fixture
def packed(tmp_path, frames):
    images, depths, normals = frames
    saved = {
        "depths": depths, "images": images.transpose(0, 3, 1, 2), "snorms": normals.transpose(0, 3, 1, 2),
        "scene_types": [["kitchen"]] * 5, "train_indices": np.array([4, 0]), "test_indices": np.array([3, 1, 2]),
    }  # fmt: skip
    path = tmp_path / "nyuv2" / "nyuv2_snorm_all.pkl"
    path.parent.mkdir()
    path.write_bytes(pickle.dumps(saved))
    return path


def geonet(root, frames, count):
    """GeoNet's files have a row and a column more than the frame, and images without their mean."""
    images, depths, normals = frames
    folder = root / "nyu_geonet"
    folder.mkdir()
    for i in range(count):
        content = {
            "img": images[i % 5].astype(np.float64) - MEANS,
            "depth": depths[i % 5],
            "norm": normals[i % 5].astype(np.float64),
        }
        scipy.io.savemat(folder / f"kitchen_0001-{i:03}.mat", content)
    return folder


def test_the_pickle_alone(packed, frames, tmp_path):
    images, depths, normals = frames
    for root in (tmp_path, packed.parent, packed):
        splits = open_nyu(root, reader=DEPTH)
        assert {split: len(each) for split, each in splits.items()} == {"train": 2, "test": 3}
    test = splits["test"]
    assert test.names[0] == test.targets.names[0] == "nyuv2_snorm_all.pkl/0003"
    for i, row in enumerate((3, 1, 2)):
        assert np.array_equal(test.sources[i], images[row])
        depth = test.targets.read(i)
        assert depth[0, :2].tolist() == [0, 0]
        assert np.array_equal(depth[1:], depths[row, 1:])
    found = open_nyu(tmp_path, reader=NORMALS)["train"].targets.read(0)
    assert np.allclose(found, normals[4], atol=1e-6)
    assert splits["train"].subset([1]).targets.read(0)[1, 1] == depths[0, 1, 1]


def test_geonet_trains_and_the_pickle_tests(packed, frames, tmp_path):
    images, depths, normals = frames
    geonet(tmp_path, frames, 21)
    splits = open_nyu(tmp_path, reader=DEPTH)
    assert {split: len(each) for split, each in splits.items()} == {"train": 19, "val": 2, "test": 3}
    assert splits["val"].names == ("nyu_geonet/kitchen_0001-000.mat", "nyu_geonet/kitchen_0001-020.mat")
    assert splits["train"].names[0] == "nyu_geonet/kitchen_0001-001.mat"
    assert np.array_equal(splits["train"].sources[0], images[1])
    assert np.array_equal(splits["train"].targets.read(0)[1:], depths[1, 1:])
    assert np.allclose(open_nyu(tmp_path, reader=NORMALS)["train"].targets.read(0), normals[1], atol=1e-6)


def test_a_frame_of_480_by_640_is_cut_from_geonets(tmp_path):
    folder = tmp_path / "nyu_geonet"
    folder.mkdir()
    shown = np.full((481, 641, 3), -MEANS)
    shown[-1], shown[:, -1] = 0, 0
    scipy.io.savemat(
        folder / "a.mat", {"img": shown, "depth": np.ones((481, 641)), "norm": np.ones((481, 641, 3))}
    )
    only = open_nyu(folder, reader=DEPTH)["val"]
    assert only.sources[0].shape == (480, 640, 3)
    assert only.sources[0].max() == 0
    assert only.targets.read(0).shape == (480, 640)


def test_damaged_frames_are_named(tmp_path, frames):
    folder = geonet(tmp_path, frames, 3)
    first, second, third = sorted(folder.iterdir())
    first.write_bytes(b"no matlab")
    second.write_bytes(second.read_bytes()[:200])
    scipy.io.savemat(third, {"img": np.zeros((5, 5))})
    splits = open_nyu(tmp_path, reader=DEPTH)
    for images, position in ((splits["val"], 0), (splits["train"], 0), (splits["train"], 1)):
        name = images.names[position].split("/")[1]
        with pytest.raises(UnreadableImageError, match=name):
            _ = images.sources[position]
        with pytest.raises(UnreadableImageError, match=name):
            images.targets.read(position)


def test_what_does_not_fit(packed, tmp_path):
    with pytest.raises(InputError, match="packed with depth and normals, not with labels"):
        open_nyu(tmp_path, reader=LabelReader(num_classes=40))
    with pytest.raises(InputError, match="in metres, so no scale is needed, and 1000"):
        open_nyu(tmp_path, reader=DepthReader(scale=1000))
    with pytest.raises(InputError, match="holds none of"):
        open_nyu(tmp_path / "elsewhere", reader=DEPTH)
    (tmp_path / "nyu_geonet").mkdir()
    with pytest.raises(InputError, match=r"holds no \.mat"):
        open_nyu(tmp_path, reader=DEPTH)
    packed.write_bytes(pickle.dumps({"images": np.zeros((2, 3, 4, 5), np.uint8)}))
    with pytest.raises(InputError, match="has no depths, test_indices, train_indices"):
        open_nyu(packed, reader=DEPTH)
    rest = {"images": np.zeros((2, 3, 4, 5), np.uint8), "train_indices": [0], "test_indices": [1]}
    packed.write_bytes(pickle.dumps({**rest, "depths": np.zeros((2, 5, 4))}))
    with pytest.raises(InputError, match="maps of the same frames"):
        open_nyu(packed, reader=DEPTH)
    packed.write_bytes(pickle.dumps({**rest, "depths": np.zeros((2, 4, 5)), "test_indices": [2]}))
    with pytest.raises(InputError, match="lists test frames 2 … 2 of 2"):
        open_nyu(packed, reader=DEPTH)


def test_the_published_file_needs_h5py(tmp_path, monkeypatch):
    (tmp_path / "nyu_depth_v2_labeled.mat").write_bytes(b"")
    assert find_packed(tmp_path).keys() == {"nyu_depth_v2_labeled.mat"}
    plain = builtins.__import__

    def blocked(name, *rest, **more):
        if name == "h5py":
            raise ImportError(name)
        return plain(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", blocked)
    with pytest.raises(MissingExtraError, match="pip install h5py"):
        open_nyu(tmp_path, reader=DEPTH)
    with pytest.raises(InputError, match="has no normals"):
        open_nyu(tmp_path, reader=NORMALS)


def test_the_published_file(tmp_path, frames):
    h5py = pytest.importorskip("h5py")
    images, depths, _ = frames
    with h5py.File(tmp_path / "nyu_depth_v2_labeled.mat", "w") as file:
        file["images"] = images.transpose(0, 3, 2, 1)
        file["rawDepths"] = depths.transpose(0, 2, 1)
    with pytest.raises(InputError, match=r"splits\.mat is missing"):
        open_nyu(tmp_path, reader=DEPTH)
    scipy.io.savemat(tmp_path / "splits.mat", {"trainNdxs": [[2], [5]], "testNdxs": [[1]]})
    splits = open_nyu(tmp_path, reader=DEPTH)
    assert {split: len(each) for split, each in splits.items()} == {"train": 2, "test": 1}
    assert np.array_equal(splits["train"].sources[1], images[4])
    assert np.array_equal(splits["train"].targets.read(1)[1:], depths[4, 1:])
