"""`visbench cache`: what the feature store holds, and keeping it in order."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from extract.wording import counted
from visbench import console, layout
from visbench.cli.common import Group, json_option, store_option
from visbench.layout import Column

if TYPE_CHECKING:
    from extract.store import Store, Stored

SHOWN = 8  # digits of an identity; any unambiguous beginning names it
DAY = 86_400

yes_option = click.option("--yes", is_flag=True, help="Do not ask.")


@click.group(cls=Group)
def cache() -> None:
    """Look after the feature store.

    Only files of the store's own are touched.

    \b
    visbench cache ls
    visbench cache verify --store s3://lab/features
    """


@cache.command()
@store_option
@json_option
def ls(store: str | None, as_json: bool) -> None:
    """List what was extracted, by which backbone and tap.

    \b
    visbench cache ls
    """
    stored = _open(store).identities()
    if as_json:
        _json([asdict(each) for each in stored])
    elif stored:
        console.result(_listing(stored))
    else:
        console.note("The store is empty.")


@cache.command()
@store_option
@json_option
def stats(store: str | None, as_json: bool) -> None:
    """Say where the store is and how much it holds.

    Also how much room is left on its disk.

    \b
    visbench cache stats --json
    """
    place = _open(store)
    stored, free = place.identities(), place.free_bytes()
    summed = ("rows", "parts", "bytes", "surplus_rows", "surplus_bytes")
    total = {what: sum(getattr(each, what) for each in stored) for what in summed}
    if as_json:
        _json({"store": place.url, "identities": len(stored), **total, "free_bytes": free})
        return
    held = f"{counted(total['rows'], 'row')} in {counted(total['parts'], 'part')}"
    room = f" · {console.size(free)} free" if free is not None else ""
    console.result(place.url)
    console.result(f" {_identities(stored)} · {held} · {console.size(total['bytes'])}{room}")
    if again := total["surplus_rows"]:
        console.result(
            f" of these {console.size(total['surplus_bytes'])} are {counted(again, 'row')} stored twice, by processes "
            "that ran side by side; `visbench cache gc` removes them"
        )


@cache.command()
@click.argument("identity", required=False)
@store_option
@json_option
@click.pass_context
def verify(ctx: click.Context, identity: str | None, store: str | None, as_json: bool) -> None:
    """Compare what is stored with its checksums.

    Reads all parts, or those of one IDENTITY; the exit code is 1 if any is damaged.

    \b
    visbench cache verify
    visbench cache verify 3f2a91c0
    """
    place = _open(store)
    problems = place.verify(identity or None)
    if as_json:
        _json([asdict(each) for each in problems])
    else:
        for each in problems:
            console.result(f"{each.identity[:SHOWN]}  {each.part or 'spec.json'}  {each.what}")
    if problems:
        console.note("`visbench cache gc` removes damaged parts; the next run computes their rows again.")
        ctx.exit(1)
    console.note("All parts are whole.")


@cache.command()
@click.option(
    "--older-than",
    type=click.FloatRange(0),
    default=DAY,
    show_default=True,
    metavar="SECONDS",
    help="Age at which a part that was never committed counts as left behind.",
)
@click.option("--merge/--no-merge", default=True, help="Write small parts together.  [default: merge]")
@store_option
@json_option
def gc(older_than: float, merge: bool, store: str | None, as_json: bool) -> None:
    """Remove leftovers and merge small parts.

    Leftovers are parts that an interrupted run never committed, damaged ones, and those whose rows are all
    read from others.

    \b
    visbench cache gc
    """
    report = asdict(_open(store).gc(older_than=older_than, merge=merge))
    if as_json:
        _json(report)
        return
    said = [f"{count:,} {what.replace('_', ' ')}" for what, count in report.items() if count]
    console.result("parts: " + ", ".join(said) if said else "Nothing to do.")


@cache.command()
@click.argument("identity", nargs=-1, required=True)
@yes_option
@store_option
def rm(identity: Sequence[str], yes: bool, store: str | None) -> None:
    """Remove what was extracted for an IDENTITY.

    It is named by the first digits that `visbench cache ls` shows.

    \b
    visbench cache rm 3f2a91c0
    """
    place = _open(store)
    named = {place.find(start) for start in identity}
    stored = [each for each in place.identities() if each.digest in named]
    _confirm(yes, stored, place)
    for each in stored:
        place.rm(each.digest)
    console.note(f"Removed {_amount(stored)}.")


@cache.command()
@yes_option
@store_option
def clear(yes: bool, store: str | None) -> None:
    """Remove everything from the store.

    \b
    visbench cache clear --yes
    """
    place = _open(store)
    stored = place.identities()
    _confirm(yes, stored, place)
    place.clear()
    console.note(f"Removed {_amount(stored)}.")


def _open(location: str | None) -> Store:
    from extract.store import Store

    return Store(location)


def _confirm(yes: bool, stored: Sequence[Stored], place: Store) -> None:
    """Show what would go and ask; the question goes to stderr."""
    if yes or not stored:
        return
    click.echo(_listing(stored), err=True)
    click.confirm(f"Remove {_amount(stored)} from {place.url}?", abort=True, err=True)


def _amount(stored: Sequence[Stored]) -> str:
    return f"{_identities(stored)}, {console.size(sum(each.bytes for each in stored))}"


def _identities(stored: Sequence[Stored]) -> str:
    return counted(len(stored), "identity", "identities")


def _listing(stored: Iterable[Stored]) -> str:
    columns = [
        Column("identity"),
        Column("backbone"),
        Column("weights"),
        Column("pixels", "right"),
        Column("tap"),
        Column("rows", "right"),
        Column("shape"),
        Column("dtype"),
        Column("parts", "right"),
        Column("size", "right"),
    ]
    rows = [
        (
            each.digest[:SHOWN],
            _what(each.plain),
            str(each.plain.get("weights", ""))[:SHOWN],
            _pixels(each.plain),
            f"{each.plain.get('tap', '')}@{each.plain.get('layer', '')}",
            f"{each.rows:,}",
            "×".join(map(str, each.row_shape or ())),
            each.dtype or "",
            f"{each.parts:,}",
            console.size(each.bytes),
        )
        for each in stored
    ]
    return layout.text(columns, rows, styled=console.styled_out())


def _what(plain: Mapping[str, Any]) -> str:
    """The architecture that gave features, or the kind of target maps."""
    target = plain.get("target")
    if isinstance(target, Mapping):
        return f"{target.get('kind') or target.get('made')} maps"
    return str(plain.get("architecture", "unknown"))


def _pixels(plain: Mapping[str, Any]) -> str:
    transform = plain.get("transform")
    return str(transform.get("size", "")) if isinstance(transform, dict) else ""


def _json(value: Any) -> None:
    console.result(json.dumps(value, indent=2, ensure_ascii=False))
