"""A suite file: what it may hold, and what is wrong with one, before anything of it is opened."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from visbench.errors import UsageError, did_you_mean
from visbench.grid import make_axis, parse_axis
from visbench.suiting import words
from visbench.suiting.words import Settings
from visbench.task import Task
from visbench.tasks import TASKS, get_task

_TOP = ("results", "backbones", "controls", "defaults", "tasks")
_OF_TABLE = ("task", "data", "backbones", "sweep")


@dataclass(frozen=True)
class Table:
    """One `[[tasks]]` of a file, with the defaults and backbones that hold for it."""

    number: int  # from 1, as they stand in the file
    where: str  # how a message names it
    task: Task
    data: str
    groups: tuple[tuple[tuple[str, ...], dict[str, Any]], ...]  # backbones, and the options that they share
    grid: dict[str, Any] | None  # None: no sweep
    inherited: bool  # whether its controls are those of the whole file, which hold where a task takes them

    @property
    def title(self) -> str:
        """For people."""
        return f"{self.number}  {self.task.name} · {self.data}"


@dataclass(frozen=True)
class Suite:
    """A file that was read: where its records go, and its tables."""

    name: str
    results: str | None
    tables: tuple[Table, ...]


def read(file: str | Path | Mapping[str, Any], only: Sequence[str] = ()) -> Suite:
    """Read a TOML file, or a mapping of the same layout, whose paths are then those of the working folder.

    `only` keeps tables by their task or number.
    """
    if isinstance(file, Mapping):
        name, base, held = "the suite", Path(), dict(file)
    else:
        path = Path(file).expanduser()
        name, base, held = str(file), path.parent, _loaded(path)
    _refuse_unknown(held, _TOP, name)
    tables = held.get("tasks")
    if not isinstance(tables, list) or not tables or not all(isinstance(each, Mapping) for each in tables):
        raise UsageError(f'{name} has no tasks; a task is a table [[tasks]] with task = "…" and data = "…"')
    results = held.get("results")
    if not isinstance(results, str | None):
        raise UsageError(f"{name}: results is {results!r}; it names a file")
    read = [_table(number, each, held, name, base) for number, each in enumerate(tables, start=1)]
    _refuse_idle_defaults(held.get("defaults", {}), read, name)
    return Suite(name, results and words.placed(results, base), tuple(_chosen(read, only, name)))


def _loaded(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        beside = path.parent.glob("*.toml") if path.parent.is_dir() else ()
        near = did_you_mean(path.name, [each.name for each in beside])
        raise UsageError(f"there is no suite file {path}.{near}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{path} is no TOML: {str(error)[:1].lower()}{str(error)[1:]}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {(error.strerror or str(error)).lower()}") from error


def _table(number: int, held: Mapping[str, Any], top: Mapping[str, Any], name: str, base: Path) -> Table:
    where = f"{name}, [[tasks]] {number}"
    asked = held.get("task")
    if not isinstance(asked, str):
        raise UsageError(f'{where} has no task; it is told as task = "classification"')
    if asked not in TASKS:
        raise UsageError(
            f'{where}: there is no task "{asked}".{did_you_mean(asked, TASKS)} `visbench list tasks` names all.'
        )
    where, task = f"{where} ({asked})", get_task(asked)
    data = held.get("data")
    if not isinstance(data, str) or not data:
        raise UsageError(f'{where} has no data; it is told as data = "photos/", relative to the file')
    place = Path(words.placed(data, base)).expanduser()
    if "://" not in data and not any(each in data for each in "*{[") and not place.exists():
        beside = place.parent.iterdir() if place.parent.is_dir() else ()
        raise UsageError(f"{where}: there is no {place}.{did_you_mean(place.name, [p.name for p in beside])}")
    grid = _grid(held["sweep"], where) if "sweep" in held else None
    sweeps = grid is not None or "shots" in held
    try:
        command = words.command_of(task, sweeps=sweeps)
    except UsageError as error:
        raise UsageError(f"{where}: {error}") from error
    return Table(
        number,
        where,
        task,
        str(place),
        _groups(command, held, top, where, name, base),
        (grid or {}) if sweeps else None,
        "controls" in top and not {"control", "controls"} & set(held),
    )


def _groups(
    command: click.Command,
    held: Mapping[str, Any],
    top: Mapping[str, Any],
    where: str,
    name: str,
    base: Path,
) -> tuple[tuple[tuple[str, ...], dict[str, Any]], ...]:
    """The backbones that share their options, with all that the command is told for them."""
    names = words.names_of(command)
    shared = {"controls": top["controls"]} if "controls" in top else {}
    defaults = _of_this(top.get("defaults", {}), names, f"{name}, [defaults]")
    own = words.read({key: held[key] for key in held if key not in _OF_TABLE}, names, where)
    settings: Settings = {**words.read(shared, names, name), **defaults, **own}
    listed = held["backbones"] if "backbones" in held else top.get("backbones")
    said = f"{where}: backbones" if "backbones" in held else f"{name}: backbones"
    groups: dict[str, tuple[list[str], dict[str, Any]]] = {}
    for backbone, more in _backbones(listed, said):
        its = {key: value for key, value in names.items() if value.option.name in words.OF_BACKBONE}
        told = {**settings, **words.read(more, its, f"{said}, {backbone}")}
        group = groups.setdefault(
            json.dumps(more, sort_keys=True), ([], words.parsed(command, told, where, base))
        )
        if backbone not in group[0]:
            group[0].append(backbone)
    return tuple((tuple(each), given) for each, given in groups.values())


def _backbones(listed: Any, where: str) -> Iterable[tuple[str, dict[str, Any]]]:
    if not isinstance(listed, list) or not listed:
        raise UsageError(
            f"{where} is {listed!r}; it lists names, or tables as "
            '{name = "vit_small_patch16_224", checkpoint = "w.pth"}'
        )
    for each in listed:
        more = dict(each) if isinstance(each, Mapping) else {"name": each}
        backbone = more.pop("name", None)
        if not isinstance(backbone, str):
            raise UsageError(f"{where}: {each!r} has no name")
        yield backbone, more


def _of_this(defaults: Any, names: Mapping[str, words.Switch], where: str) -> Settings:
    """The defaults that this task has an option for."""
    if not isinstance(defaults, Mapping):
        raise UsageError(f"{where} is {defaults!r}; it is a table of options")
    return words.read(
        {key: value for key, value in defaults.items() if key.replace("-", "_") in names}, names, where
    )


def _refuse_idle_defaults(defaults: Mapping[str, Any], tables: Sequence[Table], name: str) -> None:
    """Refuse a default that no task of the file has a use for: most often it is misspelt."""
    known: dict[str, Any] = {}
    for table in tables:
        known |= words.names_of(words.command_of(table.task, sweeps=table.grid is not None))
    for key in defaults:
        if key.replace("-", "_") not in known:
            raise UsageError(
                f'{name}, [defaults]: no task here has an option "{key}".{did_you_mean(key, known)}'
            )


def _grid(held: Any, where: str) -> dict[str, Any]:
    """The axes of `sweep`: texts as `visbench sweep --grid` takes them, or lists of values."""
    if not isinstance(held, Mapping):
        raise UsageError(f'{where}: sweep is {held!r}; it maps axes to values, as {{lr = "1e-3:1e-1:log4"}}')
    try:
        return {
            key: parse_axis(f"{key}={value}")[1] if isinstance(value, str) else make_axis(key, value)
            for key, value in held.items()
        }
    except UsageError as error:
        raise UsageError(f"{where}: sweep: {error}") from error


def _refuse_unknown(held: Mapping[str, Any], known: Sequence[str], where: str) -> None:
    for key in held:
        if key not in known:
            raise UsageError(
                f'{where}: there is no key "{key}" at the top.{did_you_mean(key, known)} '
                f"It has {', '.join(known)}; options of every task stand in [defaults]."
            )


def _chosen(tables: Sequence[Table], only: Sequence[str], name: str) -> list[Table]:
    for each in only:
        known = {word for table in tables for word in (table.task.name, str(table.number))}
        if each not in known:
            raise UsageError(f'{name} has no task "{each}".{did_you_mean(each, known)}')
    return [t for t in tables if not only or {t.task.name, str(t.number)} & set(only)]
