"""What a search has done so far: a line of JSON a group of settings, so that a stopped one goes on.

The file stands beside the results and bears the key of all that determines the scores, so another grid, dataset
or backbone is another file.  It is also where a large grid's scores stay: the record names it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from visbench.record import digest, plain
from visbench.results import log_of

Setting = Mapping[str, Any]


class Journal:
    """Scores by place and setting; without a path they are not kept."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path
        self._known: dict[str, float] = {}
        self._torn = ""
        if path is not None and path.exists():
            self._read(path)

    def get(self, where: Setting, setting: Setting) -> float | None:
        """The score of a setting; NaN where the fit diverged, None where it was not tried."""
        return self._known.get(_key(where, setting)) if self._known else None

    def add(self, where: Setting, settings: Sequence[Setting], scores: Sequence[float]) -> None:
        """Keep the scores of some settings."""
        if self.path is None:
            return
        rows = [_row(setting, score) for setting, score in zip(settings, scores, strict=True)]
        line = json.dumps({"where": plain(where), "scores": rows}, allow_nan=False)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(f"{self._torn}{line}\n")
        self._torn = ""
        for row in rows:
            self._known[_key(where, row[0])] = math.nan if row[1] is None else row[1]

    def _read(self, path: Path) -> None:
        text = path.read_text()
        self._torn = "\n" if text and not text.endswith("\n") else ""
        for line in text.splitlines():
            try:
                group = json.loads(line)
                for setting, score in group["scores"]:
                    self._known[_key(group["where"], setting)] = math.nan if score is None else float(score)
            except (ValueError, KeyError, TypeError):
                continue  # the line a killed process was writing: its settings are tried again


def journal_path(results: str | Path, key: str) -> Path:
    """Where the scores of the search with this key are kept: `visbench.sweeps/…` beside `visbench.jsonl`."""
    log = log_of(results)
    return log.with_name(f"{log.stem}.sweeps") / f"{key}.jsonl"


def _row(setting: Setting, score: float) -> list[Any]:
    return [plain(setting), None if math.isnan(score) else float(score)]


def _key(where: Setting, setting: Setting) -> str:
    return digest([where, setting])
