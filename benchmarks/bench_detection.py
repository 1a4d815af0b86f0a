"""The linear detector beside the same loop in PyTorch: an epoch of training, and detections of what it learnt.

    python benchmarks/bench_detection.py [--images 256] [--dims 768] [--repeats 5] [--only train detect]

Grids of 16 × 16 cells in float16, 20 classes, up to 32 boxes an image, of which the features tell a part; batches of 8,
AdamW, the same start, order and schedule for both. PyTorch keeps float32 features in memory and works on whole
batches, with torchvision's losses; the losses and weights of the epoch are compared. Detections are then read by
torchvision's `batched_nms`, image by image, off scores and boxes that a matrix product gives, and compared. What is
compared takes turns; medians. CPU seconds stand beside wall seconds: where other programs run, compare those.
"""

import argparse
from collections.abc import Callable

import jax
import numpy as np
import torch
from bench_dense import kernel, said, turns
from torchvision import ops

from probes import dense
from probes.boxes import EMPTY
from probes.boxes.detection import PRIOR, Detection
from probes.heads import make_head
from visbench.dense import training
from visbench.dense.kinds import KINDS
from visbench.dense.streams import Rowwise, Stream
from visbench.dense.training import Run

GRID, SIZE, CLASSES, BOXES, BATCH, RATE, DECAY = 16, 224, 20, 32, 8, 1e-3, 1e-4
TASK = Detection(CLASSES, SIZE)


