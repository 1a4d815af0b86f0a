"""The main job as a whole process: cold (nothing stored), then warm (everything stored).

    python benchmarks/bench_run.py DATA [--backbone efficientnet_lite0] [--peer PYTHON]     photos of yours
    python benchmarks/bench_run.py --synthetic                                               10,000 rows × 384, warm

With --peer the older tool of peer_visbench.py takes turns, in its own environment, whose Python is named.  Importing
JAX is timed alone: no warm run goes below it.  Cold is a fresh store, memo and compilation cache.  --synthetic makes
10,000 tiny PNGs and gives a ViT-S of random weights 32 pixels of each, so that its cold run, too, is short.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WARM = 3  # repeats

SMALL = ["timm:vit_small_patch16_224", "--random-weights", "--image-size", "32"]  # 384 dims, quick


def timed(command: list[str], environment: dict[str, str]) -> tuple[float, str]:
    began = time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return seconds, done.stdout


def pictures(folder: Path, count: int, classes: int = 10) -> Path:
    from PIL import Image

    rng = np.random.default_rng(0)
    means = rng.integers(60, 196, (classes, 8, 8, 3))
    for number in range(count):
        label = number % classes
        where = folder / ("test" if number // classes % 5 == 0 else "train") / f"class{label}"
        where.mkdir(parents=True, exist_ok=True)
        pixels = np.clip(means[label] + rng.normal(0, 60, (8, 8, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(where / f"{number:05}.png")
    return folder


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("data", nargs="?", type=Path)
    parser.add_argument("--backbone", default="efficientnet_lite0")
    parser.add_argument("--synthetic", action="store_true")
    parser.add_argument("--peer", metavar="PYTHON", help="of an environment that has visbench==0.27.0")
    ask = parser.parse_args()
    with tempfile.TemporaryDirectory() as work:
        environment = {**os.environ, "VISBENCH_CACHE": f"{work}/cache", "VISBENCH_STORE": f"{work}/store"}
        data = pictures(Path(work) / "data", 10_000) if ask.synthetic else ask.data
        backbone = SMALL if ask.synthetic else [ask.backbone]
        command = [sys.executable, "-m", "visbench", "run", "classification", str(data), "--backbone"]
        command += [*backbone, "--results", f"{work}/results.jsonl"]
        cold, board = timed(command, environment)
        warm = statistics.median(timed(command, environment)[0] for _ in range(WARM))
        print(board)
        print(f"cold {cold:.1f} s   warm {warm:.2f} s   warm / cold {warm / cold:.3f}")
        jax = statistics.median(
            timed([sys.executable, "-c", "import jax"], environment)[0] for _ in range(WARM)
        )
        print(f"import jax alone {jax:.2f} s")
        if ask.peer:
            peer(ask.peer, data, work, environment, cold, warm)


def peer(python: str, data: Path, work: str, environment: dict[str, str], cold: float, warm: float) -> None:
    command = [python, str(Path(__file__).with_name("peer_visbench.py")), str(data), f"{work}/peer"]
    theirs, said = timed(command, environment)
    again = statistics.median(timed(command, environment)[0] for _ in range(WARM))
    ratios = f"cold {theirs:.1f} s ({theirs / cold:.1f} ×)   warm {again:.2f} s ({again / warm:.1f} ×)"
    print(f"peer: {ratios}   {said.strip()}")


if __name__ == "__main__":
    main()
