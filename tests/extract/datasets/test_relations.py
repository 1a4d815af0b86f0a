"""Homographies, disparities and keypoints, in pixels from the first pixel's edge."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from skimage.transform import ProjectiveTransform, warp

from extract.datasets.keypoint_files import read_keypoints
from extract.datasets.matrix_files import homography_of, numbers, read_homography
from extract.datasets.relations import Disparity, Homography, Keypoints
from extract.errors import InputError

GRAF = np.array([[0.7628, -0.2992, 225.67], [0.3344, 1.0144, -77.0], [3.466e-4, -1.436e-5, 1.0]])
SIZE = (640, 800)


def points(count=50, size=SIZE, seed=0):
    return np.random.default_rng(seed).uniform(0, size[::-1], (count, 2))


def moved(matrix, xy):
    return ProjectiveTransform(matrix)(xy)


def test_pixel_indices_differ_by_half_a_pixel():
    xy = points()
    found, known = Homography.of(GRAF).truth(xy, SIZE, SIZE)
    assert known.all()
    np.testing.assert_allclose(found, moved(GRAF, xy - 0.5) + 0.5)
    np.testing.assert_allclose(Homography.of(GRAF, "edge").truth(xy, SIZE, SIZE)[0], moved(GRAF, xy))
    doubled = Homography.of(
        np.diag([2.0, 2, 1])
    )  # the centre of the first pixel stays in place, its edge does not
    assert doubled.truth(np.array([[0.5, 0.5], [0.0, 0.0]]), SIZE, SIZE)[0].tolist() == [
        [0.5, 0.5],
        [-0.5, -0.5],
    ]
    with pytest.raises(InputError, match="the origin of coordinates is 'centre'; it is 'index'"):
        Homography.of(GRAF, "centre")


def test_a_flipped_picture_is_related_by_a_mirroring_homography():
    mirror = np.array([[-1.0, 0, 7], [0, 1, 0], [0, 0, 1]])  # of indices 0 … 7
    found, known = Homography.of(mirror).truth(np.array([[0.0, 3.0], [8.0, 3.0]]), (6, 8), (6, 8))
    assert known.all()
    assert found.tolist() == [[8, 3], [0, 3]]


def test_warped_pixels_lie_where_the_homography_says():
    """scikit-image counts from the centre of the first pixel, as OpenCV does."""
    spots = np.zeros((40, 60))
    spots[10:13, 20:23] = 1  # centre of mass at index (21, 11)
    matrix = np.array([[2.0, -0.1, -6.0], [0.05, 2.2, -2.0], [1e-4, 0, 1]])
    seen = warp(spots, ProjectiveTransform(matrix).inverse, order=1)
    y, x = (np.average(grid, weights=seen) for grid in np.mgrid[:40, :60])
    (found,), _ = Homography.of(matrix).truth(np.array([[21.5, 11.5]]), (40, 60), (40, 60))
    np.testing.assert_allclose(
        found, [x + 0.5, y + 0.5], atol=0.1
    )  # by the other convention half a pixel off


@given(st.floats(0.01, 100) | st.floats(-100, -0.01))
def test_scale_and_sign_say_nothing(scale):
    xy = points()
    expected, found = (Homography(each).truth(xy, SIZE, SIZE) for each in (GRAF, scale * GRAF))
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-9)
    assert (found[1] == expected[1]).all()


def test_there_and_back():
    xy = points()
    there, _ = Homography.of(GRAF).truth(xy, SIZE, SIZE)
    back, known = Homography.of(np.linalg.inv(GRAF)).truth(there, SIZE, SIZE)
    assert known.all()
    np.testing.assert_allclose(back, xy)


def test_nothing_is_known_behind_the_horizon():
    falling = np.array(
        [[1.0, 0, 0], [0, 1, 0], [-1 / 600, 0, 1]]
    )  # the horizon at x = 600, the middle at 400
    xy = np.array([[599.0, 5], [600.0, 5], [601.0, 5], [np.nan, 5]])
    for matrix in (falling, -falling):
        found, known = Homography(matrix).truth(xy, SIZE, SIZE)
        assert known.tolist() == [True, False, False, False]
        assert (found[1:] == 0).all()
        assert found[0, 0] == pytest.approx(599 * 600)  # far outside the second image, and still known


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (np.ones((3, 3)), "singular"),
        (np.array([[1.0, 2, 3], [2, 4, 6], [0, 0, 1]]), "singular"),
        (np.zeros((3, 3)), "singular"),
        (np.full((3, 3), np.nan), "3×3 finite numbers"),
        (np.diag([np.inf, 1, 1]), r"\[\[inf, 0.0, 0.0\], \[0.0, 1.0, 0.0\]"),  # as it came
        (np.eye(2), "3×3 finite numbers"),
    ],
)
def test_singular_and_infinite_matrices_are_refused(matrix, said):
    with pytest.raises(InputError, match=said):
        Homography.of(matrix)


def test_large_pictures_are_not_mistaken_for_singular_ones():
    Homography.of(np.array([[0.5, 0.1, 20000], [0.1, 0.5, -30000], [1e-6, 1e-6, 1]]))
    Homography.of(np.diag([1e-3, 1e-3, 1.0]))


def stereo(stored, **told):
    return Disparity(np.asarray(stored), **told)


def test_disparity_is_looked_up_in_the_pixel_of_a_point():
    relation = stereo(np.array([[0, 2, 4], [8, 6, 2]], np.uint8), scale=2.0)
    xy = np.array([[1.0, 0.0], [1.99, 0.99], [2.0, 0.5], [1.5, 1.5], [2.5, 1.0]])
    found, known = relation.truth(xy, (2, 3), (2, 3))
    assert known.tolist() == [True, True, True, False, True]  # 1.5 − 3 leaves the image
    np.testing.assert_allclose(found, [[0, 0], [0.99, 0.99], [0, 0.5], [0, 0], [1.5, 1.0]])


def test_what_disparity_does_not_say_is_not_known():
    stored = np.array([[0, -1, np.nan, np.inf, 9, 1]], np.float32)
    xy = np.column_stack([np.arange(6) + 0.5, np.full(6, 0.5)])
    assert stereo(stored, hole=9).truth(xy, (1, 6), (1, 6))[1].tolist() == [False] * 5 + [True]
    assert stereo(stored, hole=(9, 1)).pixels()[1].sum() == 0
    assert stereo(stored, offset=2.0).pixels()[0].tolist() == [[2, 1, 0, 0, 11, 3]]
    off = np.array([[-0.1, 0.5], [6.0, 0.5], [5.5, 1.0], [5.5, -0.1], [np.nan, 0.5]])
    assert not stereo(stored).truth(off, (1, 6), (1, 6))[1].any()
    assert not stereo(stored).truth(xy, (1, 6), (1, 4))[1].any()  # the second image ends before 4.5


def test_what_something_nearer_hides_is_not_known():
    stored = np.array([[1, 1, 1, 1, 1, 3, 3, 1, 1, 1], [1] * 10], np.uint8)  # a pole before a wall
    xy = np.column_stack([np.arange(10) + 0.5, np.full(10, 0.5)])
    found, known = stereo(stored).truth(xy, (2, 10), (2, 10))
    assert np.flatnonzero(~known).tolist() == [0, 3, 4]  # 0 leaves the image; the pole is seen at 2 and 3
    assert found[5:7, 0].tolist() == [2.5, 3.5]
    assert (
        stereo(stored).truth(xy + np.array([0, 1]), (2, 10), (2, 10))[1].sum() == 9
    )  # nothing stands before the next row
    slanted = np.arange(10)[None] / 2 + 1
    assert stereo(slanted).truth(xy, (1, 10), (1, 10))[1].sum() == 9
    holes = np.where(stored == 3, 0, stored)
    assert stereo(holes).truth(xy, (2, 10), (2, 10))[1].sum() == 7


@given(st.integers(0, 99))
def test_hidden_points_are_those_of_a_slow_search(seed):
    stored = np.random.default_rng(seed).integers(0, 6, (3, 12))
    y, x = (each.ravel() for each in np.mgrid[:3, :12])
    _, known = stereo(stored).truth(np.column_stack([x + 0.5, y + 0.5]), (3, 12), (3, 12))
    for row, column, seen in zip(y, x, known, strict=True):
        disparity = stored[row, column]
        target = column - disparity
        others = [stored[row, k] for k in range(12) if stored[row, k] and k - stored[row, k] == target]
        assert seen == (disparity > 0 and target >= 0 and max(others) <= disparity + 1)


def test_a_disparity_map_of_another_size_or_kind_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"is 3×2 and the first image 8×6; they have to be of one size"):
        stereo(np.ones((2, 3))).truth(points(), (6, 8), (6, 8))
    with pytest.raises(InputError, match=r"has the scale 0\.0"):
        stereo(np.ones((2, 3)), scale=0.0)
    Image.new("RGB", (3, 2)).save(tmp_path / "colours.png")
    Image.new("P", (3, 2)).save(tmp_path / "palette.png")
    Image.new("L", (3, 2)).save(tmp_path / "lossy.jpg")
    for name, said in (("colours.png", "one number"), ("palette.png", "palette"), ("lossy.jpg", "with loss")):
        with pytest.raises(InputError, match=said):
            Disparity(tmp_path / name, name=name).pixels()


def test_maps_as_their_files_have_them(tmp_path, save):
    stored = np.arange(1, 7, dtype=np.uint16).reshape(2, 3) * 256
    paths = [save(tmp_path / f"kitti.{ending}", stored) for ending in ("png", "npy", "tif")]
    floats = (stored / 256).astype("<f4")
    (tmp_path / "middlebury.pfm").write_bytes(b"Pf\n3 2\n-1.0\n" + floats[::-1].tobytes())
    for path in paths:
        assert (Disparity(path, scale=256.0).pixels()[0] == floats).all()
    assert (Disparity(tmp_path / "middlebury.pfm").pixels()[0] == floats).all()


def test_digests_know_all_that_could_change_an_answer(tmp_path, save):
    marks = Keypoints(np.zeros((2, 2)), np.ones((2, 2)), np.ones(2, bool), 5.0)
    path, other = save(tmp_path / "a.npy", np.ones((2, 3))), save(tmp_path / "b.npy", np.full((2, 3), 2.0))
    told = [
        Homography(np.eye(3)),
        Homography.of(GRAF),
        Homography.of(GRAF, "edge"),
        *(
            Disparity(path, **each)
            for each in ({}, {"scale": 2.0}, {"offset": 1.0}, {"hole": 1}, {"key": "d"})
        ),
        Disparity(other),
        marks,
        *(replace(marks, **each) for each in ({"extent": 6.0}, {"category": "cat"}, {"first": marks.second})),
        replace(marks, visible=np.array([True, False])),
    ]
    assert len({relation.digest for relation in told}) == len(told)
    assert replace(marks, extent=np.float64(5)).digest == marks.digest
    copied = save(tmp_path / "copy.npy", np.ones((2, 3)))
    assert Disparity(copied, name="another").digest == Disparity(path).digest


def test_keypoints_have_to_be_points():
    two = np.zeros((2, 2))
    with pytest.raises(InputError, match="shapes"):
        Keypoints(two, two[:1], np.ones(2, bool), 1.0)
    with pytest.raises(InputError, match="no finite number"):
        Keypoints(two, np.full((2, 2), np.nan), np.array([True, False]), 1.0)
    with pytest.raises(InputError, match=r"the extent 0\.0"):
        Keypoints(two, two, np.ones(2, bool), 0.0)
    Keypoints(two, np.array([[0, 0], [np.nan, 0]]), np.array([True, False]), 1.0)


XML = """<?xml version="1.0"?>
<opencv_storage>
<other type_id="opencv-matrix"><rows>1</rows><cols>2</cols><dt>d</dt><data>1. 2.</data></other>
<H13 type_id="opencv-matrix">
  <rows>3</rows>
  <cols>3</cols>
  <dt>d</dt>
  <data>
    {}</data></H13>
