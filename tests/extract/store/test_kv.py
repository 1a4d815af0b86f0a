import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from extract.errors import InputError
from extract.store import Store, StoreError
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


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            'PERMISSION_DENIED: Failed to create directory: "/ro/s\\x00spec.json": Read-only file system '
            "[os_error_code='30']",
            "Read-only file system; choose another place with --store",
        ),
        (
            'RESOURCE_EXHAUSTED: Error writing local file "/full/c/0/0": Failed writing: "/full/c/0/0.__lock": '
            "Failed to write 227736 bytes to file 4: No space left on device [os_error_code='28']",
            "No space left on device; free some space, or choose another place with --store",
        ),
        (
            "PERMISSION_DENIED: Failed while listing: \"/root/x\": Permission denied [os_error_code='13']",
            "Permission denied; change its permissions, or choose another place with --store",
        ),
        ("PERMISSION_DENIED: HTTP response code: 403 [body='<xml>']", "access is denied; check its address"),
        ("UNAVAILABLE: CURL error: Couldn't connect [a='b']", "it does not answer; check its address"),
        ("INTERNAL: something odd [source locations='x.cc:1']", "INTERNAL: something odd; check its address"),
    ],
)
def test_what_a_library_says_becomes_one_clear_sentence(raised, said):
    with pytest.raises(StoreError) as told, Place("memory://x").telling("read"):
        raise ValueError(raised)
    assert str(told.value).startswith(f"the feature store memory://x could not be read: {said}")
    assert "[" not in str(told.value)
    assert str(told.value).endswith("--store")
    assert str(told.value.__cause__) == raised  # --debug shows it


def test_what_the_system_says_becomes_the_same(tmp_path, monkeypatch, fill):
    store = Store(tmp_path)
    fill(store, [1])

    def refused(path, missing_ok):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(Path, "unlink", refused)
    with pytest.raises(
        StoreError, match="could not be changed: Permission denied; change its permissions, or"
    ):
        store.clear()


@pytest.mark.parametrize(
    ("flag", "said"),
    [(os.ST_RDONLY, "Read-only file system; choose another"), (0, "Permission denied; change its perm")],
)
def test_where_nothing_could_be_kept_is_known_at_once(tmp_path, monkeypatch, flag, said):
    Store(tmp_path / "not" / "yet" / "there").refuse_unwritable()
    Store("memory://anywhere").refuse_unwritable()
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path)
    monkeypatch.setattr(os, "statvfs", lambda path: SimpleNamespace(f_flag=flag))
    with pytest.raises(StoreError, match=f"could not be written: {said}"):
        Store(tmp_path / "not" / "yet" / "there").refuse_unwritable()
    (tmp_path / "file").write_text("")
    with pytest.raises(
        StoreError, match="Not a directory; check the path, or choose another place with --store"
    ):
        Store(tmp_path / "file" / "store").refuse_unwritable()


def test_a_folder_that_may_not_even_be_looked_at(tmp_path, monkeypatch):
    def refused(self):
        raise PermissionError(13, "Permission denied", str(self))

    monkeypatch.setattr(Path, "exists", refused)
    monkeypatch.setattr(Path, "is_dir", refused)
    assert Store(tmp_path / "x").free_bytes() > 0
