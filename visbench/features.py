"""The features of one backbone for the images of a run: what is stored is read, what is missing extracted.

torch is imported only where something is missing, or a backbone was never seen.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from extract import plan as planning
from extract import taps as tap_names
from extract.datasets import ImageSet, Lazy
from extract.images import policy
from extract.memo import Memo
from extract.plan import Plan
from extract.store import Store
from extract.wording import counted
from visbench import console
from visbench.errors import UsageError
from visbench.options import Options
from visbench.sources import Source


@dataclass
class Spent:
    """What extraction did for one backbone."""

    computed: int = 0
    cached: int = 0
    seconds: float = 0.0
    unreadable: dict[str, str] = field(default_factory=dict)
    converted: dict[str, int] = field(default_factory=dict)


def concat(sets: Sequence[ImageSet]) -> ImageSet:
    """Several sets as one, in order, labels left behind: what extraction sees of a run."""
    starts = np.cumsum([0, *map(len, sets)])

    def get(position: int) -> Any:
        which = int(starts.searchsorted(position, side="right")) - 1
        return sets[which].sources[position - int(starts[which])]

    names = [name for each in sets for name in each.names]
    if len(set(names)) < len(names):  # the same set in two roles
        names = [f"{each.split or each.name}: {name}" for each in sets for name in each.names]
    if len(set(names)) < len(names):
        names = [f"{number}: {name}" for number, name in enumerate(names)]
    return ImageSet(sets[0].name, None, Lazy(len(names), get), tuple(names))


def ensure(
    source: Source,
    images: ImageSet,
    ids: np.ndarray,
    taps: Sequence[str],
    options: Options,
    *,
    store: Store,
    memo: Memo,
) -> tuple[Plan, Spent]:
    """See that every row of `taps` is stored, extracting what is missing in one pass."""
    plan = planning.make(source.spec, taps, ids, store=store, dtype=options.dtype)
    spent = Spent(cached=plan.cached, converted=_converted(ids, memo, options))
    if not plan.passes:
        return plan, spent
    if not options.extract:
        raise UsageError(
            f"no stored features of {source.asked} at {', '.join(map(str, taps))} for {plan.passes:,} of "
            f"{counted(len(ids), 'image')}; `visbench extract` computes them, and `visbench run` does both"
        )
    check_room(plan, store)
    from extract.loop import extract  # brings in torch

    lying = sorted(range(len(images)), key=images.names.__getitem__)  # files of one folder are read together
    images, ids = images.subset(lying), ids[lying]
    backbone = source.load()
    with console.progress("extracting", source.asked, total=plan.passes) as advance:
        done = extract(
            backbone,
            images,
            taps,
            store=store,
            memo=memo,
            ids=ids,
            dtype=options.dtype,
            batch_size=options.batch_size,
            workers=options.workers,
            device=options.device,
            on_bad=options.on_bad,
            max_pixels=options.max_pixels,
            progress=advance,
        )
    spent.computed, spent.seconds = done.computed, done.seconds
    spent.unreadable, spent.converted = done.unreadable, _converted(ids, memo, options)
    if done.converted:
        listed = ", ".join(f"{kind} ({count:,})" for kind, count in sorted(done.converted.items()))
        console.note(f"{source.asked}: images converted on reading, by kind: {listed}")
    return plan, spent


def _converted(ids: np.ndarray, memo: Memo, options: Options) -> dict[str, int]:
    """Kind of conversion → images, as far as it is remembered from when they were read."""
    kinds = memo.remarks("converted", ids, policy(options.max_pixels)).values()
    return dict(sorted(Counter(kinds).items()))


def check_room(plan: Plan, store: Store) -> None:
    """Refuse an extraction that the store cannot keep, or its disk cannot hold."""
    if plan.passes:
        store.refuse_unwritable()
    free = store.free_bytes()
    if free is not None and plan.bytes > free:
        grids = [str(tap) for tap in plan.identities if not tap.pooled]
        smaller = (
            "a pooled tap such as mean needs far less" if grids else "--limit takes fewer images a class"
        )
        raise UsageError(
            f"the features need {console.size(plan.bytes)}, and {store.url} has {console.size(free)} free; "
            f"choose another --store, or {smaller}"
        )


def read(plan: Plan, tap: str, ids: np.ndarray, store: Store) -> np.ndarray:
    """(n, …) the rows of `ids` under a tap of `plan`, whole, as stored."""
    resolved = tap_names.resolve(tap, plan.spec)
    rows: np.ndarray = store.view(plan.identities[resolved].digest, ids).read()
    return rows
