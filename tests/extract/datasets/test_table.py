"""CSV, TSV and Parquet tables of images."""

import io
from pathlib import Path

import pytest
from PIL import Image

from extract.datasets import open_dataset
from extract.errors import InputError, MissingExtraError
from extract.images import read_image


def table(folder: Path, text: str, name: str = "photos.csv", encoding: str = "utf-8") -> Path:
    """A table and one-colour pictures 0.png … 5.png beside it."""
    for i in range(6):
        Image.new("RGB", (2, 2), (i, 0, 0)).save(folder / f"{i}.png")
    (folder / name).write_bytes(text.encode(encoding))
    return folder / name


def red(images, i: int) -> int:
    return int(read_image(images.sources[i], name=images.names[i]).pixels[0, 0, 0])


def test_path_label_and_split(tmp_path):
    text = "path,label,split\n3.png,cat,train\n0.png,dog,Train\n1.png,dog,valid\n2.png,,test\n"
    splits = open_dataset(table(tmp_path, text))
    assert list(splits) == ["train", "val", "test"]
    assert splits.classes == ("cat", "dog")
    assert splits["train"].labels.tolist() == [0, 1]
    assert splits["train"].names == ("3.png", "0.png")
    assert [red(splits["train"], i) for i in range(2)] == [3, 0]
    assert splits["val"].labels.tolist() == [1]
    assert splits["test"].labels is None
    assert splits["train"].name == "photos"
    assert splits["train"].params == {"table": "photos.csv", "image_column": "path", "label_column": "label"}


def test_headers_in_any_case_order_and_separator(tmp_path):
    expected = ("0.png", "1.png")
    for text in ("Class;FileName\nb;0.png\na;1.png\n", "\ufeffCLASS\tImage\r\nb\t0.png\r\na\t1.png\r\n"):
        images = open_dataset(table(tmp_path, text))["all"]
        assert images.names == expected
        assert images.labels.tolist() == [1, 0]


def test_columns_by_name(tmp_path):
    data = table(tmp_path, "url,path,image,kind,fold\nx,0.png,9.png,b,test\ny,1.png,8.png,a,test\n")
    with pytest.raises(InputError, match="columns path and image; choose one with --image-column"):
        open_dataset(data)
    images = open_dataset(data, image_column="Path", label_column="kind", split_column="fold")["test"]
    assert images.names == ("0.png", "1.png")
    assert images.labels.tolist() == [1, 0]
    with pytest.raises(InputError, match=r"no column 'knd'; it has url, path, image, kind, fold"):
        open_dataset(data, image_column="path", label_column="knd")
    with pytest.raises(InputError, match=r"has the columns url, kind; name the one of paths"):
        open_dataset(table(tmp_path, "url,kind\nx,a\n"))


def test_no_labels_at_all(tmp_path):
    assert open_dataset(table(tmp_path, "path\n0.png\n"))["all"].labels is None


def test_integer_labels_and_missing_ones(tmp_path):
    images = open_dataset(table(tmp_path, "path,label\n0.png,9\n1.png,0\n2.png,5\n3.png,-1\n4.png,\n"))["all"]
    assert images.classes == ("0", "5", "9")
    assert images.labels.tolist() == [2, 0, 1, -1, -1]
    assert images.unlabelled == 2


@pytest.mark.parametrize("separator", [";", "|", ","])
def test_several_labels_a_cell(tmp_path, separator):
    text = f'path,labels\n0.png,"sea{separator} sky"\n1.png,sky\n2.png,\n'
    images = open_dataset(table(tmp_path, text))["all"]
    assert images.multilabel
    assert images.classes == ("sea", "sky")
    assert images.labels.tolist() == [[1, 1], [0, 1], [0, 0]]
    assert images.counts.tolist() == [1, 2]


def test_a_column_a_class(tmp_path):
    data = table(tmp_path, "path,sky,sea\n0.png,1,0\n1.png,1,1\n2.png,0,0\n")
    images = open_dataset(data, label_column=["sky", "sea"])["all"]
    assert images.classes == ("sky", "sea")
    assert images.labels.tolist() == [[1, 0], [1, 1], [0, 0]]
    with pytest.raises(InputError, match="row 2, column sea holds '2'; it should be 0 or 1"):
        open_dataset(table(tmp_path, "path,sea\n0.png,1\n1.png,2\n"), label_column=["sea"])


