"""What `visbench doctor` looks at: the installation, the machine, and the places that are written to."""

from __future__ import annotations

import importlib.metadata as metadata
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import visbench
from visbench.console import size

OURS = ("visbench", "extract", "probes")  # import packages; other projects on PyPI bear these names too

INSTALL = "pip install . in the clone of visbench"


class Finding(NamedTuple):
    """One line of the report."""

    topic: str
    name: str
    found: str
    broken: bool = False
    advice: str = ""


def examine(store: str | None = None) -> list[Finding]:
    """Everything, in the order it is printed.  PyTorch and JAX are started to ask for their devices."""
    return [
        Finding("python", platform.python_version(), f"{sys.executable} on {platform.platform(terse=True)}"),
        *our_packages(),
        *requirements(),
        device("torch", torch_devices),
        device("jax", jax_devices),
        *machine(),
        *places(store),
    ]


def our_packages() -> Iterator[Finding]:
    """Each of our import packages must lie beside this one and belong to no other distribution."""
    home = Path(visbench.__file__).resolve().parent.parent
    owners = metadata.packages_distributions()
    for name in OURS:
        spec = find_spec(name)
        if spec is None or spec.origin is None:
            yield Finding("package", name, "missing", True, INSTALL)
            continue
        place = Path(spec.origin).resolve().parent
        strangers = set(owners.get(name, ())) - {"visbench"}
        if place.parent != home or strangers:
            whose = " and ".join(sorted(strangers)) or "another project"
            way_out = f"pip uninstall {' '.join(sorted(strangers)) or name}, then {INSTALL}"
            yield Finding("package", name, f"{place}, which belongs to {whose}", True, way_out)
        else:
            yield Finding("package", name, str(place))


def requirements() -> Iterator[Finding]:
    """The distributions visbench asks for, from its metadata; nothing is imported."""
    from packaging.requirements import Requirement

    try:
        wanted = [Requirement(line) for line in metadata.requires("visbench") or ()]
        extras = metadata.metadata("visbench").get_all("Provides-Extra") or []
    except metadata.PackageNotFoundError:
        yield Finding("package", "visbench", "not installed", True, INSTALL)
        return
    for each in wanted:
        if each.marker is None or each.marker.evaluate({"extra": ""}):
            version = _version(each.name)
            fits = version is not None and each.specifier.contains(version, prereleases=True)
            found = (version or "missing") + ("" if fits else f", wanted {each.specifier}")
            yield Finding("package", each.name, found, not fits, "" if fits else f'pip install "{each}"')
    for extra in extras:
        asked = [
            each.name
            for each in wanted
            if each.marker and each.marker.evaluate({"extra": extra}) and each.name != "visbench"
        ]
        missing = [name for name in asked if _version(name) is None]
        found = f"not installed: {', '.join(missing)}" if missing else "installed"
        advice = f'pip install ".[{extra}]" in the clone of visbench' if missing else ""
        yield Finding("extra", extra, found, advice=advice)


def device(name: str, ask: Callable[[], str]) -> Finding:
    """What a framework says of its devices; an installation can fail to start in any way it likes."""
    try:
        return Finding("device", name, ask())
    except Exception as error:
        said = f"does not start: {type(error).__name__}: {error}".splitlines()[0]
        return Finding("device", name, said, True, f"install {name} anew for this machine")


def torch_devices() -> str:
    """The GPUs PyTorch sees, or its CPU threads."""
    import torch

    if torch.cuda.is_available():
        cards = [torch.cuda.get_device_properties(i) for i in range(torch.cuda.device_count())]
        return ", ".join(f"cuda: {card.name}, {size(card.total_memory)}" for card in cards)
    return "mps" if torch.backends.mps.is_available() else f"cpu, {torch.get_num_threads()} threads"


def jax_devices() -> str:
    """The devices JAX sees."""
    from visbench.runtime import prepare_jax

    prepare_jax()
    import jax

    return ", ".join(dict.fromkeys(f"{each.platform}: {each.device_kind}" for each in jax.devices()))


def machine() -> Iterator[Finding]:
    """Cores and memory this process may use."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup("cpu.max").split()
    limited = f", limited to {int(quota[0]) / int(quota[1]):.3g}" if quota[:1] not in ([], ["max"]) else ""
    threads = os.environ.get("OMP_NUM_THREADS")
    yield Finding(
        "machine", "cores", f"{cores}{limited}" + (f", OMP_NUM_THREADS={threads}" if threads else "")
    )
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    ceiling = _cgroup("memory.max")
    limited = f", limited to {size(int(ceiling))}" if ceiling.isdigit() and int(ceiling) < total else ""
    yield Finding("machine", "memory", size(total) + limited)


def places(store: str | None) -> Iterator[Finding]:
    """The feature store and the memo."""
    from extract.memo import default_path
    from extract.store import Store

    place = Store(store)
    free = place.free_bytes()
    folder = Path(place.url) if free is not None else None
    yield _place("store", place.url, folder, "" if free is None else f", {size(free)} free", "--store")
    memo = default_path()
    yield _place("memo", str(memo), memo.parent, "", "VISBENCH_CACHE")


def _place(name: str, shown: str, folder: Path | None, more: str, option: str) -> Finding:
    if folder is None or _writable(folder):
        return Finding("place", name, shown + more)
    return Finding("place", name, f"{shown}: cannot be written", True, f"name another place with {option}")


def _writable(folder: Path) -> bool:
    """Whether files can be made in `folder`, or in the nearest folder above it that exists."""
    above = next(each for each in (folder, *folder.absolute().parents) if each.exists())
    try:
        tempfile.TemporaryFile(dir=above).close()
    except OSError:
        return False
    return True


def _version(name: str) -> str | None:
    with suppress(metadata.PackageNotFoundError):
        return metadata.version(name)
    return None


def _cgroup(name: str) -> str:
    """A limit of this container; empty where there is none."""
    with suppress(OSError):
        return Path("/sys/fs/cgroup", name).read_text().strip()
    return ""
