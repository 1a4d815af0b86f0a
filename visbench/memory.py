"""How much memory there is to work with."""

from __future__ import annotations

from pathlib import Path

_PROC = Path("/proc/meminfo")
_GROUP = Path("/sys/fs/cgroup")


def free_bytes() -> int | None:
    """What may be filled before something must give: of the machine or of the container; None where unknown."""
    known = [each for each in (_machine(), _container()) if each is not None]
    return min(known, default=None)


def _machine() -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in _PROC.read_text().splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, LookupError, ValueError):
        return None


def _container() -> int | None:
    try:
        limit = int((_GROUP / "memory.max").read_text())  # "max" where there is none
        return max(0, limit - int((_GROUP / "memory.current").read_text()))
    except (OSError, ValueError):
        return None
