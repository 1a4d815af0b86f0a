"""Running what was opened: backbone by backbone, so that each is loaded once and every record is safe at once."""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Sequence

from visbench import console
from visbench.errors import USER_ERRORS
from visbench.pipeline import Result
from visbench.suiting import sharing
from visbench.suiting.jobs import Failure, Job, Part, parts_of
from visbench.sweeping import with_trials


def run(jobs: Sequence[Job], failures: list[Failure], *, fail_fast: bool = False) -> Iterator[Result]:
    """One result for each backbone and measurement; what fails is added to `failures` and costs nothing else."""
    for parts in parts_of(jobs):
        ready = [part for part in parts if not part.pending or _prepared(part, failures, fail_fast)]
        sharing.extract([part for part in ready if part.pending])
        for part in ready:
            for result in _measured(part, failures, fail_fast):
                yield with_trials(result, part.job.session.options.results)
        for part in parts:
            if part.source.request is not None:  # can be loaded again, and its memory is needed
                part.source.loaded = None


def _prepared(part: Part, failures: list[Failure], fail_fast: bool) -> bool:
    """Read the truth of a task, if it has maps: what is wrong with one shows before an image is extracted."""
    try:
        part.job.session.reading.prepare(part.source)
    except Exception as error:
        _failed(part, error, failures, fail_fast)
        return False
    return True


def _measured(part: Part, failures: list[Failure], fail_fast: bool) -> Iterator[Result]:
    """The results of one part; a measurement that fails does not cost those after it."""
    left, session, told = list(part.pending), part.session(), ""
    console.detail(f"{part.source.asked}  {part.job.table.title}")
    while True:
        try:
            for result in session.run():
                if not result.resumed and left:
                    left.pop(0)
                yield result
            return
        except Exception as error:
            if told == str(error):  # the same is wrong with all of them
                return
            told = str(error)
            _failed(part, error, failures, fail_fast)
        left = left[1:]
        if not left:
            return
        session = part.session(left)


def _failed(part: Part, error: Exception, failures: list[Failure], fail_fast: bool) -> None:
    """Remember a failure, of whatever kind: one task's bug must not cost the night that the others take."""
    if fail_fast:
        raise error
    if console.verbosity.debug:
        traceback.print_exception(error)
    said = str(error) if isinstance(error, USER_ERRORS) else f"{type(error).__name__}: {error}"
    failures.append(Failure(part.job.table.title, part.source.asked, said))
    console.warn(f"{failures[-1]}; the others go on")
