"""`visbench compare A B`: which of two is better, without running anything."""

from __future__ import annotations

import json
from typing import Any

import click

from visbench import console
from visbench.cli.common import Command, json_option
from visbench.cli.options import DEFAULT_RESULTS
from visbench.errors import UsageError


@click.command(cls=Command)
@click.argument("a", metavar="[A", required=False)
@click.argument("b", metavar="B]", required=False)
@click.option(
    "--results",
    multiple=True,
    metavar="FILE",
    help=f"Records of runs; may be repeated.  [default: {DEFAULT_RESULTS}]",
)
@click.option("--task", metavar="TASK", help="Only boards of this task.")
@click.option("--metric", metavar="NAME", help="What is compared.  [default: the headline of each board]")
@click.option(
    "--test",
    type=click.Choice(["bootstrap", "permutation"]),
    default="bootstrap",
    show_default=True,
    help="Where p comes from; intervals are bootstrapped.",
)
@click.option("--common", is_flag=True, help="Compare the samples that both scored, where these are not all.")
@click.option("--seed", type=int, default=0, show_default=True, help="Of the resamples.")
@json_option
def compare(a: str | None, b: str | None, results: tuple[str, ...], as_json: bool, **given: Any) -> None:
    """Tell which of two is better, on every board that both stand on; without names, who beats whom on every board.

    A and B are backbones as a board shows them. The same backbone in two results files is compared by naming the
    files; two probes or layers of one backbone by naming their records, with the first digits of the keys that
    this command prints. Samples are matched by their content, p is corrected for the number of boards after Holm,
    and records that may not be compared are refused.

    \b
    visbench compare dinov2_vits14 resnet50
    visbench compare 3f2a91c0 77aa0132
    visbench compare before.jsonl after.jsonl --task retrieval
    visbench compare --task classification
    """
    if a is None or b is None:
        _matrices(a, results or (DEFAULT_RESULTS,), as_json, **given)
        return
    from visbench import compare_text, comparing, opponents

    named = opponents.is_file(a) or opponents.is_file(b)
    found = comparing.compare(a, b, results or (() if named else (DEFAULT_RESULTS,)), **given)
    if as_json:
        console.result(json.dumps([each.to_dict() for each in found], indent=2, ensure_ascii=False))
    else:
        console.result(compare_text.text(found, width=console.width(), styled=console.styled_out()))


def _matrices(
    a: str | None,
    files: tuple[str, ...],
    as_json: bool,
    *,
    task: str | None,
    metric: str | None,
    **given: Any,
) -> None:
    from visbench import duels
    from visbench.standings import Wanted, judged

    if a is not None:
        raise UsageError(
            f"{a} alone is compared with nothing; name two, or none for who beats whom on every board"
        )
    if given["common"] or given["test"] != "bootstrap":
        raise UsageError("--common and --test are for two that are named; leave them out, or name the two")
    boards, paired = judged(files, Wanted(task=task, by=metric))
    boards = [board for board in boards if len(board.entries) > 1]
    if not boards:
        raise UsageError("every board has one row alone, so there is nobody to beat; run another backbone")
    if as_json:
        told = [
            {"title": each.title, "board": each.key, "pairs": duels.matrix(each, paired)} for each in boards
        ]
        console.result(json.dumps(told, indent=2, ensure_ascii=False))
    else:
        console.result(duels.text(boards, paired, styled=console.styled_out()))
