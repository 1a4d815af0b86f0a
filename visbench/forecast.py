"""What a run would do and cost, before it does it."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from extract import plan as planning
from extract.memo import Memo
from extract.plan import Plan
from extract.store import Store
from visbench import console, features
from visbench.options import Options
from visbench.pipeline import Session
from visbench.tasks import probe_name

TRIALS = 2  # forward passes a rate is guessed from; the first warms up


def forecast(session: Session, backbones: Sequence[Any], probes: Sequence[str | None]) -> str:
    """What a run would extract and probe, as lines of text."""
    _, ids = session.images()
    sources = session.find(backbones)
    options = session.options
    lines = features_forecast(sources, ids, [options.tap], options, store=session.store, memo=session.memo)
    names = [probe_name(session.task, probe, options) or session.task.name for probe in probes]
    counts = ", ".join(f"{len(each):,} {role}" for role, each in session.data.sets.items())
    lines.append(f"probes     {', '.join(names)} on {counts}; {len(sources) * len(names)} records")
    return "\n".join(lines)


def features_forecast(
    sources: Sequence[features.Source],
    ids: np.ndarray,
    taps: Sequence[str],
    options: Options,
    *,
    store: Store,
    memo: Memo,
) -> list[str]:
    """Forward passes and time of each backbone, and what the store would grow by."""
    plans = [planning.make(each.spec, taps, ids, store=store, dtype=options.dtype) for each in sources]
    for plan in plans:
        features.check_room(plan, store)
    lines = [
        f"features   {source.asked}  {_passes(plan)}{_time(source, plan, options, memo)}"
        for source, plan in zip(sources, plans, strict=True)
    ]
    free = store.free_bytes()
    room = f" (of {console.size(free)} free)" if free is not None else ""
    return [*lines, f"store      +{console.size(sum(plan.bytes for plan in plans))}{room} at {store.url}"]


def _passes(plan: Plan) -> str:
    return f"{len(plan.ids):,} images: {plan.passes:,} forward passes, {plan.cached:,} cached"


def _time(source: features.Source, plan: Plan, options: Options, memo: Memo) -> str:
    if not plan.passes:
        return ""
    from extract import machine  # brings in torch

    device = options.device or machine.default_device()
    known = memo.recall("rate", machine.rate_key(plan.spec, device))
    rate = known["images_per_second"] if known else _measure(source, device)
    return f" · about {console.duration(plan.passes / rate)} on {device}"


def _measure(source: features.Source, device: str) -> float:
    """Images a second of the forward pass alone, on a grey batch: a run also decodes, which takes longer."""
    import torch

    from extract import machine
    from extract.transforms import grey_picture

    backbone = source.load().to(torch.device(device))
    size = machine.default_batch(backbone, torch.device(device), 10**6, machine.available_cores())
    grey = backbone.transform.place(grey_picture())
    batch = backbone.transform.normalise(torch.stack([grey] * size).to(device))
    tap = features.resolved_taps(["default"], source.spec)
    for _ in range(TRIALS):
        began = time.perf_counter()
        backbone.features(batch, tap)[tap[0]].float().cpu()
    return size / (time.perf_counter() - began)
