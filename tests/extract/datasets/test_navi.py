import json

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from extract.datasets import cameras as posed
from extract.datasets.navi import find_navi, open_poses
from extract.errors import InputError
from extract.poses import angle_deg, relative

SCENES = ("cup/multiview-00-pixel_5", "cup/multiview_01", "fox/multiview-00-canon_t4i")


def around(count, seed=0, widest=2.6):
    """Cameras that look at a point from here and there."""
    rng = np.random.default_rng(seed)
    turns = np.roll(
        Rotation.from_rotvec(rng.uniform(-widest / 2, widest / 2, (count, 3))).as_quat(), 1, axis=1
    )
    return np.concatenate([turns, rng.normal(0, 300, (count, 3))], axis=1)


@pytest.fixture
def navi(tmp_path, save, photo):
    """A folder with three scenes of eleven training images and four of val."""
    root = tmp_path / "navi_v1.5"
    for number, scene in enumerate(SCENES):
        entries = []
        for i, pose in enumerate(around(15, number)):
            save(root / scene / "images" / f"{i:03}.png", photo(100 * number + i))
            camera = {"q": pose[:4].tolist(), "t": pose[4:].tolist(), "focal_length": 3024.0}
            split = "val" if i % 4 == 3 or i == 14 else "train"
            entries.append({"filename": f"{i:03}.png", "split": split, "camera": camera, "occluded": False})
        (root / scene / "annotations.json").write_text(json.dumps(entries))
    for other in ("cup/wild_set", "fox/video-00-pixel_5"):
        (root / other).mkdir()
        (root / other / "annotations.json").write_text("[]")
    return root


def all_pairs(splits):
    """(split, both names, pose) of every pair."""
    return [
        (split, images.names[a], images.names[b], pose)
        for split, images in splits.items()
        for (a, b), pose in zip(images.groups.members, images.groups.truth["pose"], strict=True)
    ]


def truth_of(root):
    """name → camera-from-world pose in metres, and its split."""
    found = {}
    for scene in SCENES:
        for entry in json.loads((root / scene / "annotations.json").read_text()):
            pose = np.array([*entry["camera"]["q"], *np.array(entry["camera"]["t"]) / 1000])
            found[f"{scene}/images/{entry['filename']}"] = pose, entry["split"]
    return found


def test_pairs_are_of_one_scene_and_one_split_and_know_their_relative_pose(navi):
    splits, truth = open_poses(navi), truth_of(navi)
    assert list(splits) == ["train", "val"]
    assert splits.name == "navi_v1.5"
    for split, first, second, pose in all_pairs(splits):
        assert first.rpartition("/images/")[0] == second.rpartition("/images/")[0]
        assert truth[first][1] == truth[second][1] == split
        expected = relative(truth[first][0][None], truth[second][0][None])[0]
        np.testing.assert_allclose(pose, expected, atol=1e-8)
        angle = np.rad2deg(2 * np.arccos(pose[0]))
        assert 0 < angle <= 120
    groups = splits["val"].groups
    assert groups.noun == "pair"
    assert groups.params["layout"] == "navi"
    assert groups.params["target_scale"] == 1000


def test_every_pair_that_may_be_is_there_where_there_is_room(navi):
    splits, truth = open_poses(navi, pairs_per_image=100), truth_of(navi)
    expected = set()
    for first, (one, split) in truth.items():
        for second, (two, other) in truth.items():
            together = split == other and first.rpartition("/images")[0] == second.rpartition("/images")[0]
            if together and first != second and angle_deg(one[None, :4], two[None, :4])[0] <= 120:
                expected.add((split, frozenset((first, second))))
    found = [(split, frozenset((first, second))) for split, first, second, _ in all_pairs(splits)]
    assert set(found) == expected
    assert len(found) == len(expected)  # each once
    assert len(expected) < 3 * (55 + 6)  # so some were turned too far


def test_an_image_has_no_more_pairs_than_told(navi):
    for split, images in open_poses(navi, pairs_per_image=3).items():
        counts = np.bincount(images.groups.members.ravel())
        assert counts.max() == 3, split
        assert counts.min() >= 1  # images without a pair are left out


def test_the_pairs_do_not_depend_on_names_or_order(navi, tmp_path):
    rows = [(*name.rpartition("/images/")[::2], pose) for name, (pose, _) in truth_of(navi).items()]

    def pairs(chosen):
        numbers = {}
        scenes = [str(numbers.setdefault(scene, len(numbers))) for scene, _, _ in chosen]
        poses = np.stack([pose for *_, pose in chosen])
        paths = [f"{i}.png" for i in range(len(chosen))]
        cameras = posed.Cameras(tmp_path, paths, scenes, poses, None)
        found = cameras.splits("it", pairs_per_image=3, max_rotation=None)
        return {
            (split, *np.round(pose, 6))
            for split, images in found.items()
            for pose in images.groups.truth["pose"]
        }

    shuffled = [rows[i] for i in np.random.default_rng(0).permutation(len(rows))]
    assert pairs(rows) == pairs(shuffled)


def test_neither_of_a_pair_is_the_first_by_its_place(tmp_path):
    """A camera that goes round turns one way from image to image; pairs must not say so."""
    angles = np.linspace(0, 1.5, 40)
    poses = np.zeros((40, 7))
    poses[:, 0], poses[:, 2] = np.cos(angles / 2), np.sin(angles / 2)
    members = posed.draw_pairs(poses, 8, 120.0)
    forwards = (members[:, 0] < members[:, 1]).mean()
    assert 0.35 < forwards < 0.65
    assert len(members) > 140


