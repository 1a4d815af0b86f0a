"""Where a store lies: a folder, or a bucket, seen as keys with bytes.

A location is a path, `file:///a%20path`, `memory://name` (gone with the process, shared by all who name
it), `s3://bucket/prefix` or `gs://bucket/prefix`. An S3 server other than Amazon's is found through
`AWS_ENDPOINT_URL`, as other S3 clients do.
"""

import errno
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import platformdirs
import tensorstore as ts

from extract.errors import InputError
from extract.store.errors import StoreError
from extract.store.trouble import because, explain

# One context for the process, so that all stores share the memory:// driver's contents. Nothing is cached:
# parts are read whole, once, and the system caches files.
CONTEXT = ts.Context({"cache_pool": {"total_bytes_limit": 0}})


class Place:
    """Keys and their bytes under one location. Many keys are read, written or removed at the same time."""

    def __init__(self, location: str | Path | None = None) -> None:
        self.url, self.folder, self.spec = _parse(location or _default())

    @cached_property
    def _kv(self) -> Any:
        with self.telling("opened"):
            return ts.KvStore.open(self.spec, context=CONTEXT).result()

    @contextmanager
    def telling(self, done: str) -> Iterator[None]:
        """Name this place in whatever TensorStore raises, and say it in a sentence."""
        try:
            yield
        except InputError:
            raise
        except (ValueError, OSError, RuntimeError) as error:
            raise StoreError(f"the feature store {self.url} could not be {done}: {explain(error)}") from error

    def keys(self, prefix: str = "") -> list[str]:
        """All keys that begin with `prefix` (a folder, with its slash, or nothing), sorted."""
        within = ts.KvStore.KeyRange(prefix, prefix[:-1] + "0" if prefix else "")  # "0" follows "/"
        with self.telling("listed"):
            return sorted(key.decode(errors="replace") for key in self._kv.list(within).result())

    def read(self, keys: Iterable[str]) -> list[bytes | None]:
        """The bytes of each key, None where there is none."""
        with self.telling("read"):
            results = [future.result() for future in [self._kv.read(key) for key in keys]]
        return [result.value if result.state == "value" else None for result in results]

    def write(self, key: str, value: bytes) -> None:
        """Set a key, all of it or nothing."""
        with self.telling("written"):
            self._kv.write(key, value).result()

    def remove(self, keys: Sequence[str]) -> None:
        """Remove these keys, and what a killed writer left of them; what is gone already is fine."""
        with self.telling("changed"):
            if self.folder is None:
                for future in [self._kv.write(key, None) for key in keys]:
                    future.result()
            else:
                for key in keys:
                    (self.folder / key).unlink(missing_ok=True)
                    (self.folder / f"{key}.__lock").unlink(missing_ok=True)

    def prune(self, prefix: str) -> None:
        """Remove the empty folders under a prefix."""
        for path, _, _ in os.walk(self.folder / prefix, topdown=False) if self.folder is not None else ():
            with suppress(OSError):  # it holds something, or somebody else removed it
                Path(path).rmdir()

    def locks(self, prefix: str) -> list[str]:
        """Files that a killed writer had not finished, which `keys` does not show."""
        if self.folder is None:
            return []
        return [path.relative_to(self.folder).as_posix() for path in (self.folder / prefix).rglob("*.__lock")]

    def kvstore(self, prefix: str) -> dict[str, Any]:
        """The TensorStore spec of what lies under `prefix`."""
        return {**self.spec, "path": self.spec.get("path", "") + prefix}

    def sizes(self, keys: Iterable[str]) -> int | None:
        """Bytes of these files; None in a bucket, which would have to be asked key by key."""
        if self.folder is None:
            return None
        total = 0
        for key in keys:
            with suppress(FileNotFoundError):  # another process may be tidying up
                total += (self.folder / key).stat().st_size
        return total

    def free_bytes(self) -> int | None:
        """Bytes left on the disk that holds the folder; None where that cannot be known."""
        return None if self.folder is None else shutil.disk_usage(_existing(self.folder)).free

    def refuse_unwritable(self) -> None:
        """Stop before anything is computed where nothing could be kept; a bucket is not asked."""
        if self.folder is None:
            return
        nearest = _existing(self.folder)
        if not nearest.is_dir():
            why = errno.ENOTDIR
        elif not os.access(nearest, os.W_OK | os.X_OK):
            why = errno.EROFS if os.statvfs(nearest).f_flag & os.ST_RDONLY else errno.EACCES
        else:
            return
        raise StoreError(f"the feature store {self.url} could not be written: {because(why)}")


def _default() -> str | Path:
    cache = os.environ.get("VISBENCH_CACHE") or platformdirs.user_cache_path("visbench", appauthor=False)
    return os.environ.get("VISBENCH_STORE") or Path(cache) / "store"


def _parse(location: str | Path) -> tuple[str, Path | None, dict[str, Any]]:
    """(url, folder if it is one, kvstore spec) of a location."""
    scheme, _, rest = str(location).partition("://")
    if isinstance(location, Path) or (not rest and "://" not in location):
        return _folder(Path(location))
    if scheme == "file":
        host, slash, path = unquote(rest).partition("/")
        if host not in ("", "localhost") or not slash:
            raise InputError(f"a file:// store is an absolute path, file:///…, but this is {location!r}")
        return _folder(Path(slash + path))
    if scheme not in ("memory", "s3", "gs"):
        raise InputError(
            f"a store is a folder, file://, memory://, s3:// or gs://, not {scheme}:// ({location})"
        )
    bucket, _, path = rest.partition("/")
    if not bucket:
        raise InputError(f"the store {location!r} names no place: a name follows {scheme}://")
    if scheme == "memory":
        return f"memory://{rest}", None, {"driver": "memory", "path": rest.rstrip("/") + "/"}
    path = path.rstrip("/") + "/" if path.strip("/") else ""
    driver = {"driver": "gcs"} if scheme == "gs" else {"driver": "s3", **_s3_server()}
    return f"{scheme}://{bucket}/{path}".rstrip("/"), None, {**driver, "bucket": bucket, "path": path}


def _folder(path: Path) -> tuple[str, Path, dict[str, Any]]:
    path = path.expanduser().resolve()
    if os.path.exists(path) and not os.path.isdir(path):  # noqa: PTH110, PTH112 - theirs ask for permission
        raise InputError(f"the store {path} is a file; it should be a folder, or not exist yet")
    return str(path), path, {"driver": "file", "path": f"{path}/"}


def _existing(folder: Path) -> Path:
    """The folder, or the nearest above it that is there."""
    return next(each for each in (folder, *folder.parents) if os.path.exists(each))  # noqa: PTH110


def _s3_server() -> dict[str, str]:
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION") or "us-east-1"
    return {"endpoint": endpoint, "aws_region": region} if endpoint else {}
