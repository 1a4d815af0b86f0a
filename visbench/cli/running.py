"""What the commands that run do with their options: one sentence over a library call, and its output."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from extract.shares import parse_shard
from extract.store import Store
from extract.wording import counted
from visbench import board, board_text, console
from visbench.cli.options import the_data
from visbench.comparing import Paired
from visbench.extraction import Extraction
from visbench.options import Options, make_options
from visbench.pipeline import Result, Session

if TYPE_CHECKING:
    from visbench.forecast import Forecast


def run_task(task: str, *, extract: bool, as_json: bool, dry_run: bool, **given: Any) -> None:
    """Run every backbone with every probe; boards on stdout, or records under --json."""
    data = the_data(given.pop("data"), given.pop("data_option"))
    backbones, probes = list(dict.fromkeys(given.pop("backbones"))), given.pop("probes", ()) or (None,)
    options = options_of(given, extract=extract)
    session = Session(task, data, options, backbones, probes)
    if dry_run:
        from visbench.forecast import of_run

        foretell(of_run(session), as_json)
        return
    results: list[Result] = []
    for result in session.run():
        results.append(result)
        if as_json:
            console.result(result.record.to_json())
    if not as_json:
        said = boards_of(results, stored=options.results, width=console.width(), styled=console.styled_out())
        console.result(said)
    told(session, results)


def told(session: Session, results: list[Result]) -> None:
    """What was left out, and where the records are."""
    if session.data.unreadable:
        said = counted(len(session.data.unreadable), "unreadable file")
        groups = session.data.sets["test"].groups
        if groups is not None:
            said += f", and with it {counted(session.data.lost, groups.noun)},"
        console.note(f"{said} left out; the records name each")
    if session.options.results is not None:
        said = counted(sum(not result.resumed for result in results), "record")
        console.note(f"{said} appended to {session.options.results}")


def boards_of(
    results: list[Result], *, stored: Any = None, width: int | None = None, styled: bool = False
) -> str:
    """The boards of some results, rows told apart by a paired test; `stored` is the file they went to."""
    paired = Paired(results, stored=stored)
    found = board.boards([result.record for result in results], separable=paired)
    return board_text.texts(found, width=width, styled=styled)


def options_of(
    given: dict[str, Any], *, extract: bool = True, make: Callable[..., Options] = make_options, **more: Any
) -> Options:
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
    return make(extract=extract, caller="cli", **words, **more)


def extract_data(
    *, backbones: tuple[str, ...], taps: str, dry_run: bool, as_json: bool, **given: Any
) -> None:
    """Extract features of every backbone; under --json what was done for each, a line each."""
    data = the_data(given.pop("data"), given.pop("data_option"))
    layers, shard = given.pop("layers"), given.pop("shard")
    share = parse_shard(shard) if shard else None
    work = Extraction(data, list(dict.fromkeys(backbones)), taps, options_of(given), layers=layers)
    if dry_run:
        from visbench.forecast import of_extraction

        foretell(of_extraction(work, share), as_json)
        return
    for done in work.run(share):
        if as_json:
            console.result(json.dumps(done.to_dict(), ensure_ascii=False))
    for name, reason in work.unreadable.items():
        console.note(f"left out: {name} ({reason})")


def foretell(forecast: Forecast, as_json: bool) -> None:
    """What would be done, and that nothing was."""
    console.result(json.dumps(forecast.to_dict(), ensure_ascii=False) if as_json else forecast.text)
    console.note("Nothing was run.")
