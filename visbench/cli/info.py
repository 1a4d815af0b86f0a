"""`visbench list` and `visbench doctor`: what there is, and whether it works."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import click

from visbench import console, layout
from visbench.cli.common import Command, json_option, store_option
from visbench.layout import Column

Listed = list[dict[str, Any]]


def backbones() -> Listed:
    """The aliases; any other model is asked for as `timm:…`, `open_clip:…/…` or `torchvision:…`."""
    from extract.resolve import catalogue

    return [asdict(entry) for entry in catalogue()]


def tasks() -> Listed:
    """The rows of the task table."""
    from visbench.tasks import TASKS

    return [
        {
            "task": task.name,
            "level": task.level,
            "headline": task.headline,
            "probes": list(task.probes),
            "summary": task.summary,
        }
        for task in TASKS.values()
    ]


def probes() -> Listed:
    """Each task's probes, its default first; those of tasks with maps are the heads."""
    from visbench.tasks import TASKS

    return [
        {"probe": name, "task": task.name, "summary": summary}
        for task in TASKS.values()
        if not task.dense
        for name, summary in task.probes.items()
    ]


def heads() -> Listed:
    """What reads a map from grids of features; each row its name, how many layers it reads, and what it is."""
    from probes.heads.table import HEADS

    return [
        {"head": row.name, "layers": _span(*row.layers), "source": row.source, "summary": row.summary}
        for row in HEADS.values()
    ]


def _span(fewest: int, most: int | None) -> str:
    return str(fewest) if fewest == most else f"{fewest}–{most}" if most else f"{fewest} or more"


TOPICS = {"backbones": backbones, "probes": probes, "heads": heads, "tasks": tasks}


@click.command("list", cls=Command)
@click.argument("topic", type=click.Choice(list(TOPICS)), required=False)
@json_option
def list_(topic: str | None, as_json: bool) -> None:
    """Name the backbones, probes, heads and tasks there are, or one kind of them.

    \b
    visbench list tasks
    visbench list backbones --json
    """
    found = {name: table() for name, table in TOPICS.items() if topic in (None, name)}
    if as_json:
        console.result(json.dumps(found[topic] if topic else found, indent=2, ensure_ascii=False))
        return
    parts = []
    for name, rows in found.items():
        parts.append(_table(rows) if topic else f"{name}\n{_table(rows)}")
    console.result("\n\n".join(parts))
    if "backbones" in found:
        console.note("Others by name: timm:MODEL, open_clip:ARCH/PRETRAINED, torchvision:MODEL.")


@click.command(cls=Command)
@store_option
@json_option
@click.pass_context
def doctor(ctx: click.Context, store: str | None, as_json: bool) -> None:
    """Check versions, devices, memory and the store; exit code 1 if something is broken.

    \b
    visbench doctor
    visbench doctor --store s3://lab/features --json
    """
    from visbench.doctor import examine

    found = examine(store)
    broken = [each for each in found if each.broken]
    if as_json:
        console.result(json.dumps([each._asdict() for each in found], indent=2, ensure_ascii=False))
    else:
        rows = [(each.topic, each.name, "BROKEN" if each.broken else "", each.found) for each in found]
        columns = [Column("topic"), Column("name"), Column(""), Column("found")]
        console.result(layout.text(columns, rows, styled=console.styled_out()))
        for each in found:
            if each.advice:
                (console.error if each.broken else console.detail)(f"{each.name}: {each.advice}")
    if broken:
        ctx.exit(1)
    console.note("Nothing is broken.")


def _table(rows: Listed) -> str:
    names = [name for name in rows[0] if name != "family"]  # the names in it say as much
    cells = [[_said(row[name]) for name in names] for row in rows]
    return layout.text([Column(name) for name in names], cells, styled=console.styled_out())


def _said(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)
