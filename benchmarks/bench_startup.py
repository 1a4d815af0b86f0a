"""How long a person waits before anything happens: whole processes, medians, imports checked.

    python benchmarks/bench_startup.py [--repeats 15]

Targets: `visbench --help` at most 0.3 s, with neither torch nor jax nor numpy imported.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import time

CASES = {
    "python -c pass": "pass",
    "import click": "import click",
    "import visbench": "import visbench",
    "visbench --help": "from visbench.cli import main; main(['--help'])",
    "visbench list tasks": "from visbench.cli import main; main(['list', 'tasks'])",
    "visbench list backbones": "from visbench.cli import main; main(['list', 'backbones'])",
    "visbench cache stats": "from visbench.cli import main; main(['cache', 'stats', '--store', 'memory://empty'])",
}
LIGHT = ("import visbench", "visbench --help")
HEAVY = {"torch", "jax", "numpy"}
TARGET = {"visbench --help": 0.3}


def seconds(code: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    return time.perf_counter() - began


def imported(code: str) -> set[str]:
    """Which heavy packages `code` brings in, in an interpreter of its own."""
    ask = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {code}"
    done = subprocess.run([sys.executable, "-c", ask], check=True, capture_output=True, text=True)
    return HEAVY & set(done.stderr.split())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--repeats", type=int, default=15)
    repeats = parser.parse_args().repeats
    times: dict[str, list[float]] = {name: [] for name in CASES}
    for turn in range(repeats + 1):  # interleaved; the first round warms the file cache
        for name, code in CASES.items():
            taken = seconds(code)
            if turn:
                times[name].append(taken)
    print(f"{'':24}  median s    min s  target  heavy imports")
    failed = False
    for name, taken in times.items():
        median, target = statistics.median(taken), TARGET.get(name)
        heavy = imported(CASES[name])
        failed |= (target is not None and median > target) or (name in LIGHT and bool(heavy))
        print(
            f"{name:24}  {median:8.3f} {min(taken):8.3f}  {target or '':>6}  {', '.join(sorted(heavy)) or 'none'}"
        )
    sys.exit(failed)


if __name__ == "__main__":
    main()