</opencv_storage>
"""
YAML = """%YAML:1.0
---
other: !!opencv-matrix
   rows: 1
   cols: 2
   dt: d
   data: [ 1., 2. ]
H13: !!opencv-matrix
   rows: 3
   cols: 3
   dt: d
   data: [ {} ]
"""


def test_homographies_as_files_have_them(tmp_path):
    values = [repr(float(each)) for each in GRAF.ravel()]
    files = {
        "text": "\n".join(" ".join(values[i : i + 3]) for i in (0, 3, 6)) + "\n",
        "commas.csv": "\ufeff" + ",\n".join(values),
        "H.xml": XML.format("\n   ".join(values)),
        "H.yml": YAML.format(",\n     ".join(values)),
    }
    np.save(tmp_path / "H.npy", GRAF)
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    for name in [*files, "H.npy"]:
        assert read_homography(tmp_path / name, "index").digest == Homography.of(GRAF).digest, name
        assert homography_of(name, tmp_path, "here", "edge").digest == Homography(GRAF).digest, name
    for cell in (" ".join(values), "; ".join(values), str(GRAF.tolist()), GRAF.tolist(), GRAF):
        assert homography_of(cell, tmp_path, "here", "index").digest == Homography.of(GRAF).digest


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1 0 0 0 1 0 0 0", "holds 8 numbers; a homography is nine numbers"),
        ("1 0 0 0 1 0 0 0 one", "something that is no number"),
        ("", "holds 0 numbers"),
        ("1 0 0 0 1 0 0 0 0", "H: the homography .* is singular"),
        ("1 0 0 0 1 0 0 0 nan", "H: a homography is 3×3 finite numbers"),
        (XML.format("1 2 3"), "H, H13 holds 3 numbers"),
        (XML.format("1 2 x"), "no number"),
        (
            XML.replace("<rows>1</rows><cols>2", "<rows>3</rows><cols>3"),
            "holds 2 such matrices .other of 3×3, H13 of 3×3. and should",
        ),
        ("<opencv_storage></opencv_storage>", "holds 0 such matrices .none."),
        ("<opencv", "no XML"),
    ],
)
def test_files_without_a_homography_are_refused(tmp_path, text, said):
    (tmp_path / "H").write_text(text)
    with pytest.raises(InputError, match=said):
        read_homography(tmp_path / "H", "index")


def test_cells_without_a_homography_are_refused(tmp_path):
    for cell, said in (
        ("1 2 3", "here holds 3 numbers"),
        ("H_1_9", "here holds 'H_1_9', which are neither numbers nor a file below"),
        ("", "here holds 0 numbers"),
        ([[1, 2], [3]], "here holds"),
        (None, "here holds None"),
    ):
        with pytest.raises(InputError, match=said):
            homography_of(cell, tmp_path, "here", "index")
    (tmp_path / "H").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"neither text nor \.npy"):
        homography_of("H", tmp_path, "here", "index")


def test_numbers_between_whatever_separates_them():
    assert numbers("[[1, -2.5e-1; 3.]\n(4)") == [1, -0.25, 3, 4]
    assert numbers("1 2px") is None


def marked(tmp_path, text, origin="index"):
    (tmp_path / "marks").write_text(text)
    return read_keypoints(tmp_path / "marks", origin, "cat")


def test_keypoints_with_a_box(tmp_path):
    text = '{"first": [[1, 2], [3, 4]], "second": [[5, 6], [7.5, 8]], "box": [1, 2, 11, 32]}'
    keypoints, boxed = marked(tmp_path, text)
    assert boxed
    assert keypoints.first.tolist() == [[1.5, 2.5], [3.5, 4.5]]
    assert keypoints.second.tolist() == [[5.5, 6.5], [8, 8.5]]
    assert (keypoints.extent, keypoints.category, keypoints.visible.tolist()) == (30, "cat", [True, True])
    assert marked(tmp_path, text, "edge")[0].second.tolist() == [[5, 6], [7.5, 8]]


def test_without_a_box_the_visible_points_give_the_extent(tmp_path):
    text = (
        '{"first": [[1, 2], [3, 4], null], "second": [[5, 6], [7, 16], [9, 99]], "visible": [1, true, false]}'
    )
    with pytest.raises(InputError, match="pairs of numbers"):
        marked(tmp_path, text)
    keypoints, boxed = marked(tmp_path, text.replace(", null]", ", [null, null]]"))
    assert not boxed
    assert keypoints.extent == 10
    assert keypoints.visible.tolist() == [True, True, False]
    assert keypoints.second[2].tolist() == [0, 0]  # what is not visible says nothing


def test_keypoints_of_a_table(tmp_path):
    keypoints, boxed = marked(tmp_path, "y2,x1,visible,Y1,x2\n6,1,1,2,5\n16,3,true,4,7\n,,0,,\n")
    assert not boxed
    assert keypoints.first[:2].tolist() == [[1.5, 2.5], [3.5, 4.5]]
    assert keypoints.visible.tolist() == [True, True, False]
    with pytest.raises(InputError, match="has the columns x1, y1 and no x2, y2"):
        marked(tmp_path, "x1,y1\n1,2\n")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[1, 2]", "holds a list; it should hold"),
        ('{"first": []}', "holds first; it should hold"),
        ("{", "no JSON"),
        (
            '{"first": [[1, 2]], "second": [[1, 2], [3, 4]]}',
            "has 1 points of the first image, 2 of the second",
        ),
        ('{"first": [[1, 2]], "second": [[1, "x"]]}', "marks, second: there should be pairs of numbers"),
        ('{"first": [[1, 2, 3]], "second": [[1, 2, 3]]}', "marks, first: there should be pairs of numbers"),
        ('{"first": [[1, 2]], "second": [[3, 4]]}', "has no box, and its points in the second image are one"),
        ('{"first": [[1, 2]], "second": [[3, 4]], "box": [5, 5, 5, 5]}', r"has the box \[5, 5, 5, 5\]"),
        ('{"first": [[1, 2]], "second": [[3, 4]], "box": [5, 5]}', r"has the box \[5, 5\]; it should be"),
        ('{"first": [[1, 2]], "second": [[3, 4]], "visible": [false]}', "has no visible keypoint"),
        ('{"first": [[1, 2]], "second": [[3, 4]], "visible": [2]}', "says of a point that it is visible"),
        ('{"first": [[1, 2]], "second": [[null, 4]], "box": [0, 0, 9, 9]}', "marks: a visible keypoint"),
        ('{"first": [], "second": []}', "pairs of numbers|no visible"),
    ],
)
def test_keypoints_that_are_none_are_refused(tmp_path, text, said):
    with pytest.raises(InputError, match=said):
        marked(tmp_path, text)