def test_a_table_without_splits_has_a_fifth_of_each_scene_drawn(tmp_path, save, photo):
    lines = ["path,scene,qw,qx,qy,qz,tx,ty,tz"]
    for number in range(2):
        for i, pose in enumerate(around(20, number, widest=1.5)):
            save(tmp_path / f"{number}_{i}.png", photo(30 * number + i))
            lines.append(",".join([f"{number}_{i}.png", f"s{number}", *map(str, pose)]))
    table = tmp_path / "posed.csv"
    table.write_text("\n".join(lines))
    splits = open_poses(table, scale=1000)
    assert {split: len(images) for split, images in splits.items()} == {"train": 32, "test": 8}
    assert splits["test"].groups.params["drawn_test"] == 0.2
    assert np.abs(splits["test"].groups.truth["pose"][:, 4:]).max() < 3
    assert len(splits["test"].groups) == 12  # every two of four in each scene
    names = [set(images.names) for images in splits.values()]
    assert not names[0] & names[1]


def test_a_table_says_its_splits(tmp_path, save, photo):
    lines = ["IMAGE,scene,qw,qx,qy,qz,tx,ty,tz,split"]
    for i, pose in enumerate(around(9, 0, widest=1.0)):
        save(tmp_path / f"{i}.png", photo(i))
        lines.append(",".join([f"{i}.png", "a", *map(str, pose), ("train", "val", "test")[i % 3]]))
    table = tmp_path / "posed.csv"
    table.write_text("\n".join(lines))
    assert {split: len(images.groups) for split, images in open_poses(table).items()} == {
        "train": 3,
        "val": 3,
        "test": 3,
    }


def test_a_scene_of_many_images_is_dealt_into_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(posed, "AT_ONCE", 10)
    poses = around(35, 0, widest=1.0)
    cameras = posed.Cameras(tmp_path, [f"{i}.png" for i in range(35)], ["a"] * 35, poses, None)
    train = cameras.splits("it", pairs_per_image=4, max_rotation=None)["train"]
    assert len(train) == 28
    assert len(train.groups) > 50


def test_the_folder_above_is_found_too(navi):
    assert find_navi(navi) == navi
    assert find_navi(navi.parent) == navi
    assert find_navi(navi / "cup") is None


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda entry: entry.pop("split"), "entry 1 lacks 'split'"),
        (lambda entry: entry["camera"].pop("q"), "lacks 'q'"),
        (lambda entry: entry["camera"].update(q=[0, 0, 0, 0]), "has the pose"),
        (lambda entry: entry["camera"].update(t=[0, 0]), "has the pose"),
        (lambda entry: entry.update(filename="no.jpg"), "cannot be found, the first 'cup/.*no.jpg'"),
        (lambda entry: entry.update(filename="001.png"), "names .*001.png twice"),
        (lambda entry: entry.update(split="holdout"), "names the split 'holdout'"),
    ],
)
def test_what_is_wrong_with_an_entry_is_said(navi, spoil, said):
    file = navi / SCENES[0] / "annotations.json"
    entries = json.loads(file.read_text())
    spoil(entries[0])
    file.write_text(json.dumps(entries))
    with pytest.raises(InputError, match=said):
        open_poses(navi)


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"pairs_per_image": 0}, "pairs_per_image is 0"),
        ({"max_rotation": 0}, "max_rotation is 0"),
        ({"max_rotation": 0.01}, "no two of one scene and one split"),
        ({"scale": 0}, "target_scale is 0"),
        ({"columns": {"path": "file"}}, "column of tables"),
    ],
)
def test_what_is_told_wrongly_is_refused(navi, told, said):
    with pytest.raises(InputError, match=said):
        open_poses(navi, **told)


def test_what_is_neither_is_refused_and_so_are_tables_without_poses(tmp_path):
    with pytest.raises(InputError, match="neither laid out as NAVI"):
        open_poses(tmp_path)
    (tmp_path / "t.csv").write_text("path,scene,qw\na.png,s,1\n")
    with pytest.raises(InputError, match="none for qx, qy, qz, tx, ty, tz"):
        open_poses(tmp_path / "t.csv")


def test_annotations_that_are_no_list_are_refused(navi):
    (navi / SCENES[0] / "annotations.json").write_text("{}")
    with pytest.raises(InputError, match="no list of images"):
        open_poses(navi)
    (navi / SCENES[0] / "annotations.json").write_text("[")
    with pytest.raises(InputError, match="cannot be read as JSON"):
        open_poses(navi)


def test_pairs_keep_their_truth_in_whatever_order_images_come(navi):
    images = open_poses(navi)["val"]
    turned = images.subset(range(len(images))[::-1])
    before = {frozenset(images.names[i] for i in pair) for pair in images.groups.members}
    assert before == {frozenset(turned.names[i] for i in pair) for pair in turned.groups.members}


def test_the_first_few_pairs_are_of_many_scenes(navi):
    images = open_poses(navi)["train"].limit(12)
    assert len(images.groups) == 12
    assert len({name.partition("/images/")[0] for name in images.names}) == 3
