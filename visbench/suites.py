"""`visbench.run_suite`: backbones × tasks from one file, planned as a whole, stopped and continued at will."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from visbench.cli.options import DEFAULT_RESULTS
from visbench.pipeline import Result
from visbench.suiting import file as files
from visbench.suiting import running
from visbench.suiting.jobs import Failure, Job, Opening

if TYPE_CHECKING:
    from visbench.suiting.forecast import Forecast


@dataclass(frozen=True)
class SuiteResult:
    """The results of a suite, those that records answered too, and what has none."""

    results: tuple[Result, ...]
    failures: tuple[Failure, ...]
    stored: str  # the file of the records

    def board(self) -> str:
        """The boards of the results as text."""
        from visbench.cli.running import boards_of

        return boards_of(list(self.results), stored=self.stored) if self.results else ""


class Plan:
    """A suite that was read and opened: every name, setting and place in it holds, and nothing has run."""

    def __init__(
        self,
        file: str | Path | Mapping[str, Any],
        *,
        results: str | Path | None = None,
        resume: bool = True,
        only: Sequence[str] = (),
        caller: str = "python",
    ) -> None:
        suite = files.read(file, [only] if isinstance(only, str) else only)
        self.stored = str(results or suite.results or DEFAULT_RESULTS)
        opened = Opening(self.stored, resume=resume, caller=caller).open(suite.tables)
        self.jobs: list[Job] = opened[0]
        self.failures: list[Failure] = opened[1]

    def forecast(self) -> Forecast:
        """What it would cost."""
        from visbench.suiting.forecast import of_suite

        return of_suite(self.jobs)

    def run(self, *, fail_fast: bool = False) -> Any:
        """One result after the other; `failures` grows meanwhile."""
        return running.run(self.jobs, self.failures, fail_fast=fail_fast)


def run_suite(
    file: str | Path | Mapping[str, Any],
    *,
    results: str | Path | None = None,
    resume: bool = True,
    only: str | Sequence[str] = (),
    fail_fast: bool = False,
) -> SuiteResult:
    """Run every task of a suite file with every backbone; what has a record already is not run again.

    `file` is a TOML file as `examples/suite.toml` is, or a mapping of the same layout.  Unknown keys, tasks,
    backbones and missing data are refused (`UsageError`) before anything runs; a task that fails afterwards is
    among the `failures` and costs the others nothing, unless `fail_fast`.  `only` keeps tables by their task or
    number, `results` is a file to use in place of the suite's own.
    """
    plan = Plan(file, results=results, resume=resume, only=only)
    found = tuple(plan.run(fail_fast=fail_fast))
    return SuiteResult(found, tuple(plan.failures), plan.stored)
