"""BSDS500: both nestings, pairs, .mat files good and bad, and boundaries in the frame of a backbone."""

import numpy as np
import pytest
from scipy.io import savemat

from extract.datasets.bsds import BoundaryReader, find_bsds, open_bsds
from extract.errors import InputError
from extract.maps.frame import Frame


def cell(*boundaries):
    """The annotators as MATLAB keeps them: a cell of structs."""
    people = np.empty((1, len(boundaries)), object)
    for place, marks in enumerate(boundaries):
        people[0, place] = {"Segmentation": np.ones_like(marks, np.uint16), "Boundaries": marks}
    return people


def lines(height=6, width=8, *columns):
    marks = np.zeros((height, width), np.uint8)
    marks[:, list(columns)] = 1
    return marks


@pytest.fixture
def make(save, photo):
    """`make(folder, train="a b", val="c")`: pictures of 6×8 with two annotators each."""

    def write(folder, **splits):
        for split, stems in splits.items():
            for number, stem in enumerate(stems.split()):
                save(folder / f"images/{split}/{stem}.jpg", photo(number))
                path = folder / f"groundTruth/{split}/{stem}.mat"
                path.parent.mkdir(parents=True, exist_ok=True)
                savemat(path, {"groundTruth": cell(lines(6, 8, 3), lines(6, 8, 3, 5))})
        return folder

    return write


@pytest.mark.parametrize("nested", ["", "data", "BSDS500/data", "BSR/BSDS500/data"])
def test_splits_wherever_the_archive_was_unpacked(make, tmp_path, nested):
    folder = make(tmp_path / "bsds" / nested, train="b a", test="c")
    splits = open_bsds(tmp_path / "bsds")
    assert find_bsds(tmp_path / "bsds") == folder
    assert list(splits) == ["train", "test"]
    assert splits["train"].names == ("images/train/a.jpg", "images/train/b.jpg")
    targets = splits["train"].targets
    assert targets.names == ("groundTruth/train/a.mat", "groundTruth/train/b.mat")
    assert targets.reader.kind == "boundaries"
    marks = targets.read(1)
    assert (marks.shape, marks.dtype) == ((6, 8, 2), bool)
    assert marks.sum((0, 1)).tolist() == [6, 12]
    assert splits["test"].sources[0] == folder / "images/test/c.jpg"


def test_the_name_is_that_of_the_dataset_not_of_its_folder_of_data(make, tmp_path):
    make(tmp_path / "BSR/BSDS500/data", train="a")
    assert open_bsds(tmp_path / "BSR").name == "BSDS500"


@pytest.mark.parametrize(
    ("gone", "words"),
    [
        ("groundTruth/train/a.mat", "1 image without a map.*a"),
        ("images/train/a.jpg", "1 map without an image.*a"),
    ],
)
def test_what_lacks_its_other_side_is_named(make, tmp_path, gone, words):
    make(tmp_path, train="a b")
    (tmp_path / gone).unlink()
    with pytest.raises(InputError, match=words):
        open_bsds(tmp_path)


def test_a_split_needs_both_folders(make, tmp_path, save, photo):
    make(tmp_path, train="a")
    save(tmp_path / "images/val/b.jpg", photo(0))
    with pytest.raises(InputError, match="has images/val but no groundTruth/val"):
        open_bsds(tmp_path)


def test_another_layout_is_refused_with_the_wanted_one(tmp_path):
    with pytest.raises(InputError, match=r"groundTruth/train/a\.mat"):
        open_bsds(tmp_path)


def test_damaged_files_are_named(tmp_path):
    good, bad = tmp_path / "good.mat", tmp_path / "bad.mat"
    savemat(good, {"groundTruth": cell(lines(60, 80, 3))}, do_compression=True)
    content = good.read_bytes()
    for broken in (b"", b"text", content[:200], content[: len(content) // 2], content[:-1]):
        bad.write_bytes(broken)
        with pytest.raises(InputError, match=r"bad\.mat"):
            BoundaryReader().read((bad,), "bad.mat")
    with pytest.raises(InputError, match=r"gone\.mat cannot be read"):
        BoundaryReader().read((tmp_path / "gone.mat",), "gone.mat")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"other": np.ones(3)}, "holds no groundTruth"),
        ({"groundTruth": np.ones((3, 3))}, "no cell of structs"),
        ({"groundTruth": cell()}, "nobody"),
        ({"groundTruth": cell(lines(), lines(5, 8))}, r"\(5, 8\).*\(6, 8\)"),
        ({"groundTruth": cell(np.ones((6, 8)) * 0.5)}, "float64"),
    ],
)
def test_other_content_is_refused(tmp_path, content, words):
    path = tmp_path / "a.mat"
    savemat(path, content)
    with pytest.raises(InputError, match=words):
        BoundaryReader().read((path,), "a.mat")


@pytest.mark.parametrize(
    ("height", "width", "size"), [(60, 91, 16), (91, 60, 16), (33, 33, 32), (16, 20, 16), (10, 12, 32)]
)
def test_a_frame_pixel_holds_whoever_marked_a_pixel_in_it(height, width, size):
    marks = np.random.default_rng(0).random((height, width, 3)) < 0.1
    placed = BoundaryReader().place(marks, Frame(size))
    assert (placed.shape, placed.dtype) == ((size, size), np.float32)
    box = Frame(size).crop_box(height, width)
    y, x = np.mgrid[box.rows, box.columns]
    cell_of = np.stack(np.meshgrid(box.row_positions, box.column_positions, indexing="ij"))
    for i, j in np.random.default_rng(1).integers(0, size, (40, 2)):
        inside = (np.floor(cell_of[0] + 0.5) == i) & (np.floor(cell_of[1] + 0.5) == j)
        if inside.any():  # else the frame is finer than the picture
            assert placed[i, j] == pytest.approx(marks[y[inside], x[inside]].any(0).mean())


def test_a_thin_line_stays_whole():
    for turned in (False, True):
        marks = np.zeros((321, 481, 1), bool)
        marks[:, 240] = True
        marks = marks.swapaxes(0, 1) if turned else marks
        placed = BoundaryReader().place(marks, Frame(224))
        assert placed.sum() == 224
        assert (placed.sum(0 if turned else 1) == 1).all()
