"""What the commands that run do with their options: one sentence over a library call, and its output."""

from __future__ import annotations

from typing import Any

from extract.shares import parse_shard
from extract.store import Store
from visbench import board, board_text, console
from visbench.cli.options import the_data
from visbench.comparing import Paired
from visbench.extraction import Extraction
from visbench.options import Options, make_options
from visbench.pipeline import Result, Session


def run_task(task: str, *, extract: bool, as_json: bool, dry_run: bool, **given: Any) -> None:
    """Run every backbone with every probe; boards on stdout, or records under --json."""
    data = the_data(given.pop("data"), given.pop("data_option"))
    backbones, probes = list(dict.fromkeys(given.pop("backbones"))), given.pop("probes", ()) or (None,)
    options = options_of(given, extract=extract)
    session = Session(task, data, options)
    if dry_run:
        from visbench.forecast import forecast

        console.result(forecast(session, backbones, probes))
        console.note("Nothing was run.")
        return
    results: list[Result] = []
    for result in session.run(backbones, probes):
        results.append(result)
        if as_json:
            console.result(result.record.to_json())
    if not as_json:
        console.result(boards_of(results, width=console.width(), styled=console.styled_out()))
    if session.data.unreadable:
        console.note(f"{len(session.data.unreadable)} unreadable files were left out; the records name them")
    if options.results is not None:
        count = sum(not result.resumed for result in results)
        console.note(f"{count} record{'s' if count != 1 else ''} appended to {options.results}")


def boards_of(results: list[Result], *, width: int | None = None, styled: bool = False) -> str:
    """The boards of some results, rows told apart by a paired test."""
    found = board.boards([result.record for result in results], separable=Paired(results))
    return "\n\n".join(board_text.text(each, width=width, styled=styled) for each in found)


def options_of(given: dict[str, Any], *, extract: bool = True) -> Options:
    """Options from the command line's own words."""
    words = dict(given)
    no_results, no_cache = words.pop("no_results", False), words.pop("no_cache", False)
    if no_results:
        words["results"] = None
    if no_cache:
        words["store"] = Store("memory://visbench")
    if words.pop("no_refit", False):
        words["refit"] = False
    if words.pop("random_weights", False):
        words["pretrained"] = False
    words["precision"] = words.pop("amp", None)
    return make_options(extract=extract, caller="cli", **words)


def extract_data(*, backbones: tuple[str, ...], taps: str, dry_run: bool, **given: Any) -> None:
    """Extract features of every backbone."""
    data = the_data(given.pop("data"), given.pop("data_option"))
    layers, shard = given.pop("layers"), given.pop("shard")
    share = parse_shard(shard) if shard else None
    extraction = Extraction(data, taps, options_of(given), layers=layers)
    if dry_run:
        from visbench.forecast import features_forecast

        sources, options = extraction.find(backbones), extraction.options
        ids = extraction.ids[extraction.readable(share)]
        lines = features_forecast(
            sources, ids, extraction.taps, options, store=extraction.store, memo=extraction.memo
        )
        console.result("\n".join(lines))
        console.note("Nothing was run.")
        return
    extraction.run(list(dict.fromkeys(backbones)), share)
    for name, reason in extraction.unreadable.items():
        console.note(f"left out: {name} ({reason})")
