"""Where nothing may be written: among the images, and nowhere else."""

from __future__ import annotations

import pytest

from extract.errors import InputError
from visbench import results


def table(photos, path, relative=True):
    """A table of the images, beside them or anywhere else."""
    path.parent.mkdir(exist_ok=True)
    files = sorted(photos.rglob("*.png"))
    named = [file.relative_to(path.parent) if relative else file for file in files]
    rows = [
        f"{name},{file.parent.name},{file.parent.parent.name}"
        for name, file in zip(named, files, strict=True)
    ]
    path.write_text("\n".join(["path,label,split", *rows]))
    return path


def paths(photos):
    files = {split: sorted((photos / split).rglob("*.png")) for split in ("train", "test")}
    return {split: (each, [file.parent.name for file in each]) for split, each in files.items()}


def torchvision_folders(photos):
    from torchvision.datasets import ImageFolder

    return {split: ImageFolder(photos / split) for split in ("train", "test")}


DATA = {
    "folder": lambda photos: photos,
    "table beside": lambda photos: table(photos, photos.parent / "photos.csv"),
    "table elsewhere": lambda photos: table(photos, photos.parent / "tables" / "photos.csv", relative=False),
    "paths": paths,
    "torchvision": torchvision_folders,
}


@pytest.mark.parametrize("data", DATA.values(), ids=DATA)
@pytest.mark.parametrize("inside", ["train/cat", "train/cat/store", "test/owl/deep/store"])
def test_a_place_among_the_images_is_refused(run, photos, data, inside):
    given = data(photos)
    with pytest.raises(InputError, match=r"lies in the data folder .*photos.*--store"):
        run(given, store=photos / inside)
    with pytest.raises(ValueError, match=r"lies in the data folder .*photos.*--results"):
        run(given, results=photos / inside / "results.jsonl")


@pytest.mark.parametrize("inside", ["", "store", "train/store"])
def test_a_folder_is_data_with_all_that_is_in_it(run, photos, inside):
    with pytest.raises(InputError, match=r"lies in the data folder .*--store"):
        run(photos, store=photos / inside)
    with pytest.raises(ValueError, match=r"lies in the data folder .*--results"):
        run(photos, results=photos / inside / "results.jsonl")


@pytest.mark.parametrize("name", ["table beside", "table elsewhere", "paths", "torchvision"])
def test_beside_a_table_or_a_folder_there_is_room(run, photos, tmp_path, name):
    given = DATA[name](photos)
    for place in (tmp_path, tmp_path / "tables"):
        run(given, store=place / "store", results=place / "results.jsonl", C=1.0)
        assert len(results.read(place / "results.jsonl")) == 1


def test_a_table_among_its_images_leaves_room_beside_them(run, photos):
    cat = photos / "train"
    run(table(cat, cat / "photos.csv"), store=cat / "store", task="retrieval", split="train")


def test_the_one_folder_of_all_images_is_theirs(run, photos):
    """A store between the class folders would be read as a class by whoever opens their folder."""
    for name in ("table beside", "table elsewhere"):
        with pytest.raises(InputError, match="lies in the data folder"):
            run(DATA[name](photos), store=photos / "store")


def test_what_is_written_elsewhere_is_fine_with_the_place_above(run, photos, tmp_path):
    run(photos, store=tmp_path / "photos-features", C=1.0)
