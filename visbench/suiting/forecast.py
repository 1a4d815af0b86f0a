"""What a suite would do and cost: a line a task, and all together, where images that tasks share are seen once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from extract import plan as planning
from extract.plan import Plan
from extract.wording import counted
from visbench import console
from visbench.forecast import of_run
from visbench.suiting.jobs import Job, Part, parts_of
from visbench.suiting.sharing import wanted


@dataclass
class Cost:
    """What one task, or all of them, would cost."""

    task: str
    passes: int = 0  # forward passes
    bytes: int = 0  # that the store would grow by
    seconds: float = 0.0  # of the forward passes, estimated
    fits: int = 0  # to choose settings
    records: int = 0  # to be written
    answered: int = 0  # that records answer already

    def cells(self) -> tuple[str, ...]:
        """For people."""
        fits = counted(self.fits, "fit") if self.fits else ""
        answered = f" ({self.answered:,} there already)" if self.answered else ""
        return (
            self.task,
            counted(self.passes, "forward pass"),
            f"+{console.size(self.bytes)}",
            f"about {console.duration(self.seconds)}" if self.passes else "",
            fits,
            counted(self.records, "record") + answered,
        )


@dataclass(frozen=True)
class Forecast:
    """The cost of a suite: of every task as if it ran alone, and of all together."""

    tasks: tuple[Cost, ...]
    total: Cost
    backbones: tuple[str, ...]
    devices: tuple[str, ...] = ()
    stores: dict[str, int | None] = field(default_factory=dict)  # place → bytes that are free

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        return asdict(self)

    @property
    def text(self) -> str:
        """For people."""
        rows = [each.cells() for each in (*self.tasks, self.total)]
        wide = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(f"{cell:<{w}}" for cell, w in zip(row, wide, strict=True)).rstrip() for row in rows
        ]
        places = [
            f"{place} ({console.size(free)} free)" if free is not None else place
            for place, free in self.stores.items()
        ]
        on = f" on {', '.join(self.devices)}" if self.devices else ""
        lines.append(f"{counted(len(self.backbones), 'backbone')}{on} · store {', '.join(places)}")
        return "\n".join(lines)


def of_suite(jobs: Sequence[Job]) -> Forecast:
    """What the jobs would extract, fit and write."""
    costs = {job.table.number: Cost(job.table.title) for job in jobs}
    total, names, devices = Cost("together"), dict[str, None](), dict[str, None]()
    for parts in parts_of(jobs):
        names |= dict.fromkeys(part.source.asked for part in parts)
        todo = [(part, _plan(part)) for part in parts if part.pending]
        rate, device = _rate(todo)
        devices |= {device: None} if device else {}
        for part in parts:
            cost = costs[part.job.table.number]
            cost.records += len(part.pending)
            cost.answered += len(part.job.session.measures) - len(part.pending)
            cost.fits += sum(getattr(measure, "fits", 0) for measure in part.pending)
        for part, plan in todo:
            _add(costs[part.job.table.number], plan, rate)
        for each in wanted([part for part, _ in todo]) if todo else ():
            plan = planning.make(
                each.source.spec,
                each.taps,
                each.ids,
                store=each.session.store,
                dtype=each.session.options.dtype,
            )
            _add(total, plan, rate)
    for name in ("fits", "records", "answered"):
        setattr(total, name, sum(getattr(cost, name) for cost in costs.values()))
    stores = {job.session.store.url: job.session.store.free_bytes() for job in jobs}
    return Forecast(tuple(costs.values()), total, tuple(names), tuple(devices), stores)


def _plan(part: Part) -> Plan:
    session, source = part.job.session, part.source
    ids = session.seen(source, part.pending)[1]
    return planning.make(source.spec, source.taps, ids, store=session.store, dtype=session.options.dtype)


def _rate(todo: Sequence[tuple[Part, Plan]]) -> tuple[float, str | None]:
    """Seconds a forward pass, as one of the parts knows or measures it, and on which device."""
    for part, plan in todo:
        if plan.passes:
            (cost,) = of_run(part.session(part.pending)).backbones
            return cost.seconds / cost.passes, cost.device
    return 0.0, None


def _add(cost: Cost, plan: Plan, rate: float) -> None:
    cost.passes += plan.passes
    cost.bytes += plan.bytes
    cost.seconds += plan.passes * rate
