"""Sweeps of the trained linear probe beside a PyTorch loop over the settings, at the same answers.

    python benchmarks/bench_sgd.py [--quick] [--sweeps 10x64 100x16 1000x16] [--epochs 5] [--repeats 3]

20,000 × 384 standardised features with a decaying spectrum and a tenth of the labels wrong; a grid of learning rates
from 1e-4 to 1e-1 and weight decays from 1e-5 to 1e-1; AdamW, batches of 512, the same batches for both. The loop
keeps the features in memory, takes rows by `index_select`, steps with fused AdamW, and uses as many threads as serve
it best. Weights and top1 are compared for every setting the loop was run for; at the largest rates AdamW amplifies
rounding, and two runs in float32 are as far apart as either is from float64. Ours, ours for a single setting and the
loop take turns; medians. Compiling is timed apart. CPU seconds stand beside wall seconds: where other programs run,
compare those.
"""

import argparse
import itertools
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import numpy as np
import torch
from bench_fit import features_like_a_backbones, seconds

from probes import linear

N, D, BATCH = 20_000, 384, 512
KEY = jax.random.key(0)


def grid(settings: int) -> linear.Hparams:
    decays = next(k for k in range(int(np.sqrt(settings)), 0, -1) if settings % k == 0)
    rates = np.logspace(-4, -1, settings // decays)
    pairs = np.array(list(itertools.product(rates, np.logspace(-5, -1, decays))), np.float32)
    return linear.Hparams(pairs[:, 0], pairs[:, 1])


def torch_fit(
    rows: torch.Tensor,
    labels: torch.Tensor,
    orders: list[torch.Tensor],
    rate: float,
    decay: float,
    classes: int,
) -> np.ndarray:
    layer = torch.nn.Linear(rows.shape[1], classes)
    torch.nn.init.zeros_(layer.weight)
    torch.nn.init.zeros_(layer.bias)
    optimiser = torch.optim.AdamW(layer.parameters(), lr=rate, weight_decay=decay, fused=True)
    for order in orders:
        for chosen in order.split(BATCH):
            loss = torch.nn.functional.cross_entropy(
                layer(rows.index_select(0, chosen)), labels.index_select(0, chosen)
            )
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
    return layer.weight.detach().numpy().T


def best_threads(work: Callable[[], Any]) -> int:
    """The number of threads with which the loop is fastest."""
    taken = {}
    for threads in range(1, torch.get_num_threads() + 1):
        torch.set_num_threads(threads)
        work()
        taken[threads] = min(seconds(work)[0][0] for _ in range(3))
    best = min(taken, key=lambda threads: taken[threads])
    torch.set_num_threads(best)
    return best


def bench(n: int, classes: int, settings: int, epochs: int, repeats: int, looped: int) -> None:
    features, labels = features_like_a_backbones(n, D, classes)
    hparams = grid(settings)
    options: Any = {"num_classes": classes, "key": KEY, "epochs": epochs, "batch_size": BATCH}
    sweep = partial(linear.path, features, labels, hparams, **options)
    single = partial(linear.path, features, labels, linear.Hparams(), **options)

    valid = np.ones(n, bool)
    orders = [torch.tensor(np.asarray(linear.epoch_order(KEY, e, valid))).long() for e in range(epochs)]
    fit = partial(torch_fit, torch.tensor(features), torch.tensor(labels).long(), orders, classes=classes)
    threads = best_threads(partial(fit, rate=1e-2, decay=1e-4))
    places = np.unique(np.linspace(0, settings - 1, looped).astype(int))

    def loop() -> list[np.ndarray]:
        return [
            fit(rate=float(hparams.learning_rate[i]), decay=float(hparams.weight_decay[i])) for i in places
        ]

    first, _ = seconds(sweep)
    seconds(single)
    times: dict[str, list[np.ndarray]] = {"ours": [], "one": [], "loop": []}
    for _ in range(repeats):
        taken, found = seconds(sweep)
        times["ours"].append(taken)
        times["one"].append(seconds(single)[0])
        taken, references = seconds(loop)
        times["loop"].append(taken * settings / len(places))
    ours, one, theirs = (np.median(times[name], axis=0) for name in ("ours", "one", "loop"))
    apart, top1s = [], []
    for i, reference in zip(places, references, strict=True):
        weight = np.asarray(found.weight[i])
        apart.append(np.linalg.norm(weight - reference) / np.linalg.norm(reference))
        top1s.append([((features @ w).argmax(1) == labels).mean() for w in (weight, reference)])
    off = np.abs(np.diff(top1s)).max()
    steps = epochs * -(-n // BATCH)
    print(f"{classes} classes × {settings} settings, {epochs} epochs ({steps} steps)")
    print(
        f"  ours {ours[0]:.2f} s ({ours[1]:.2f} CPU, {ours[0] / steps * 1e3:.2f} ms a step); "
        f"{first[0] - ours[0]:.1f} s more to compile at first"
    )
    print(
        f"  torch, {threads} thread(s), {len(places)} of the settings run: {theirs[0]:.2f} s ({theirs[1]:.2f} CPU): "
        f"×{theirs[0] / ours[0]:.1f} wall, ×{theirs[1] / ours[1]:.1f} CPU"
    )
    print(f"  one setting {one[0]:.2f} s: all take ×{ours[0] / one[0]:.1f} wall, ×{ours[1] / one[1]:.1f} CPU")
    print(
        f"  weights apart by {np.median(apart):.1e} of their norm, at most {max(apart):.1e}; top1 by at most {off:.4f}",
        flush=True,
    )
    assert np.median(apart) < 1e-3
    assert off < 1e-2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one repeat")
    parser.add_argument(
        "--sweeps", nargs="+", default=["10x64", "100x16", "1000x16"], help="classes x settings"
    )
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument(
        "--looped", type=int, default=16, help="settings the loop is run for; its time is scaled"
    )
    options = parser.parse_args()
    n, repeats = (N // 10, 1) if options.quick else (N, options.repeats)
    for sweep in options.sweeps:
        classes, settings = map(int, sweep.split("x"))
        bench(n, classes, settings, options.epochs, repeats, min(options.looped, settings))


if __name__ == "__main__":
    main()
