"""What a search has done so far: a line of JSON a group of settings, so that a stopped one goes on.

The file stands beside the results and bears the key of all that determines the scores, so another grid, dataset
or backbone is another file.  It is also where a large grid's scores stay: the record names it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from visbench.errors import UsageError
from visbench.record import Record, digest, plain, run_key
from visbench.results import log_of

Setting = Mapping[str, Any]


class Trial(NamedTuple):
    """A setting on one replicate."""

    where: Setting
    setting: Setting
    score: float  # NaN where the fit diverged


class Journal:
    """Scores by place and setting; without a path they are not kept."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._known: dict[str, Trial] = {}
        self._torn = ""
        if path is not None and path.exists():
            self._read(path)

    def get(self, where: Setting, setting: Setting) -> float | None:
        """The score of a setting; NaN where the fit diverged, None where it was not tried."""
        known = self._known.get(_key(where, setting)) if self._known else None
        return None if known is None else known.score

    def add(self, where: Setting, settings: Sequence[Setting], scores: Sequence[float]) -> None:
        """Keep the scores of some settings."""
        if self.path is None:
            return
        rows = [_row(setting, score) for setting, score in zip(settings, scores, strict=True)]
        line = json.dumps({"where": plain(where), "scores": rows}, allow_nan=False)
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with self.path.open("a") as file:
                file.write(f"{self._torn}{line}\n")
        except OSError as error:
            raise UsageError(
                f"scores cannot be kept in {self.path}: {(error.strerror or str(error)).lower()}; mend that and "
                "repeat the command, which goes on from there, or choose another file with --results, or --no-results"
            ) from error
        self._torn = ""
        self._know(where, rows)

    def trials(self, chosen: Setting) -> list[dict[str, Any]]:
        """All it knows, as a finished search tells it: a row a setting, the mean over replicates."""
        found: dict[str, tuple[dict[str, Any], list[float]]] = {}
        for where, setting, score in self._known.values():
            place = {**where, **setting}
            del place["replicate"]
            found.setdefault(digest(place), (place, []))[1].append(score)
        best = digest(chosen)
        return [trial_row(place, scores, chosen=key == best) for key, (place, scores) in found.items()]

    def _know(self, where: Setting, rows: Sequence[Any]) -> None:
        for setting, score in rows:
            trial = Trial(where, setting, math.nan if score is None else float(score))
            self._known[_key(where, setting)] = trial

    def _read(self, path: Path) -> None:
        text = path.read_text()
        self._torn = "\n" if text and not text.endswith("\n") else ""
        for line in text.splitlines():
            try:
                group = json.loads(line)
                self._know(group["where"], group["scores"])
            except (ValueError, KeyError, TypeError):
                continue  # the line a killed process was writing: its settings are tried again


def trial_row(place: Setting, scores: Sequence[float] | np.ndarray, *, chosen: bool) -> dict[str, Any]:
    """A setting as a sweep tells it: where it stands, its mean score and the spread over replicates."""
    spread = float(np.std(scores, ddof=1)) if len(scores) > 1 else None
    return {**place, "score": float(np.mean(scores)), "std": spread, "chosen": chosen}


def journal_path(results: str | Path, record: Record) -> Path:
    """Where the scores of this search are kept: `visbench.sweeps/…` beside `visbench.jsonl`.

    The name holds what determines the scores and the versions that computed them (the present ones of a record that
    is only planned): another version takes none of them up, so a mended probe does not choose by an older one's.
    """
    versions = [record.versions.get(name) or version(name) for name in ("visbench", "jax")]
    log = log_of(results)
    return log.with_name(f"{log.stem}.sweeps") / f"{digest([run_key(record), versions])}.jsonl"


def _row(setting: Setting, score: float) -> list[Any]:
    return [plain(setting), None if math.isnan(score) else float(score)]


def _key(where: Setting, setting: Setting) -> str:
    return digest([where, setting])
