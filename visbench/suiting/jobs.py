"""The tables of a suite opened and planned: a session each, and for every backbone what is still to be measured."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from extract.store import Store
from visbench import console, results
from visbench.cli.running import options_of
from visbench.errors import USER_ERRORS, UsageError
from visbench.options import Options
from visbench.pipeline import Session
from visbench.planning import planned
from visbench.record import digest, run_key
from visbench.sources import Source
from visbench.suiting.file import Table
from visbench.sweeping import DRAWS, open_session, sweep_options


@dataclass(frozen=True)
class Failure:
    """What of a suite has no result, and why; None for a backbone where no backbone has one."""

    task: str  # number, name and data
    backbone: str | None
    reason: str

    def __str__(self) -> str:
        return f"{self.task}{f', {self.backbone}' if self.backbone else ''}: {self.reason}"


@dataclass(frozen=True)
class Job:
    """A table, or its part for backbones with options of their own, ready to run."""

    table: Table
    session: Session


@dataclass(frozen=True)
class Part:
    """One backbone on one job, and the measurements that no record answers yet."""

    job: Job
    source: Source
    pending: tuple[Any, ...]

    def session(self, pending: Sequence[Any] | None = None) -> Session:
        """The session with this backbone alone, and these measurements; by default all of them."""
        return self.job.session.only(self.source, pending)


class Opening:
    """How tables are opened: where records go (None: nowhere), whether those that exist count, and one memory."""

    def __init__(self, results: Any, *, resume: bool = True, caller: str) -> None:
        self.results = results
        self.resume, self.caller = resume, caller
        self._memory: Store | None = None

    def open(self, tables: Sequence[Table]) -> tuple[list[Job], list[Failure]]:
        """All that can be opened, and the tables whose images cannot all be read; anything else wrong is refused."""
        jobs: list[Job] = []
        failures: list[Failure] = []
        for table in tables:
            console.detail(f"opening  {table.title}")
            first = True
            for backbones, given in table.groups:
                try:
                    jobs.append(Job(table, self._opened(table, backbones, given, first)))
                except UsageError as error:
                    if not self._unreadable(table, backbones, given, first):
                        raise
                    failures.append(Failure(table.title, None, str(error)))
                    break
                first = False
        return jobs, failures

    def _opened(
        self, table: Table, backbones: Sequence[str], given: Mapping[str, Any], first: bool = True
    ) -> Session:
        """The session of one group; the pixels, which need no options, stand beside the first group alone."""
        asked = [each for each in given.get("controls", ()) if first or each != "pixels"]
        try:
            return self._session(table, backbones, {**given, "controls": tuple(asked)})
        except USER_ERRORS as error:
            wrong = UsageError(f"{table.where}: {error}")
            if not (table.inherited and asked) or not self._takes(
                table, backbones, {**given, "controls": ()}
            ):
                raise wrong from error
            controls = [
                each for each in asked if self._takes(table, backbones, {**given, "controls": (each,)})
            ]
            if controls == asked:
                raise wrong from error
            left = ", ".join(each for each in asked if each not in controls)
            console.note(f"{table.title}: the control {left} is left out: {error}")
        return self._session(table, backbones, {**given, "controls": tuple(controls)})

    def _unreadable(
        self, table: Table, backbones: Sequence[str], given: Mapping[str, Any], first: bool
    ) -> bool:
        """Whether images that cannot be read are all that is wrong: they cost this table, not the others."""
        if given.get("on_bad") == "skip":
            return False
        try:
            self._opened(table, backbones, {**given, "on_bad": "skip"}, first)
        except UsageError:
            return False
        return True

    def _takes(self, *asked: Any) -> bool:
        try:
            self._session(*asked)
        except USER_ERRORS:
            return False
        return True

    def _session(self, table: Table, backbones: Sequence[str], given: Mapping[str, Any]) -> Session:
        words = dict(given)
        probes = words.pop("probes", ()) or (None,)
        shots, draws = words.pop("shots", None) or (), words.pop("draws", None)
        if table.grid is None:
            session = Session(table.task.name, table.data, self._options(words), backbones, probes)
        else:
            many = draws or (DRAWS if shots else 1)
            options = self._options(words, make=sweep_options, grid=table.grid, draws=many)
            session = open_session(
                backbones, table.task.name, table.data, options, probes=probes, shots=shots
            )
        for source in session.sources:  # what cannot be planned is refused before anything runs
            for measure in session.measures:
                planned(session.task, session.options, source, session.data, measure)
        return session

    def _options(self, words: Mapping[str, Any], **more: Any) -> Options:
        options = options_of({**words, "results": self.results, "resume": self.resume}, **more)
        if isinstance(options.store, Store):  # in memory: one for all tasks
            self._memory = self._memory or options.store
            options = replace(options, store=self._memory)
        return replace(options, caller=self.caller)


def parts_of(jobs: Sequence[Job]) -> Iterator[list[Part]]:
    """The parts of every backbone, in the order in which the backbones are first named."""
    by_backbone: dict[str, list[tuple[Job, Source]]] = {}
    for job in jobs:
        for source in job.session.sources:
            by_backbone.setdefault(digest(source.spec.to_dict()), []).append((job, source))
    known = _known(jobs)
    for pairs in by_backbone.values():
        yield [Part(job, source, tuple(_pending(job.session, source, known))) for job, source in pairs]


def _pending(session: Session, source: Source, known: set[str]) -> Iterator[Any]:
    for measure in session.measures:
        key = run_key(planned(session.task, session.options, source, session.data, measure))
        if key not in known:
            known.add(key)  # a number that two tables ask for is computed once
            yield measure


def _known(jobs: Sequence[Job]) -> set[str]:
    asked = {job.session.options.results for job in jobs if job.session.options.resume}
    return {run_key(record) for file in asked if file for record in results.read(file, missing_ok=True)}
