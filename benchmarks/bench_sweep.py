"""A sweep as a whole process on stored features: several backbones × layers × taps × 64 settings of two probes.

    python benchmarks/bench_sweep.py PHOTOS [--backbone NAME[=CHECKPOINT] …] [--layers=-4,-3,-2,-1]

Uses the caches in use (VISBENCH_CACHE, VISBENCH_STORE), where the features must be: `visbench extract` puts them there.
The same sweep runs in two new processes; programs that the second had to compile are counted.  `logistic` tries
64 values of C, `linear` 8 learning rates × 8 weight decays for 20 epochs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

import visbench
from extract.requests import Request

GRIDS = {
    "logistic": {"C": np.logspace(-6, 4, 64)},
    "linear": {"lr": np.logspace(-4, -1, 8), "weight_decay": [0, *np.logspace(-5, -2, 7)]},
}


def sweep(ask: argparse.Namespace) -> None:
    requests = [Request(name, checkpoint=file or None) for name, _, file in map(parts, ask.backbone)]
    layers = [int(layer) for layer in ask.layers.split(",")]
    more = {"epochs": 20, "train_batch_size": 512} if ask.inner == "linear" else {}
    reading = {"layer": layers, "tap": ["cls", "mean"]}
    swept = visbench.sweep(
        requests,
        "classification",
        ask.data,
        probe=ask.inner,
        grid={**reading, **GRIDS[ask.inner]},
        extract=False,
        **more,
    )
    print(swept.board())
    print(f"{len(swept.trials):,} settings")
    assert "torch" not in sys.modules


def parts(text: str) -> tuple[str, str, str]:
    return text.partition("=")


def programs(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("*-cache")}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data")
    parser.add_argument("--backbone", action="append")
    parser.add_argument("--layers", default="-4,-3,-2,-1")
    parser.add_argument("--inner", choices=GRIDS, help=argparse.SUPPRESS)
    ask = parser.parse_args()
    ask.backbone = ask.backbone or ["efficientnet_lite0", "efficientnet_lite1"]
    if ask.inner:
        sweep(ask)
        return
    for probe in GRIDS:
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "JAX_COMPILATION_CACHE_DIR": folder}
            counts = []
            for turn in ("first", "second"):
                began = time.perf_counter()
                command = [sys.executable, *sys.argv, f"--inner={probe}"]
                done = subprocess.run(command, env=environment, capture_output=True, text=True)
                if done.returncode:
                    sys.exit(done.stdout + done.stderr)
                counts.append(len(programs(Path(folder))))
                print(f"{probe}, {turn} process: {time.perf_counter() - began:.1f} s")
            print(done.stdout)
            print(f"programs compiled: {counts[0]}, then {counts[1] - counts[0]} more")


if __name__ == "__main__":
    main()
