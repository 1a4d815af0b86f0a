"""Tables of pairs of images, and what is told from a layout."""

import json

import numpy as np
import pytest

from extract.datasets.pairs import looks_related, open_pairs, open_related
from extract.datasets.relations import Disparity, Homography, Keypoints
from extract.errors import InputError
from extract.images import read_image

IDENTITY = "1 0 0 0 1 0 0 0 1"


@pytest.fixture
def table(tmp_path, save, photo):
    """`table(text)`: a table beside pictures 0.png … 3.png and the disparity map d.png, all of 8×6 pixels."""
    for seed in range(4):
        save(tmp_path / "views" / f"{seed}.png", photo(seed))
    save(tmp_path / "d.png", np.full((6, 8), 2, np.uint8))

    def write(text, name="pairs.csv"):
        (tmp_path / name).write_text(text)
        return tmp_path / name

    return write


def relations(images):
    return images.groups.truth["relation"]


def test_pairs_with_homographies(table, photo):
    text = (
        f"image_1,image_2,homography\nviews/2.png,views/0.png,{IDENTITY}\n views/2.png,./views/1.png,H.txt\n"
    )
    table("1 0 1\n0 1 0\n0 0 1\n", "H.txt")
    splits = open_pairs(table(text))
    assert list(splits) == ["all"]
    images = splits["all"]
    assert (images.name, images.split) == ("pairs", None)
    assert images.names == ("views/2.png", "views/0.png", "views/1.png")  # each file once
    assert images.groups.members.tolist() == [[0, 1], [0, 2]]
    assert images.groups.names == ("pairs.csv, row 1", "pairs.csv, row 2")
    assert images.groups.noun == "pair"
    assert images.groups.params == {
        "table": "pairs.csv",
        "image_columns": ["image_1", "image_2"],
        "relation": "homography",
        "relation_column": "homography",
        "origin": "index",
    }
    (found,), _ = relations(images)[1].truth(np.array([[2.0, 3.0]]), (6, 8), (6, 8))
    assert found.tolist() == [3, 3]
    assert (read_image(images.sources[2], name="1").pixels == photo(1)).all()
    assert [folder.name for folder in images.folders] == ["views"]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("first", "second"),
        ("Source", "TARGET"),
        ("left", "right"),
        ("img1", "img2"),
        ("src", "trg"),
        (" path_1", "path_2"),
    ],
)
def test_columns_by_name_in_any_order(table, first, second):
    text = f"{second}\thomography\tnote\t{first}\nviews/1.png\t{IDENTITY}\tx\tviews/0.png\n"
    images = open_pairs(table(text, "pairs.tsv"))["all"]
    assert images.names == ("views/0.png", "views/1.png")


def test_columns_that_are_called_otherwise(table):
    data = table(f"a,b,image_1,image_2,M\nviews/1.png,views/0.png,x,y,{IDENTITY}\n")
    assert not looks_related(table(f"a,b,M\nviews/1.png,views/0.png,{IDENTITY}\n", "other.csv"))
    told = {"first": "A", "second": "b", "homography": "M"}
    assert open_pairs(data, columns=told)["all"].names == ("views/1.png", "views/0.png")
    assert looks_related(data, told)
    with pytest.raises(InputError, match="has no column 'c'; it has a, b, image_1"):
        open_pairs(data, columns={"first": "c"})
    with pytest.raises(
        InputError, match="no part 'third' for a column to play; parts are first, second, homography"
    ):
        open_pairs(data, columns={"third": "a"})
    with pytest.raises(InputError, match="'a' cannot be both images"):
        open_pairs(data, columns={"first": "a", "second": "a", "homography": "M"})


def test_splits_and_categories(table):
    text = "image_1,image_2,homography,split,category\n" + "".join(
        f"views/{i}.png,views/{i + 1}.png,{IDENTITY},{split},{kind}\n"
        for i, (split, kind) in enumerate([("test", "v"), ("train", "i"), ("test", "i")])
    )
    splits = open_pairs(table(text), name="walls")
    assert list(splits) == ["train", "test"]
    test = splits["test"]
    assert (test.name, test.split) == ("walls", "test")
    assert test.names == ("views/0.png", "views/1.png", "views/2.png", "views/3.png")
    assert splits["train"].names == ("views/1.png", "views/2.png")
    assert splits["train"].groups.members.tolist() == [[0, 1]]
    assert test.groups.truth["category"].tolist() == ["v", "i"]
    assert test.groups.names == ("pairs.csv, row 1", "pairs.csv, row 3")
    with pytest.raises(InputError, match="row 1, names the split 'dev'"):
        open_pairs(table(text.replace("test", "dev")))


