"""HPatches sequences: the first picture of each beside the others."""

import numpy as np
import pytest

from extract.datasets.hpatches import open_hpatches
from extract.datasets.pairs import looks_related, open_related
from extract.errors import InputError


@pytest.fixture
def hpatches(tmp_path, save, photo):
    """Two sequences of three pictures; the homography to picture k moves by k pixels."""
    root = tmp_path / "hpatches"
    for sequence in ("v_wall", "i_door"):
        for number in (1, 2, 3):
            save(root / sequence / f"{number}.ppm", photo(number))
            if number > 1:
                (root / sequence / f"H_1_{number}").write_text(f"1 0 {number} \n0 1 0 \n0 0 1 \n")
    (root / "README.md").write_text("x")
    (root / "other").mkdir()
    return root


def test_pairs_of_sequences(hpatches):
    assert looks_related(hpatches)
    splits = open_related(hpatches)
    assert list(splits) == ["all"]
    images = splits["all"]
    assert images.name == "hpatches"
    assert images.names == tuple(f"{each}/{i}.ppm" for each in ("i_door", "v_wall") for i in (1, 2, 3))
    assert images.groups.members.tolist() == [[0, 1], [0, 2], [3, 4], [3, 5]]
    assert images.groups.names[1] == "i_door, 1 and 3"
    assert images.groups.truth["category"].tolist() == ["illumination"] * 2 + ["viewpoint"] * 2
    assert images.groups.params == {"layout": "hpatches", "relation": "homography", "origin": "index"}
    assert images.folders == (hpatches,)
    found, known = images.groups.truth["relation"][1].truth(np.array([[1.0, 2.0]]), (6, 8), (6, 8))
    assert found.tolist() == [[4, 2]]
    assert known.all()


def test_the_centre_of_the_first_pixel_is_the_origin(hpatches):
    (hpatches / "v_wall" / "H_1_2").write_text("2 0 0\n0 2 0\n0 0 1\n")
    relation = open_hpatches(hpatches)["all"].groups.truth["relation"][2]
    assert relation.truth(np.array([[0.5, 0.5]]), (6, 8), (6, 8))[0].tolist() == [[0.5, 0.5]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda folder: (folder / "H_1_3").unlink(),
            "of number 3 only the picture; a sequence has pictures 1 … n",
        ),
        (lambda folder: (folder / "3.ppm").unlink(), "of number 3 only the homography H_1_3"),
        (lambda folder: (folder / "1.ppm").unlink(), "has no picture 1"),
        (
            lambda folder: (folder / "3.png").write_bytes(b""),
            "has 3.png and 3.ppm, two pictures of one number",
        ),
        (lambda folder: (folder / "H_1_3").write_text("1 2"), "H_1_3 holds 2 numbers"),
    ],
)
def test_damaged_sequences_are_refused(hpatches, change, said):
    change(hpatches / "v_wall")
    with pytest.raises(InputError, match=said):
        open_hpatches(hpatches)


def test_folders_without_sequences_are_refused(tmp_path):
    with pytest.raises(InputError, match="has no sequence of HPatches, such as v_graffiti"):
        open_hpatches(tmp_path)
