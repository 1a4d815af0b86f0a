"""Pairs of views of a scene whose depth and cameras are known."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from extract.datasets.pairs import open_pairs
from extract.datasets.posed_depth import PosedDepth, intrinsics
from extract.errors import InputError
from extract.maps.quantities import DepthReader

SIZE = (60, 80)
CAMERA = np.array([[70.0, 0, 40], [0, 72, 30], [0, 0, 1]])
POINTS = np.random.default_rng(0).uniform((0, 0), SIZE[::-1], (200, 2))


def pose(degrees=(3, -8, 2), move=(0.2, -0.1, 0.05)):
    matrix = np.eye(4)
    matrix[:3, :3], matrix[:3, 3] = Rotation.from_euler("xyz", degrees, degrees=True).as_matrix(), move
    return matrix


def plane(camera, normal, distance, size=SIZE):
    """Depths of the plane normal · X = distance at the pixels of a camera."""
    y, x = np.mgrid[: size[0], : size[1]] + 0.5
    rays = np.stack([x, y, np.ones(size)], -1) @ np.linalg.inv(camera).T
    return distance / (rays @ np.asarray(normal, float))


def test_a_plane_is_seen_through_its_homography():
    """H = K (R + t nᵀ / d) K⁻¹ (Hartley & Zisserman 2004, section 13.1)."""
    turn, normal, distance = pose(), np.array([0.0, 0, 1]), 3.0
    relation = PosedDepth(plane(CAMERA, normal, distance), CAMERA, CAMERA, turn)
    found, known = relation.truth(POINTS, SIZE, SIZE)
    homography = CAMERA @ (turn[:3, :3] + np.outer(turn[:3, 3], normal) / distance) @ np.linalg.inv(CAMERA)
    seen = np.column_stack([POINTS, np.ones(200)]) @ homography.T
    assert known.all()
    np.testing.assert_allclose(found, seen[:, :2] / seen[:, 2:])


def test_a_slanted_plane_and_its_second_view_agree():
    turn, normal, distance = pose(), np.array([0.2, -0.1, 1]), 3.0
    first = plane(CAMERA, normal, distance)
    there = turn[:3, :3] @ normal
    second = plane(CAMERA, there, distance + there @ turn[:3, 3])
    relation = PosedDepth(first, CAMERA, CAMERA, turn, seen=second)
    found, known = relation.truth(POINTS, SIZE, SIZE)
    assert known.all()
    back, _ = PosedDepth(second, CAMERA, CAMERA, np.linalg.inv(turn)).truth(found, SIZE, SIZE)
    inside = ((found >= 0) & (found < SIZE[::-1])).all(axis=1)
    assert inside.sum() > 100
    np.testing.assert_allclose(back[inside], POINTS[inside], atol=0.1)  # depth is of the pixel's centre


def test_what_something_hides_from_the_second_camera_is_not_known():
    first, second = np.full(SIZE, 4.0), np.full(SIZE, 4.0)
    second[:, :40] = 1.0  # a pole that the first camera does not see
    second[:30, 60:] = 0  # and a hole
    centres = np.column_stack([np.arange(80) + 0.5, np.full(80, 10.5)])
    relation = PosedDepth(first, CAMERA, CAMERA, np.eye(4), seen=second)
    assert np.flatnonzero(relation.truth(centres, SIZE, SIZE)[1]).tolist() == [*range(40, 60)]
    assert replace(relation, seen=None).truth(centres, SIZE, SIZE)[1].all()
    assert replace(relation, tolerance=5.0).truth(centres, SIZE, SIZE)[1].sum() == 60


def test_what_has_no_depth_or_lies_behind_the_camera_is_not_known():
    depth = np.full(SIZE, 2.0)
    depth[0], depth[1], depth[2] = 0, np.nan, -1
    places = np.array([[5, 0.5], [5, 1.5], [5, 2.5], [5, 3.5], [-1, 5], [5, 60.0]])
    found, known = PosedDepth(depth, CAMERA, CAMERA, np.eye(4)).truth(places, SIZE, SIZE)
    assert known.tolist() == [False] * 3 + [True] + [False] * 2
    np.testing.assert_allclose(found[3], places[3])
    back = pose((0, 180, 0), (0, 0, 0))
    assert not PosedDepth(depth, CAMERA, CAMERA, back).truth(places, SIZE, SIZE)[1].any()
    leaving = PosedDepth(depth, CAMERA, CAMERA, pose((0, 0, 0), (9, 0, 0))).truth(places, SIZE, SIZE)
    assert leaving[1][3]
    assert leaving[0][3, 0] > 80  # beyond the second image, and known


def test_the_depth_map_may_have_other_pixels_than_the_image():
    depth = plane(np.diag([0.5, 0.5, 1]) @ CAMERA, (0.2, 0, 1), 3.0, (30, 40))
    whole = plane(CAMERA, (0.2, 0, 1), 3.0)
    coarse, fine = (
        PosedDepth(each, CAMERA, CAMERA, pose()).truth(POINTS, SIZE, SIZE)[0] for each in (depth, whole)
    )
    np.testing.assert_allclose(coarse, fine, atol=0.1)
    with pytest.raises(InputError, match="is 40×30 and the image 80×50; they have to show the same"):
        PosedDepth(depth, CAMERA, CAMERA, pose()).truth(POINTS, (50, 80), SIZE)


def test_poses_and_cameras_have_to_be_such():
    depth = np.ones(SIZE)
    for bad in (pose().T, 2 * np.eye(4), np.diag([1.0, 1, -1, 1]), np.full((4, 4), -np.inf), np.eye(3)):
        with pytest.raises(InputError, match="is no rotation with a translation"):
            PosedDepth(depth, CAMERA, CAMERA, bad)
    with pytest.raises(InputError, match="intrinsics are"):
        PosedDepth(depth, np.zeros((3, 3)), CAMERA, np.eye(4))
    with pytest.raises(InputError, match="the tolerance is"):
        PosedDepth(depth, CAMERA, CAMERA, np.eye(4), tolerance=0.0)
    assert intrinsics(np.array([70.0, 72, 39.5, 29.5]), "index").tolist() == CAMERA.tolist()
    four = np.eye(4)
    four[:3, :3] = CAMERA
    assert intrinsics(four, "edge").tolist() == CAMERA.tolist()


def test_digests_know_all_that_could_change_an_answer():
    one = PosedDepth(np.ones(SIZE), CAMERA, CAMERA, np.eye(4))
    others = [
        replace(one, depth=np.full(SIZE, 2.0)),
        replace(one, seen=np.ones(SIZE)),
        replace(one, first=CAMERA * [[2], [1], [1]]),
        replace(one, second=CAMERA * [[2], [1], [1]]),
        replace(one, pose=pose()),
        replace(one, tolerance=0.1),
        replace(one, reader=DepthReader(scale=2.0)),
    ]
    assert len({each.digest for each in (one, *others)}) == 8
    assert replace(one, name="another").digest == one.digest


@pytest.fixture
def table(tmp_path, save, photo):
    for seed in range(2):
        save(tmp_path / f"{seed}.png", photo(seed, *SIZE))
        save(tmp_path / f"depth{seed}.png", np.full(SIZE, 3000, np.uint16))
    np.savetxt(tmp_path / "K.txt", np.block([[CAMERA, np.zeros((3, 1))], [0, 0, 0, 1]]))
    for name, matrix in (("relative", pose()), ("world", pose((10, 20, 30))), ("flat", pose().T)):
        np.savetxt(tmp_path / f"{name}.txt", matrix)
    np.savetxt(tmp_path / "other.txt", pose((10, 20, 30)) @ np.linalg.inv(pose()))

    def write(text):
        (tmp_path / "pairs.csv").write_text(text)
        return tmp_path / "pairs.csv"

    return write


def test_tables_of_posed_pairs(table):
    direct = (
        "image_1,image_2,depth_1,intrinsics,second_from_first\n0.png,1.png,depth0.png,K.txt,relative.txt\n"
    )
    both = (
        "image_1,image_2,depth_1,depth_2,intrinsics_1,intrinsics_2,world_from_first,world_from_second\n"
        "0.png,1.png,depth0.png,depth1.png,70 72 40 30,K.txt,world.txt,other.txt\n"
    )
    images = [open_pairs(table(text), depth_scale=1000.0, origin="edge")["all"] for text in (direct, both)]
    one, two = (each.groups.truth["relation"][0] for each in images)
    expected = PosedDepth(np.full(SIZE, 3.0), CAMERA, CAMERA, pose()).truth(POINTS, SIZE, SIZE)[0]
    np.testing.assert_allclose(one.truth(POINTS, SIZE, SIZE)[0], expected, rtol=1e-6)
    np.testing.assert_allclose(replace(two, seen=None).truth(POINTS, SIZE, SIZE)[0], expected, rtol=1e-6)
    assert two.seen is not None
    assert images[0].groups.params["hidden"] == "not told"
    assert images[1].groups.params["hidden"] == "not known"
    with pytest.raises(InputError, match="and needs its unit"):
        open_pairs(table(direct))["all"].groups.truth["relation"][0].truth(POINTS, SIZE, SIZE)


@pytest.mark.parametrize(
    ("more", "cells", "said"),
    [
        ("intrinsics", "K.txt", "has depth and the columns"),
        ("second_from_first", "relative.txt", "has depth and the columns"),
        ("intrinsics,world_from_first", "K.txt,world.txt", "has depth and the columns"),
        (
            "intrinsics,second_from_first",
            "K.txt,flat.txt",
            r"pairs.csv, row 1: the pose .* written down transposed",
        ),
        (
            "intrinsics,second_from_first",
            "K.txt,1 2 3",
            "row 1, column second_from_first holds 3 numbers; a pose is",
        ),
        (
            "intrinsics,second_from_first",
            "1 2,relative.txt",
            "row 1, column intrinsics holds 2 numbers; intrinsics are",
        ),
        ("intrinsics,second_from_first", "0 0 0 0,relative.txt", "row 1: intrinsics are"),
        (
            "intrinsics,second_from_first",
            "none.txt,relative.txt",
            "row 1, column intrinsics holds 'none.txt', which are",
        ),
    ],
)
def test_tables_without_cameras_are_refused(table, more, cells, said):
    with pytest.raises(InputError, match=said):
        open_pairs(
            table(f"image_1,image_2,depth,{more}\n0.png,1.png,depth0.png,{cells}\n"), depth_scale=1000.0
        )