def test_odd_names(tmp_path):
    for name in ('a "b", c.png', "new\nline.png", "写真.png", " lead.png"):
        Image.new("RGB", (2, 2)).save(tmp_path / name)
    text = 'path\n"a ""b"", c.png"\n"new\nline.png"\n写真.png\n lead.png\n'
    images = open_dataset(table(tmp_path, text))["all"]
    assert images.names == ('a "b", c.png', "new\nline.png", "写真.png", " lead.png")
    assert all(images.sources[i].exists() for i in range(4))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (
            "path,label\n0.png,a\n7.png,b\n8.png,b\n",
            r"names 3 files, of which 2 cannot be found, the first '7\.png'",
        ),
        ("path,label\n0.png,a\n1.png\n", "row 2 has 1 cell under 2 column names"),
        ("path,label\n", "has no rows"),
        ("", "is empty"),
        ("path,path\n0.png,1.png\n", "two columns of the same name"),
        ("path,label\n0.png,a\n0.png,b\n", r"lists 0\.png twice"),
        ("path,label\n0.png,0.25\n", None),
        ("path,split\n0.png,fold1\n", r"row 1, names the split 'fold1'; splits are train, val and test"),
    ],
)
def test_what_is_refused(tmp_path, text, reason):
    if reason is None:  # text of a table is a name, even if it looks like a measure
        assert open_dataset(table(tmp_path, text))["all"].classes == ("0.25",)
        return
    with pytest.raises(InputError, match=reason):
        open_dataset(table(tmp_path, text))


def test_a_table_of_another_encoding(tmp_path):
    with pytest.raises(InputError, match="is not UTF-8"):
        open_dataset(table(tmp_path, "path,label\n0.png,é\n", encoding="latin-1"))


def test_parquet(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    table(tmp_path, "")
    columns = {"image_path": ["1.png", "0.png"], "Label": [5, None], "split": ["train", "train"]}
    parquet.write_table(arrow.table(columns), tmp_path / "t.parquet")
    images = open_dataset(tmp_path / "t.parquet")["train"]
    assert images.classes == ("5",)
    assert images.labels.tolist() == [0, -1]
    assert red(images, 0) == 1
    lists = {"path": ["1.png", "0.png"], "tags": [["b", "a"], []]}
    parquet.write_table(arrow.table(lists), tmp_path / "l.parquet")
    images = open_dataset(tmp_path / "l.parquet", label_column="tags")["all"]
    assert images.labels.tolist() == [[1, 1], [0, 0]]


def test_parquet_that_holds_its_images(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    cells = []
    for i in range(3):
        stream = io.BytesIO()
        Image.new("RGB", (2, 2), (i, 0, 0)).save(stream, "PNG")
        cells.append({"bytes": stream.getvalue(), "path": f"{i}.png"})
    parquet.write_table(arrow.table({"image": cells, "label": [1, 0, 1]}), tmp_path / "t.parquet")
    images = open_dataset(tmp_path / "t.parquet")["all"]
    assert images.names == ("image 0", "image 1", "image 2")
    assert [red(images, i) for i in range(3)] == [0, 1, 2]
    assert images.labels.tolist() == [1, 0, 1]


def test_parquet_needs_pyarrow(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "t.parquet").touch()
    with pytest.raises(MissingExtraError, match=r"reading t\.parquet needs pyarrow: pip install pyarrow"):
        open_dataset(tmp_path / "t.parquet")


def test_a_damaged_parquet(tmp_path):
    pytest.importorskip("pyarrow")
    (tmp_path / "t.parquet").write_bytes(b"PAR1 no more than that")
    with pytest.raises(InputError, match="is no Parquet file"):
        open_dataset(tmp_path / "t.parquet")


def test_blanks_around_cells_and_after_separators(tmp_path):
    for text in (
        "path,label,split\n 0.png , a , train \n",
        'path, label, split\n"0.png", "a", "train"\n,,\n',
    ):
        images = open_dataset(table(tmp_path, text))["train"]
        assert images.names == ("0.png",)
        assert images.classes == ("a",)


def test_one_label_each_is_one_label_whatever_the_column_is_called(tmp_path):
    images = open_dataset(table(tmp_path, "path,labels\n0.png,sea\n1.png,sky\n2.png,\n"))["all"]
    assert not images.multilabel
    assert images.labels.tolist() == [0, 1, -1]


@pytest.mark.parametrize("kind", ["bytes", "encoded", "path"])
def test_a_parquet_file_holds_images_or_names_them(tmp_path, kind):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table(tmp_path, "")
    encoded = [(tmp_path / f"{i}.png").read_bytes() for i in range(3)]
    cells = {
        "bytes": encoded,
        "encoded": [{"bytes": each, "path": "lost.png"} for each in encoded],
        "path": [{"bytes": None, "path": f"{i}.png"} for i in range(3)],
    }[kind]
    parquet.write_table(pyarrow.table({"image": cells, "label": ["a", "b", "a"]}), tmp_path / "x.parquet")
    images = open_dataset(tmp_path / "x.parquet")["all"]
    assert [red(images, i) for i in range(3)] == [0, 1, 2]
    assert images.names[1] == ("1.png" if kind == "path" else "image 1")
    parquet.write_table(pyarrow.table({"image": [encoded[0], None]}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match="holds some images itself"):
        open_dataset(tmp_path / "x.parquet")
