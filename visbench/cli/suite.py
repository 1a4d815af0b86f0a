"""`visbench suite FILE`: a whole evaluation as a file."""

from __future__ import annotations

import click

from extract.wording import counted
from visbench import console
from visbench.cli.common import Command, json_option


@click.command(cls=Command)
@click.argument("file", metavar="FILE.toml")
@click.option("--dry-run", is_flag=True, help="Say what would be done and what it costs; do nothing.")
@click.option("--resume/--no-resume", default=True, show_default=True, help="Skip what has a record already.")
@click.option("--results", metavar="FILE", help="Append the records here.  [default: what the file says]")
@click.option(
    "--only", multiple=True, metavar="TASK", help="Only tables of this task, or number; may be repeated."
)
@click.option("--fail-fast", is_flag=True, help="Stop at the first task that fails.")
@json_option
@click.pass_context
def suite(
    ctx: click.Context,
    /,
    file: str,
    dry_run: bool,
    resume: bool,
    results: str | None,
    only: tuple[str, ...],
    fail_fast: bool,
    as_json: bool,
) -> None:
    """Run a whole evaluation that a file describes: backbones × tasks.

    All of it is opened and checked first. A stopped suite goes on where it was, and a backbone, probe or task
    that is added later is all that runs then. What fails does not cost the others: it is told at the end, with
    exit code 1.

    \b
    visbench suite suite.toml --dry-run
    visbench suite suite.toml --only depth
    \b
    results = "results/suite.jsonl"           # paths are relative to the file
    backbones = ["dinov2_vits14", {name = "vit_small_patch16_224", checkpoint = "w.pth"}]
    controls = ["pixels"]                     # where a task takes them
    \b
    [defaults]                                # options of every task
    seed = 0
    \b
    [[tasks]]
    task = "classification"
    data = "photos/"
    probes = ["logistic", "knn"]
    \b
    [[tasks]]                                 # every key is an option of `visbench run TASK`
    task = "depth"
    data = "rooms/"
    target-scale = 1000
    sweep = {lr = "1e-3:1e-1:log4"}           # a grid, as of `visbench sweep`
    """
    from visbench.cli.running import boards_of, foretell
    from visbench.suites import Plan

    plan = Plan(file, results=results, resume=resume, only=only, caller="cli")
    if dry_run:
        foretell(plan.forecast(), as_json)  # type: ignore[arg-type]
    else:
        found = []
        for result in plan.run(fail_fast=fail_fast):
            found.append(result)
            if as_json:
                console.result(result.record.to_json())
        if found and not as_json:
            console.result(
                boards_of(found, stored=plan.stored, width=console.width(), styled=console.styled_out())
            )
        new = sum(not result.resumed for result in found)
        console.note(f"{counted(new, 'record')} appended to {plan.stored}")
    for failure in plan.failures:
        console.error(str(failure))
    if plan.failures:
        ctx.exit(1)