def test_stereo_pairs(table):
    images = open_pairs(table("left,right,disparity\nviews/0.png,views/1.png,d.png\n"), disparity_scale=2.0)[
        "all"
    ]
    found, known = relations(images)[0].truth(np.array([[4.0, 3.0], [0.5, 3.0]]), (6, 8), (6, 8))
    assert found[0].tolist() == [3, 3]
    assert known.tolist() == [True, False]
    assert images.groups.params["disparity_scale"] == 2
    assert (
        open_pairs(table("left,right,disparity\nviews/0.png,views/1.png,d.png\n"))["all"].groups.params[
            "disparity_scale"
        ]
        == 1
    )


def test_stereo_pairs_say_row_by_row_what_their_numbers_mean(table):
    text = "left,right,disparity,disparity_scale,disparity_hole\n" + "".join(
        f"views/0.png,views/1.png,d.png,{scale},{hole}\n" for scale, hole in (("4", ""), ("", "2"))
    )
    images = open_pairs(table(text))["all"]
    (one, two), here = relations(images), np.array([[4.0, 3.0]])
    assert one.truth(here, (6, 8), (6, 8))[0].tolist() == [[3.5, 3]]
    assert not two.truth(here, (6, 8), (6, 8))[1].any()
    assert "disparity_scale" not in images.groups.params
    with pytest.raises(InputError, match="has a column disparity_scale, and it was told, too"):
        open_pairs(table(text), disparity_scale=2.0)
    with pytest.raises(InputError, match="row 1, column disparity_scale holds 'four'; it should be a number"):
        open_pairs(table(text.replace("d.png,4", "d.png,four")))
    with pytest.raises(InputError, match=r"d.png \(pairs.csv, row 1\) has the scale 0.0"):
        open_pairs(table(text.replace("d.png,4", "d.png,0")))


def test_stereo_pairs_have_to_fit(table, tmp_path, save, photo):
    save(tmp_path / "small.png", np.ones((3, 4), np.uint8))
    with pytest.raises(InputError, match=r"small.png \(pairs.csv, row 1\) is 4×3 and the first image 8×6"):
        open_pairs(table("left,right,disparity\nviews/0.png,views/1.png,small.png\n"))
    save(tmp_path / "high.png", photo(5, height=7))
    with pytest.raises(InputError, match="is 6 pixels high and the second image 7"):
        open_pairs(table("left,right,disparity\nviews/0.png,high.png,d.png\n"))
    with pytest.raises(
        InputError, match=r"row 1, column disparity holds 'e\.png', which is not a file below"
    ):
        open_pairs(table("left,right,disparity\nviews/0.png,views/1.png,e.png\n"))
    with pytest.raises(InputError, match="no disparity maps, so disparity_scale would say nothing"):
        open_pairs(table(f"left,right,homography\nviews/0.png,views/1.png,{IDENTITY}\n"), disparity_scale=2.0)


def test_keypoints(table, tmp_path):
    (tmp_path / "a.json").write_text(json.dumps({"first": [[1, 2]], "second": [[3, 4]], "box": [0, 0, 4, 2]}))
    (tmp_path / "b.csv").write_text("x1,y1,x2,y2\n0,0,1,1\n7,5,6,1\n")
    text = "first,second,keypoints,category\n"
    rows = ["views/0.png,views/1.png,a.json,cat\n", "views/0.png,views/2.png,b.csv,dog\n"]
    images = open_pairs(table(text + "".join(rows)))["all"]
    one, two = relations(images)
    assert isinstance(one, Keypoints)
    assert (one.extent, one.category, two.extent, two.category) == (4, "cat", 5, "dog")
    assert one.second.tolist() == [[3.5, 4.5]]
    assert images.groups.params["extent"] == "box, or points where there is none"
    assert open_pairs(table(text + rows[0]))["all"].groups.params["extent"] == "box"
    assert open_pairs(table(text + rows[1]))["all"].groups.params["extent"] == "points"
    (tmp_path / "b.csv").write_text("x1,y1,x2,y2\n0,0,1,1\n7,5,6,9\n")
    with pytest.raises(
        InputError, match=r"b.csv marks the point \(6.5, 9.5\), outside views/2.png, which is 8×6"
    ):
        open_pairs(table(text + rows[1]))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("image_1,image_2,homography\n", "has no rows"),
        (
            "image_1,homography\nviews/0.png,1\n",
            "has the columns image_1, homography and none of the second images",
        ),
        ("a,b,homography\nviews/0.png,views/1.png,1\n", "none of the first images; call the two image_1 and"),
        ("image_1,image_2\nviews/0.png,views/1.png\n", "has the columns image_1, image_2; to say how"),
        (
            "image_1,image_2,homography,keypoints\nviews/0.png,views/1.png,1,2\n",
            "both of the columns homography and",
        ),
        (
            "left,right,first,second,homography\na,b,c,d,1\n",
            "columns first and left, which could both be the first",
        ),
        (
            f"left,right,homography\nviews/0.png,views/9.png,{IDENTITY}\n",
            "row 1, column right names 'views/9.png', which",
        ),
        (f"left,right,homography\nviews/0.png,,{IDENTITY}\n", "row 1, column right names ''"),
        (
            f"left,right,homography\n8,9,{IDENTITY}\n",
            "'8', which cannot be found, nor can 1 other; paths are relative",
        ),
        (
            "left,right,homography\nviews/0.png,views/1.png,1 2 3\n",
            "row 1, column homography holds 3 numbers",
        ),
        (
            "left,right,homography\nviews/0.png,views/1.png,1 2 x\n",
            "row 1, column homography holds '1 2 x', which are neither",
        ),
        (
            "left,right,homography\nviews/0.png,views/1.png,0 0 0 0 0 0 0 0 0\n",
            "row 1, column homography: the homography",
        ),
        (
            "left,right,keypoints\nviews/0.png,views/1.png,\n",
            "row 1, column keypoints holds '', which is not a file",
        ),
    ],
)
def test_tables_that_are_none_are_refused(table, text, said):
    with pytest.raises(InputError, match=said):
        open_pairs(table(text))


