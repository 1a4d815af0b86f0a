"""A record run again: whether its headline still holds, and what is no longer as it was then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import click

from visbench import results
from visbench.errors import UsageError
from visbench.opponents import differing, in_words, is_key, of_key
from visbench.pipeline import Session
from visbench.planning import planned
from visbench.record import DIGITS, Record, backbone_part, protocol_part, run_key
from visbench.sources import Source
from visbench.suiting import asked, words
from visbench.suiting.file import Table
from visbench.suiting.jobs import Opening
from visbench.tasks import TASKS, get_task

_OF_DATA = ("data", "dataset_params")


@dataclass(frozen=True)
class Reproduction:
    """What a record said, and what it says when it is run again."""

    key: str
    title: str
    metric: str
    then: float | None
    now: float | None
    interval: tuple[float, float] | None  # of then, 95 %
    record: Record = field(repr=False)  # the new one
    differences: dict[str, Any] = field(
        default_factory=dict
    )  # name → (then, now): versions, device, data, backbone

    @property
    def equal(self) -> bool:
        """To the digit."""
        return self.then == self.now

    @property
    def agrees(self) -> bool:
        """Within the interval of the record; where it has none, to the digit."""
        if self.equal or self.interval is None or self.now is None:
            return self.equal
        return self.interval[0] <= self.now <= self.interval[1]

    @property
    def text(self) -> str:
        """For people: differences first."""
        lines = [self.title]
        lines += [f"  {name}: {in_words({'': ends}).strip()}" for name, ends in self.differences.items()]
        if not self.differences:
            lines.append("  the same versions, device, backbone and data")
        within = "" if self.interval is None else f" [{self.interval[0]:.4f}, {self.interval[1]:.4f}]"
        lines.append(
            f"  {self.metric} {_number(self.then)}{within} then, {_number(self.now)} now: {self.verdict}"
        )
        return "\n".join(lines)

    @property
    def verdict(self) -> str:
        """In a few words."""
        if self.equal:
            return "equal to the digit"
        if self.interval is None:
            return "differs, and the record has no interval to agree within"
        return "agrees within the interval, not equal to the digit" if self.agrees else "differs"

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        told = {key: value for key, value in asdict(self).items() if key != "record"}
        return {**told, "equal": self.equal, "agrees": self.agrees, "record": self.record.to_dict()}


def find(key: str, file: str | Path) -> Record:
    """The newest record of `file` whose key begins so."""
    if not is_key(key):
        raise UsageError(
            f'"{key}" is no key of a record: give its first digits, four at least, as `visbench compare` prints them'
        )
    read = results.read(file)
    found = of_key(read, key)
    if found is None:
        known = ", ".join(f"{run_key(record)[:DIGITS]} ({_title(record)})" for record in read[-3:])
        last = f"; its last records are {known}" if known else ""
        raise UsageError(f"no record of {file} has a key that begins with {key}{last}")
    return found


def reproduce(
    record: Record,
    data: str | Path | None,
    told: Sequence[str] = (),
    *,
    store: Any = None,
    device: str | None = None,
) -> Reproduction:
    """Run `record` again on `data`, and set the new headline beside the old.

    `told` are options of `visbench run` for what a record does not keep: a checkpoint, files of names or stems.
    No record is written.  What cannot be run as it was is refused (`UsageError`).
    """
    _refuse_lost(record, data)
    session = _session(record, str(data), told, store=store, device=device)
    source, measure = _planned(record, session)
    (result,) = session.only(source, [measure]).run()
    then, now = (each.metrics.get(str(record.headline)) for each in (record, result.record))
    ends = record.intervals.get(str(record.headline))
    return Reproduction(
        run_key(record)[:DIGITS],
        _title(record),
        str(record.headline),
        then,
        now,
        (ends[0], ends[1]) if ends else None,
        result.record,
        _differences(record, result.record),
    )


def _refuse_lost(record: Record, data: str | Path | None) -> None:
    """Refuse what a record holds too little of."""
    what = f"the record {run_key(record)[:DIGITS]} ({_title(record)})"
    if "code" in record.backbone_spec.get("options", {}) and not _registered(record.backbone):
        raise UsageError(
            f"{what} is of a module of somebody's own, which a record cannot hold, so it cannot be run again; "
            "run it from Python, where the module is"
        )
    if record.finetune:
        raise UsageError(f"{what} is of a backbone that was fine-tuned; only frozen ones are run again")
    if record.task not in TASKS:
        raise UsageError(f'{what} is of a task "{record.task}" that this version does not have')
    if not record.taps or record.headline is None:
        raise UsageError(
            f"{what} was written by another tool and does not say how it was made; it cannot be run again"
        )
    if data is None:
        raise UsageError(
            f"a record keeps the content of its data as a digest, not where they lie: say it with --data, "
            f"as of {record.dataset}"
        )


def _registered(name: str) -> bool:
    from extract.backbones.registry import REGISTERED

    return name in REGISTERED


def _session(
    record: Record, data: str, told: Sequence[str], *, store: Any = None, device: str | None = None
) -> Session:
    task, where = get_task(record.task), f"the record {run_key(record)[:DIGITS]}"
    swept = asked.sweeps(record)
    command = words.command_of(task, sweeps=swept)
    names = words.names_of(command)
    given = words.parsed(command, words.read(asked.keys(record, names), names, where), where, Path())
    given |= _told(command, told) | {key: it for key, it in {"store": store, "device": device}.items() if it}
    axes = asked.axes(record) if swept else None
    table = Table(1, where, task, data, (((record.backbone,), given),), axes, inherited=False)
    jobs, failures = Opening(None, resume=False, caller="python").open([table])
    if failures:
        raise UsageError(failures[0].reason)
    return jobs[0].session


def _told(command: click.Command, told: Sequence[str]) -> dict[str, Any]:
    """What was said on the command line, beyond what the record says."""
    if not told:
        return {}
    try:
        ctx = command.make_context(str(command.name), [*told, "--", "DATA"])
    except click.ClickException as error:
        raise UsageError(f"{' '.join(told)}: {error.format_message()}") from error
    source = click.core.ParameterSource.COMMANDLINE
    return {
        name: it
        for name, it in ctx.params.items()
        if name != "data" and ctx.get_parameter_source(name) is source
    }


def _planned(record: Record, session: Session) -> tuple[Source, Any]:
    """The measurement that asks what the record asked; refused where none does."""
    plans = [
        (source, measure, planned(session.task, session.options, source, session.data, measure))
        for source in session.sources
        for measure in session.measures
        if source.control == record.control
    ]
    apart = [_apart(record, plan) for _, _, plan in plans]
    nearest = min(range(len(plans)), key=lambda each: len(apart[each]), default=None)
    if nearest is None:
        raise UsageError(f"{record.backbone} is here no control ({record.control}), as it was in the record")
    if apart[nearest]:
        raise UsageError(
            f"{_title(record)} cannot be run as it was, for its record does not say all of it: "
            f"what is planned differs in {in_words(apart[nearest])}. "
            "Give the options that it was run with "
            "after --, as -- --checkpoint w.pth"
        )
    return plans[nearest][:2]


def _apart(record: Record, plan: Record) -> dict[str, Any]:
    """In what two records ask different things; of data that are others now, nothing is said here."""

    def part(each: Record) -> dict[str, Any]:
        return {key: value for key, value in protocol_part(each).items() if key not in _OF_DATA}

    return differing({**part(record), "seed": record.seed}, {**part(plan), "seed": plan.seed})


def _differences(record: Record, new: Record) -> dict[str, Any]:
    """What is no longer as it was, from the outermost to the innermost."""

    def part(each: Record) -> dict[str, Any]:
        protocol = protocol_part(each)
        return {
            "versions": each.versions,
            "device": each.device,
            "backbone": backbone_part(each),
            **{name: protocol[name] for name in _OF_DATA},
            "images": each.dataset_size,
        }

    return differing(part(record), part(new))


def _title(record: Record) -> str:
    probe = f" · {record.probe}" if record.probe else ""
    return f"{record.backbone} · {record.dataset} · {record.task}{probe}"


def _number(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"