def drawn(n: int, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Features and objects; a class adds its own direction to the cells that its boxes cover."""
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((CLASSES, dims)).astype(np.float32)
    features = np.empty((n, GRID, GRID, dims), np.float16)
    target = np.full((n, BOXES, 6), -1, np.float32)
    middle = (np.arange(GRID) + 0.5) * SIZE / GRID
    for image in range(n):
        grid = rng.standard_normal((GRID, GRID, dims), dtype=np.float32)
        count = rng.integers(0, BOXES + 1)
        low = rng.uniform(0, 0.8, (count, 2))
        high = np.minimum(low + rng.uniform(0.05, 0.5, (count, 2)), 1)
        labels = rng.integers(0, CLASSES, count)
        target[image, :count, :4] = np.concatenate([low, high], 1) * SIZE
        target[image, :count, 4], target[image, :count, 5] = labels, 0
        target[image, 0, 5] = 0 if count else EMPTY
        for (x0, y0, x1, y1), label in zip(target[image, :count, :4], labels, strict=True):
            rows, columns = (middle > y0) & (middle < y1), (middle > x0) & (middle < x1)
            grid[np.ix_(rows, columns)] += directions[label] / 4
        features[image] = grid
    return features, target


def run(rate: float = RATE) -> Run:
    program = dense.Program(make_head("linear", channels=TASK.channels), TASK)
    hparams = dense.Hparams(np.array([rate], np.float32), np.array([DECAY], np.float32))
    return Run(program, (0,), hparams, standardize=False)


def trained(stream: Stream, epochs: int = 1, rate: float = RATE) -> Run:
    one = run(rate)
    training.train(stream, [one], np.arange(len(stream)), epochs=epochs, batch=BATCH, seed=0)
    jax.block_until_ready(one.params)
    return one


def places() -> tuple[torch.Tensor, float]:
    """Centres (g², 2) and the stride."""
    middle = (torch.arange(GRID) + 0.5) * SIZE / GRID
    return torch.stack([middle.repeat(GRID), middle.repeat_interleave(GRID)], -1), SIZE / GRID


def torch_boxes(logs: torch.Tensor) -> torch.Tensor:
    middle, stride = places()
    reach = logs.clamp(max=8).exp() * stride
    return torch.cat([middle - reach[..., :2], middle + reach[..., 2:]], -1)


def torch_loss(raw: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Of a batch (b, g², c + 4); plain objects only."""
    middle, _ = places()
    there = target[..., 4] >= 0
    low = middle[None, :, None] - target[:, None, :, :2]
    high = target[:, None, :, 2:4] - middle[None, :, None]
    inside = (torch.minimum(low, high) > 0).all(-1) & there[:, None]
    area = ops.box_area(target[..., :4].reshape(-1, 4)).view(len(target), 1, -1)
    area, which = torch.where(inside, area, torch.inf).min(-1)
    positive = torch.isfinite(area)
    mine = target.gather(1, which[..., None].expand(-1, -1, 6))[positive]
    asked = torch.zeros(*raw.shape[:2], CLASSES)
    asked[positive] = torch.nn.functional.one_hot(mine[:, 4].long(), CLASSES).float()
    exists = there.any(1) | (target[:, 0, 5] == EMPTY)
    classes = ops.sigmoid_focal_loss((raw[..., :CLASSES] + PRIOR)[exists], asked[exists], reduction="sum")
    said = torch_boxes(raw[..., CLASSES:])[positive]
    boxes = ops.generalized_box_iou_loss(said, mine[:, :4], reduction="sum")
    return (classes + 2 * boxes) / positive.sum().clamp(min=1)


def torch_epoch(
    features: np.ndarray, target: np.ndarray, first: dict[str, np.ndarray]
) -> Callable[[], tuple[np.ndarray, float]]:
    """The usual loop, from the same start: the kernel and the mean loss."""
    grids = torch.from_numpy(features.astype(np.float32)).flatten(1, 2)
    objects = torch.from_numpy(target)
    steps = -(-len(grids) // BATCH)
    order = torch.from_numpy(np.random.default_rng([0, 0]).permutation(len(grids)))

    def work() -> tuple[np.ndarray, float]:
        layer = torch.nn.Linear(features.shape[-1], TASK.channels)
        with torch.no_grad():
            layer.weight.copy_(torch.from_numpy(first["kernel"].T.copy()))
            layer.bias.copy_(torch.from_numpy(first["bias"].copy()))
        optimiser = torch.optim.AdamW(layer.parameters(), lr=RATE, weight_decay=DECAY, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(
            optimiser, lambda step: float(dense.schedule(step, steps, steps))
        )
        total = 0.0
        for chosen in order.split(BATCH):
            loss = torch_loss(layer(grids[chosen]), objects[chosen])
            optimiser.zero_grad(set_to_none=True)
            loss.backward()
            optimiser.step()
            schedule.step()
            total += loss.item()
        return layer.weight.detach().numpy().T, total / steps

    return work


def bench_train(features: np.ndarray, target: np.ndarray, repeats: int) -> None:
    stream = Stream([Rowwise([features])], [], Rowwise([target]), KINDS["boxes"], held=True)
    one = run()
    maps = dense.Maps((features[:1],))
    start = dense.init(maps, one.hparams, key=jax.random.key(0), program=one.program)
    (layer,) = start.params.values()
    loop = torch_epoch(features, target, {name: np.asarray(leaf)[0] for name, leaf in layer.items()})
    taken = turns({"torch": loop, "ours": lambda: trained(stream)}, repeats)
    said("one epoch, PyTorch", taken["torch"])
    said("one epoch", taken["ours"], taken["torch"])
    ours, (theirs, loss) = trained(stream), loop()
    assert ours.loss is not None
    apart = float(np.linalg.norm(kernel(ours)["kernel"] - theirs) / np.linalg.norm(theirs))
    print(f"losses {ours.loss[0]:.6f} and {loss:.6f}; weights differ by {apart:.1e} of their norm")
    assert abs(ours.loss[0] / loss - 1) < 1e-4
    assert apart < 1e-3


def torch_detections(features: np.ndarray, layer: dict[str, np.ndarray]) -> Callable[[], list[torch.Tensor]]:
    """(k, 6) of each image."""
    weight, bias = (torch.from_numpy(layer[name].copy()) for name in ("kernel", "bias"))
    grids = torch.from_numpy(features.astype(np.float32)).flatten(1, 2)

    def one(raw: torch.Tensor) -> torch.Tensor:
        scores = torch.sigmoid(raw[:, :CLASSES] + PRIOR).flatten()
        (enough,) = torch.nonzero(scores > TASK.score_threshold, as_tuple=True)
        score, order = scores[enough].sort(descending=True, stable=True)
        place, score = enough[order[: TASK.candidates]], score[: TASK.candidates]
        boxes = torch_boxes(raw[:, CLASSES:]).clamp(0, SIZE)[place // CLASSES]
        kept = ops.batched_nms(boxes, score, place % CLASSES, TASK.nms_iou)[: TASK.max_detections]
        return torch.cat([boxes[kept], score[kept, None], (place % CLASSES)[kept, None]], -1)

    def work() -> list[torch.Tensor]:
        with torch.inference_mode():
            return [one(raw) for chosen in grids.split(training.EVALUATED) for raw in chosen @ weight + bias]

    return work


def bench_detect(features: np.ndarray, target: np.ndarray, repeats: int) -> None:
    stream = Stream([Rowwise([features])], [], Rowwise([target]), KINDS["boxes"], held=True)
    one = trained(stream, epochs=10, rate=1e-2)
    loop = torch_detections(features, kernel(one))

    def ours() -> np.ndarray:
        found = [one.predict(maps, (1, 1))[0] for _, maps, _ in stream.blocks(training.EVALUATED)]
        return np.concatenate(found)[: len(features)]

    taken = turns({"torch": loop, "ours": ours}, repeats)
    said("detections, PyTorch and torchvision", taken["torch"])
    said("detections", taken["ours"], taken["torch"])
    same, number = 0, 0
    for found, expected in zip(ours(), loop(), strict=True):
        there = found[found[:, 5] >= 0]
        number += len(expected)
        if len(there) == len(expected):
            same += int(np.isclose(there, expected.numpy(), atol=1e-2).all(1).sum())
    print(f"{number / len(features):.1f} detections an image; {same} of {number} stand in the same place")
    assert same > 0.9 * number > 0  # near ties fall either way, and move what stands below


BENCHES = {"train": bench_train, "detect": bench_detect}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=256)
    parser.add_argument("--dims", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=[*BENCHES], default=list(BENCHES))
    args = parser.parse_args()
    features, target = drawn(args.images, args.dims)
    for name in args.only:
        BENCHES[name](features, target, args.repeats)


if __name__ == "__main__":
    main()
