"""What a run or an extraction would do and cost, before it does it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from extract import plan as planning
from extract.datasets import ImageSet
from extract.memo import Memo
from extract.plan import Plan
from extract.store import Store
from extract.wording import counted
from visbench import console, features
from visbench.extraction import Extraction
from visbench.options import Options
from visbench.pipeline import Session
from visbench.sources import Source, resolved_taps

TRIALS = 2  # forward passes a rate is guessed from; the first warms up


@dataclass(frozen=True)
class Cost:
    """What one backbone would cost."""

    backbone: str
    images: int
    passes: int  # forward passes: images of which any tap is missing
    cached: int  # images that need none
    missing: dict[str, int]  # tap → rows to be written
    bytes: int  # that the store would grow by
    seconds: float  # estimated
    device: str | None  # None where nothing is to be computed

    @property
    def line(self) -> str:
        """For people."""
        said = f"features   {self.backbone}  {counted(self.images, 'image')}: "
        said += f"{counted(self.passes, 'forward pass')}, {self.cached:,} cached"
        return said + (f" · about {console.duration(self.seconds)} on {self.device}" if self.passes else "")


@dataclass(frozen=True)
class Forecast:
    """The cost of a call; probes and what they run on where it is a run."""

    backbones: tuple[Cost, ...]
    store: str
    bytes: int
    free_bytes: int | None
    task: str | None = None
    probes: tuple[str, ...] = ()
    images: dict[str, int] = field(default_factory=dict)  # by role, or pairs and triplets by role
    fits: int = 0  # to choose settings
    records: int = 0

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)

    @property
    def text(self) -> str:
        """For people."""
        room = f" (of {console.size(self.free_bytes)} free)" if self.free_bytes is not None else ""
        lines = [
            *(each.line for each in self.backbones),
            f"store      +{console.size(self.bytes)}{room} at {self.store}",
        ]
        if self.task is not None:
            counts = ", ".join(f"{count:,} {role}" for role, count in self.images.items())
            fits = f"{counted(self.fits, 'fit')} to choose, " if self.fits else ""
            said = fits + counted(self.records, "record")
            lines.append(f"probes     {', '.join(self.probes) or self.task} on {counts}; {said}")
        return "\n".join(lines)


def of_run(session: Session) -> Forecast:
    """What `session` would extract and probe."""
    options = session.options
    ids = [session.seen(source, session.measures)[1] for source in session.sources]
    costs, room = _features(session.sources, ids, options, session.store, session.memo)
    return Forecast(
        costs,
        **room,
        task=session.task.name,
        probes=tuple(probe for probe in session.probes if probe is not None),
        images={_counted_as(role, images): images.size for role, images in session.data.sets.items()},
        fits=len(session.sources) * sum(getattr(measure, "fits", 0) for measure in session.measures),
        records=len(session.sources) * len(session.measures),
    )


def _counted_as(role: str, images: ImageSet) -> str:
    return role if images.groups is None else f"{role} {images.groups.noun}s"


def of_extraction(work: Extraction, shard: tuple[int, int] | None = None) -> Forecast:
    """What `work`, or a share of it, would extract."""
    ids = work.ids[work.readable(shard)]
    costs, room = _features(work.sources, [ids] * len(work.sources), work.options, work.store, work.memo)
    return Forecast(costs, **room)


def _features(
    sources: Sequence[Source],
    ids: Sequence[np.ndarray],
    options: Options,
    store: Store,
    memo: Memo,
) -> tuple[tuple[Cost, ...], dict[str, Any]]:
    """The cost of each backbone, and what the store is in for."""
    plans = [
        planning.make(each.spec, each.taps, own, store=store, dtype=options.dtype)
        for each, own in zip(sources, ids, strict=True)
    ]
    for plan in plans:
        features.check_room(plan, store)
    costs = tuple(_cost(source, plan, options, memo) for source, plan in zip(sources, plans, strict=True))
    grows = sum(cost.bytes for cost in costs)
    return costs, {"store": store.url, "bytes": grows, "free_bytes": store.free_bytes()}


def _cost(source: Source, plan: Plan, options: Options, memo: Memo) -> Cost:
    seconds, device = _time(source, plan, options, memo)
    missing = {f"{tap.kind}@{tap.layer}": int(rows.sum()) for tap, rows in plan.lacking.items()}
    return Cost(source.asked, len(plan.ids), plan.passes, plan.cached, missing, plan.bytes, seconds, device)


def _time(source: Source, plan: Plan, options: Options, memo: Memo) -> tuple[float, str | None]:
    """Seconds, by what was measured before or is now, and on which device."""
    if not plan.passes:
        return 0.0, None
    from extract import machine  # brings in torch

    device = options.device or machine.default_device()
    known = memo.recall("rate", machine.rate_key(plan.spec, device))
    rate = known["images_per_second"] if known else _measure(source, device)
    return plan.passes / rate, device


def _measure(source: Source, device: str) -> float:
    """Images a second of the forward pass alone, on a grey batch: a run also decodes, which takes longer."""
    import torch

    from extract import machine
    from extract.transforms import grey_picture

    backbone = source.load().to(torch.device(device))
    size = machine.default_batch(backbone, torch.device(device), 10**6, machine.available_cores())
    grey = backbone.transform.place(grey_picture())
    batch = backbone.transform.normalise(torch.stack([grey] * size).to(device))
    tap = resolved_taps(["default"], source.spec)
    for _ in range(TRIALS):
        began = time.perf_counter()
        backbone.features(batch, tap)[tap[0]].float().cpu()
    return size / (time.perf_counter() - began)
