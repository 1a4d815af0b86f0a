from pathlib import Path

import pytest

from extract.datasets.places import image_folders


@pytest.mark.parametrize(
    ("paths", "folders"),
    [
        (["img/a.jpg", "img/cat/b.jpg"], ["/t/img"]),
        (["data/img/cat/a.jpg", "data/img/dog/b.jpg"], ["/t/data/img"]),
        (["train/cat/a.jpg", "test/cat/b.jpg"], ["/t/test/cat", "/t/train/cat"]),
        (["a.jpg", "b.jpg"], []),
        (["a.jpg", "extra/b.jpg"], ["/t/extra"]),
        (["../photos/cat/a.jpg", "../photos/dog/b.jpg"], ["/photos"]),
        (["../a.jpg"], []),  # the table's folder lies among them, and other things with it
        (["/one/x/a.jpg", "/two/y/b.jpg"], ["/one/x", "/two/y"]),
        (["/one/x/a.jpg", "/one/x/../y/b.jpg"], ["/one"]),
        ([], []),
    ],
)
def test_the_folders_of_images(paths, folders):
    assert image_folders(paths, Path("/t")) == tuple(map(Path, folders))


def test_paths_without_a_table_are_relative_to_where_we_are(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert image_folders(["a.jpg"]) == ()
    assert image_folders(["cat/a.jpg"]) == (tmp_path / "cat",)
    assert image_folders([f"{tmp_path}/cat/a.jpg", f"{tmp_path}/dog/b.jpg"]) == (
        tmp_path / "cat",
        tmp_path / "dog",
    )