def test_other_files_are_refused(tmp_path):
    for data in (tmp_path, tmp_path / "none.csv", tmp_path / "pairs.txt"):
        with pytest.raises(InputError, match=r"is no table of pairs; wanted is a file ending in \.csv"):
            open_pairs(data)


def test_a_parquet_file_may_hold_its_images(table, tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table("")
    encoded = [(tmp_path / "views" / f"{i}.png").read_bytes() for i in range(2)]
    columns = {
        "image_1": [{"bytes": encoded[0], "path": None}] * 2,
        "image_2": [{"bytes": each, "path": None} for each in encoded],
        "homography": [np.eye(3).ravel().tolist()] * 2,
    }
    parquet.write_table(pyarrow.table(columns), tmp_path / "pairs.parquet")
    assert looks_related(tmp_path / "pairs.parquet")
    images = open_pairs(tmp_path / "pairs.parquet")["all"]
    assert images.names == ("image 0", "image 1")
    assert images.groups.members.tolist() == [[0, 0], [0, 1]]
    assert images.sources[1] == encoded[1]
    assert images.folders == ()
    columns["image_1"][0] = {"bytes": None, "path": "views/3.png"}
    parquet.write_table(pyarrow.table(columns), tmp_path / "pairs.parquet")
    with pytest.raises(InputError, match="holds some images itself and names files for others"):
        open_pairs(tmp_path / "pairs.parquet")


def test_pairs_in_memory(photo, tmp_path, save):
    one, two, path = photo(0), photo(1), save(tmp_path / "views" / "0.png", photo(2))
    same = Homography(np.eye(3))
    images = open_pairs([(one, two, same), (two, str(path), Disparity(np.ones((6, 8)))), (path, one, same)])[
        "all"
    ]
    assert images.names == ("image 0", "image 1", str(path))
    assert images.groups.members.tolist() == [[0, 1], [1, 2], [2, 0]]
    assert images.groups.params == {"relation": ["disparity", "homography"]}
    assert images.folders == (tmp_path / "views",)
    marks = Keypoints(np.zeros((1, 2)), np.ones((1, 2)), np.ones(1, bool), 5.0)
    with pytest.raises(InputError, match="disparity and keypoints; keypoints are scored otherwise"):
        open_pairs([(one, two, marks), (one, two, Disparity(np.ones((6, 8))))])
    for data in ([], [(one, two)], [(one, two, np.eye(3))], 3.0):
        with pytest.raises(InputError, match="pairs are a table, or a list of"):
            open_pairs(data)


def test_which_data_are_pairs(table, tmp_path, photo):
    (tmp_path / "images.csv").write_text("path,label\nviews/0.png,a\n")
    others = (tmp_path, tmp_path / "images.csv", tmp_path / "none", tmp_path / "d.png", [photo(0)], photo(0))
    for data in others:
        assert not looks_related(data)
        with pytest.raises(InputError, match=r"the layouts of pairs are: a table .* SPair-71k .* HPatches"):
            open_related(data)
    with pytest.raises(InputError, match="none does not exist"):
        open_related(tmp_path / "none")
    data = table(f"left,right,homography\nviews/0.png,views/1.png,{IDENTITY}\n")
    assert looks_related(str(data))
    assert open_related(data, disparity_scale=None, origin="edge")["all"].groups.params["origin"] == "edge"
    assert open_related([(photo(0), photo(1), Homography(np.eye(3)))], name="two").name == "two"
    with pytest.raises(InputError, match="exactly one of homography, disparity, keypoints, depth"):
        open_related(table("left,right\nviews/0.png,views/1.png\n"))
