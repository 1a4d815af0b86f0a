"""Results files joined into one: their records, each once, and the scores of samples that these were made of."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from visbench import results, samples
from visbench.errors import UsageError
from visbench.record import Record, written
from visbench.replacing import replacing


@dataclass(frozen=True)
class Merged:
    """How many records came from where."""

    out: Path
    taken: dict[Path, int]  # new with this file
    known: dict[Path, int]  # in an earlier file, or in the output, already


def merge(files: Sequence[str | Path], out: str | Path, *, append: bool = False) -> Merged:
    """Write the records of `files` to `out`, oldest first; what is the same to the last digit is written once.

    Inputs are left as they are.  An output that exists is refused, unless records are to be added to it.
    """
    out, paths = Path(out), list(dict.fromkeys(map(Path, files)))
    _check(out, paths, append)
    seen = {record.to_json() for record in results.read(out, missing_ok=True)} if append else set()
    taken, known, fresh = dict.fromkeys(paths, 0), dict.fromkeys(paths, 0), list[tuple[Record, Path]]()
    for path in paths:
        for record in results.read(path):
            line = record.to_json()
            (known if line in seen else taken)[path] += 1
            if line not in seen:
                seen.add(line)
                fresh.append((record, path))
    fresh.sort(key=lambda each: written(each[0]))
    for record, path in fresh:  # before the records, which promise them
        _copy_samples(record, samples.folder_of(path), samples.folder_of(out))
    results.append(out, [record for record, _ in fresh])
    return Merged(out, taken, known)


def _check(out: Path, paths: Sequence[Path], append: bool) -> None:
    logs = [results.log_of(path) for path in paths]
    if results.log_of(out).resolve() in {path.resolve() for path in (*logs, *paths)} or out in paths:
        raise UsageError(
            f"{out} is one of the files to merge, which are left as they are; name another with -o"
        )
    for there in (out, results.log_of(out)):
        if there.exists() and not append:
            raise UsageError(f"{there} is there already; --append adds to it, -o names another file")
    results.check_writable(out)


def _copy_samples(record: Record, source: Path, target: Path) -> None:
    """The scores of every sample of `record` and whose they are, where they are kept.

    They are named by their content, so what is there already is the same.  `zarr.json` comes last: it makes them count.
    """
    if record.samples is None or not record.samples.isalnum():
        return
    metadata = source / "scores" / record.samples / "zarr.json"
    if not metadata.is_file():  # moved without them
        return
    ids = str(json.loads(metadata.read_bytes()).get("attributes", {}).get("ids"))
    chunks = [path for path in metadata.parent.rglob("*") if path.is_file() and path != metadata]
    for path in (source / "ids" / ids, *chunks, metadata):
        if path.is_file():
            _copy(path, target / path.relative_to(source))


def _copy(source: Path, target: Path) -> None:
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    with replacing(target) as draft:
        shutil.copyfile(source, draft)
