from pathlib import Path

import pytest

from extract.errors import InputError
from extract.store import Store
from extract.store.kv import Place


@pytest.mark.parametrize(
    "location", ["file://{}/a b", "file://{}/a%20b", "{}/a b", "file://localhost{}/a%20b/"]
)
def test_a_path_with_spaces_is_one_place(tmp_path, identity, ids_of, fill, location):
    store = Store(location.format(tmp_path))
    fill(store, [1, 2])
    assert (tmp_path / "a b" / identity.digest / "spec.json").is_file()
    assert Store(tmp_path / "a b").present(identity.digest, ids_of([1, 2])).all()
    assert store.url == str(tmp_path / "a b")


def test_an_odd_path_is_taken_as_it_is(tmp_path, identity, ids_of, fill):
    place = tmp_path / "100% ünï?#\n😀"
    fill(Store(place), [1])
    assert Store(str(place)).present(identity.digest, ids_of([1])).all()
    assert (place / identity.digest).is_dir()


def test_memory_is_shared_by_name(identity, ids_of, fill):
    fill(Store("memory://one"), [1])
    assert Store("memory://one").present(identity.digest, ids_of([1])).all()
    assert not Store("memory://on").present(identity.digest, ids_of([1])).any()
    assert Store("memory://one").clear() == [identity.digest]
    assert not Store("memory://one").identities()


def test_relative_paths_and_home(tmp_path, monkeypatch, identity, fill):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert Place("features").folder == tmp_path / "features"
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    fill(Store("../features"), [1])
    assert (tmp_path / "features" / identity.digest).is_dir()
    assert Store("../features").url == str(tmp_path / "features")
    assert Place("~/features").folder == tmp_path / "home" / "features"


def test_the_default_is_the_users_cache(tmp_path, monkeypatch):
    for name in ("VISBENCH_STORE", "VISBENCH_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert Place().folder.name == "store"
    assert tmp_path in Place().folder.parents
    monkeypatch.setenv("VISBENCH_CACHE", str(tmp_path / "cache"))
    assert Place().folder == tmp_path / "cache" / "store"
    monkeypatch.setenv("VISBENCH_STORE", "memory://chosen")
    assert Store().url == "memory://chosen"


def test_buckets(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    assert Place("s3://lab/features/").spec == {"driver": "s3", "bucket": "lab", "path": "features/"}
    assert Place("s3://lab").spec == {"driver": "s3", "bucket": "lab", "path": ""}
    assert Place("gs://lab/a/b").spec == {"driver": "gcs", "bucket": "lab", "path": "a/b/"}
    assert Place("gs://lab/a/b").kvstore("x/")["path"] == "a/b/x/"
    assert Place("s3://lab/features/").url == "s3://lab/features"
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://localhost:9000")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    spec = Place("s3://lab/x").spec
    assert (spec["endpoint"], spec["aws_region"]) == ("http://localhost:9000", "eu-west-1")


@pytest.mark.parametrize(
    ("location", "says"),
    [
        ("http://host/x", "not http://"),
        ("file://relative/x", "absolute path"),
        ("memory://", "names no place"),
        ("s3:///x", "names no place"),
        ("file://", "absolute path"),
    ],
)
def test_other_locations_are_refused(location, says):
    with pytest.raises(InputError, match=says):
        Place(location)


def test_a_file_is_no_store(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        Place(Path(tmp_path / "file"))
