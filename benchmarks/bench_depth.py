"""Training the depth probe with its 256 bins, its answers checked; beside it the usual form in PyTorch.

    python benchmarks/bench_depth.py [--quick] [--dims 768] [--stride 1] [--torch]

300 training and 100 scored images of 224 pixels, grids of 16 × 16, 10 epochs in batches of 8, a linear head, AdamW at
5e-4 with a warm-up of 1.5 epochs and a half-cosine: the classic protocol. Depths are smooth maps with a tenth of the
pixels unknown, and linear in the features up to noise. Times are CPU seconds of the whole job, compiling included:
where other programs run they say more than the clock. The loss of a batch and its gradient are compared with the
formula written out at full resolution in 64 bit. `--torch` takes some steps of a 1×1 convolution, `interpolate`,
ReLU + 0.1, division and einsum, the loss as one would write it, and scales their time.
"""

import argparse
import resource
import time
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from probes import resizing
from probes.maps.depth import Depth

SIZE, GRID, BATCH, RATE = 224, 16, 8, 5e-4
TASK = Depth()


def images(n: int, dims: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Grids as a store holds them, and depth maps from 0.5 to 9.5 m that a linear head can find in them."""
    rng = np.random.default_rng(seed)
    coarse = rng.standard_normal((n, GRID, GRID, 4)).astype(np.float32)
    for _ in range(3):  # neighbouring cells are alike
        coarse = (coarse + np.roll(coarse, 1, 1) + np.roll(coarse, 1, 2)) / 3**0.5
    basis = np.random.default_rng(0).standard_normal((4, dims)).astype(np.float32)
    features = np.empty((n, GRID, GRID, dims), np.float16)
    for row, grid in enumerate(coarse):
        features[row] = grid @ basis + rng.standard_normal((GRID, GRID, dims), np.float32)
    weights = resizing.weights(SIZE, GRID)
    fine = np.einsum("nij,Hi,Wj->nHW", coarse[..., 0], weights, weights, optimize=True)
    depths = 5 + 4.5 * np.tanh(fine + 0.1 * rng.standard_normal(fine.shape))
    known = rng.random(fine.shape) > 0.1
    return features, np.where(known, depths, 0).astype(np.float32)


def start(dims: int) -> dict[str, jax.Array]:
    weight = jax.random.normal(jax.random.key(0), (dims, TASK.channels)) / dims**0.5
    return {"weight": weight, "bias": jnp.zeros(TASK.channels)}


def head(params: dict[str, jax.Array], grids: jax.Array) -> jax.Array:
    return grids.astype(jnp.float32) @ params["weight"] + params["bias"]


def batch_loss(params: dict[str, jax.Array], grids: jax.Array, depths: jax.Array, stride: int) -> jax.Array:
    return TASK.loss(TASK.sums(head(params, grids), depths, stride))


def train(
    features: jax.Array, depths: jax.Array, epochs: int, stride: int
) -> tuple[dict[str, jax.Array], list[float]]:
    n = len(depths)
    steps = n // BATCH
    rate = optax.warmup_cosine_decay_schedule(0.0, RATE, int(1.5 * steps), epochs * steps)
    optimiser = optax.adamw(rate, weight_decay=1e-4)

    @partial(jax.jit, donate_argnums=(0, 1))
    def epoch(params: Any, state: Any, order: jax.Array, features: jax.Array, depths: jax.Array) -> Any:
        def step(carry: Any, rows: jax.Array) -> Any:
            params, state = carry
            loss, slopes = jax.value_and_grad(batch_loss)(params, features[rows], depths[rows], stride)
            updates, state = optimiser.update(slopes, state, params)
            return (optax.apply_updates(params, updates), state), loss

        (params, state), losses = jax.lax.scan(step, (params, state), order)
        return params, state, losses.mean()

    params, losses = start(features.shape[-1]), []
    state, rng = optimiser.init(params), np.random.default_rng(0)
    for _ in range(epochs):
        order = rng.permutation(n)[: steps * BATCH].reshape(steps, BATCH)
        params, state, loss = epoch(params, state, jnp.asarray(order), features, depths)
        losses.append(float(loss))
    return params, losses


@jax.jit
def scored(params: dict[str, jax.Array], grids: jax.Array, depths: jax.Array) -> Any:
    return TASK.tally(TASK.predict(head(params, grids), (SIZE, SIZE)), depths)


def score(params: dict[str, jax.Array], features: jax.Array, depths: jax.Array) -> dict[str, float]:
    found = [
        TASK.scores(scored(params, features[at : at + BATCH], depths[at : at + BATCH]))
        for at in range(0, len(depths), BATCH)
    ]
    return {name: float(np.concatenate([part[name] for part in found]).mean()) for name in found[0]}


def direct(raw: np.ndarray, depths: np.ndarray) -> float:
    """The loss written out at full resolution in 64 bit, an image at a time."""
    weights, values = resizing.weights(SIZE, GRID).astype(float), np.linspace(TASK.low, TASK.high, TASK.bins)
    sums = np.zeros(2), np.zeros((2, 4))
    for grid, depth in zip(raw.astype(float), depths.astype(float), strict=True):
        scores = np.maximum(np.einsum("ijk,Hi,Wj->HWk", grid, weights, weights, optimize=True), 0) + 0.1
        predicted = scores @ values / scores.sum(-1)
        known = depth > 0
        error = np.where(known, np.log(predicted + 1e-3) - np.log(np.where(known, depth, 1) + 1e-3), 0)
        sums[0][:] += (error**2).sum(), error.sum()
        for number, stride in enumerate((1, 2, 4, 6)):
            e, k = error[::stride, ::stride], known[::stride, ::stride]
            sums[1][1, number] += k.sum()
            sums[1][0, number] += abs(e[2:] - e[:-2])[k[2:] & k[:-2]].sum()
            sums[1][0, number] += abs(e[:, 2:] - e[:, :-2])[k[:, 2:] & k[:, :-2]].sum()
    count = sums[1][1, 0]
    squares, mean = sums[0] / count
    return 10 * np.sqrt(squares - 0.85 * mean**2) + 0.5 * (sums[1][0] / sums[1][1]).sum()


def check(params: dict[str, jax.Array], grids: jax.Array, depths: jax.Array) -> None:
    raw, depths = np.asarray(head(params, grids)), np.asarray(depths)
    found, slope = jax.value_and_grad(lambda raw: TASK.loss(TASK.sums(raw, depths)))(raw)
    wanted, ours = direct(raw, depths), float(np.linalg.norm(np.asarray(slope, float)))
    step = (
        1e-2 * np.asarray(slope, float) / ours
    )  # steepest, so that the difference is the gradient's own length
    difference = (direct(raw + step, depths) - direct(raw - step, depths)) / 2e-2
    print(
        f"  loss of a batch {float(found):.6f}, in 64 bit {wanted:.6f}; "
        f"gradient {ours:.6f}, by differences {difference:.6f}"
    )
    assert abs(float(found) - wanted) < 1e-4 * wanted
    assert abs(ours - difference) < 1e-2 * difference


def torch_steps(features: np.ndarray, depths: np.ndarray, steps: int) -> tuple[float, float]:
    """CPU seconds of a step, and the loss of the first."""
    import torch

    layer = torch.nn.Conv2d(features.shape[-1], TASK.bins, 1)
    params = start(features.shape[-1])
    with torch.no_grad():
        layer.weight[:, :, 0, 0] = torch.tensor(np.asarray(params["weight"]).T)
        layer.bias.zero_()
    optimiser = torch.optim.AdamW(layer.parameters(), lr=RATE, weight_decay=1e-4)
    values = torch.linspace(TASK.low, TASK.high, TASK.bins)
    times, losses = [], []
    for number in range(steps):
        begun = time.process_time()
        rows = slice(number * BATCH, (number + 1) * BATCH)
        grids = torch.tensor(features[rows]).float().permute(0, 3, 1, 2)
        scores = torch.nn.functional.interpolate(
            layer(grids), (SIZE, SIZE), mode="bilinear", align_corners=False
        )
        shares = torch.relu(scores) + 0.1
        shares = shares / shares.sum(1, keepdim=True)
        predicted, depth = torch.einsum("bkhw,k->bhw", shares, values), torch.tensor(depths[rows])
        known = depth > 0
        difference = torch.log(predicted[known] + 1e-3) - torch.log(depth[known] + 1e-3)
        loss = 10 * (difference.pow(2).mean() - 0.85 * difference.mean().pow(2)).sqrt()
        error = (torch.log(predicted + 1e-3) - torch.log(depth + 1e-3)) * known
        for stride in (1, 2, 4, 6):
            e, k = error[:, ::stride, ::stride], known[:, ::stride, ::stride]
            down = ((e[:, 2:] - e[:, :-2]).abs() * (k[:, 2:] & k[:, :-2])).sum()
            across = ((e[:, :, 2:] - e[:, :, :-2]).abs() * (k[:, :, 2:] & k[:, :, :-2])).sum()
            loss = loss + 0.5 * (down + across) / k.sum()
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        times.append(time.process_time() - begun)
        losses.append(float(loss.detach()))
    return float(np.median(times)), losses[0]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="a tenth of the images, 2 epochs")
    parser.add_argument("--dims", type=int, default=768)
    parser.add_argument(
        "--stride", type=int, default=1, help="train on every so manieth pixel; 4 is our own protocol"
    )
    parser.add_argument("--torch", action="store_true", help="a few steps of the usual form too")
    options = parser.parse_args()
    counts, epochs = ((32, 16), 2) if options.quick else ((300, 100), 10)
    features, depths = images(counts[0], options.dims, 1)
    held, truths = images(counts[1], options.dims, 2)

    begun = time.perf_counter(), time.process_time()
    on_device = jnp.asarray(features), jnp.asarray(depths)
    params, losses = train(*on_device, epochs, options.stride)
    trained = time.perf_counter() - begun[0], time.process_time() - begun[1]
    found = score(params, jnp.asarray(held), jnp.asarray(truths))
    wall, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{counts[0]} / {counts[1]} images, {epochs} epochs, {options.dims} dims, stride {options.stride}: "
        f"{cpu:.1f} CPU seconds ({wall:.1f} s), of which training {trained[1]:.1f}; peak {peak:.0f} MB"
    )
    print(f"  loss of the first epoch {losses[0]:.3f}, of the last {losses[-1]:.3f}")
    print("  " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()))
    check(params, on_device[0][:BATCH], on_device[1][:BATCH])

    if options.torch:
        first = float(batch_loss(start(options.dims), on_device[0][:BATCH], on_device[1][:BATCH], 1))
        steps = epochs * (counts[0] // BATCH)
        each, loss = torch_steps(features, depths, 2 if options.quick else 3)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        print(
            f"torch: {each:.2f} CPU seconds a step, {each * steps:.0f} for {steps}: ×{each * steps / trained[1]:.1f}; "
            f"peak {peak:.0f} MB; first loss {loss:.6f}, ours {first:.6f}"
        )
        assert abs(loss - first) < 1e-4 * loss


if __name__ == "__main__":
    main()
