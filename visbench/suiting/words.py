"""Keys of a file as the options of a command: every key is a long name of `visbench run TASK`, read as it reads it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from visbench.cli.run import run, task_command
from visbench.cli.sweep import task_command as sweep_command
from visbench.errors import UsageError, did_you_mean
from visbench.task import Task

# What a file says in another place or a whole suite is told once.
_ELSEWHERE = {"data", "data_option", "backbones", "axes", "plot", "dry_run", "as_json"}
_ELSEWHERE |= {"results", "no_results", "resume"}
# What `visbench run` says of the backbone, which each may be told for itself.
OF_BACKBONE = (
    *("checkpoint", "revision", "image_size", "crop_pct", "projection", "norm", "amp", "random_weights"),
)


class Switch(NamedTuple):
    """A way to say an option: `--refit` is `--no-refit` turned round."""

    option: click.Option
    turned: bool = False


Settings = dict[str, tuple[str, Any]]  # the option's own name → (the name it was said by, its value)


def command_of(task: Task, *, sweeps: bool) -> click.Command:
    """`visbench run TASK`, or `visbench sweep TASK`."""
    if sweeps and not task.fitted:
        raise UsageError(
            f"{task.name} learns nothing, so there is nothing to sweep; leave sweep and shots out"
        )
    if sweeps:
        return sweep_command(task)
    return run.commands.get(task.name) or task_command(task)


def names_of(command: click.Command) -> dict[str, Switch]:
    """Every name that a key may have, with what it says."""
    found: dict[str, Switch] = {}
    for option in command.params:
        if not isinstance(option, click.Option) or option.name is None or option.name in _ELSEWHERE:
            continue
        for word in option.opts:
            name = _key(word)
            found[name] = Switch(option)
            if option.is_flag and name.startswith("no_"):
                found[name.removeprefix("no_")] = Switch(option, turned=True)
        for word in option.secondary_opts:
            found[_key(word)] = Switch(option, turned=True)
        found.setdefault(option.name, Switch(option))
    return found


def read(keys: Mapping[str, Any], names: Mapping[str, Switch], where: str) -> Settings:
    """The options that keys mean; an unknown key is refused with the nearest one."""
    found: Settings = {}
    for key, value in keys.items():
        name = _key(key)
        if name not in names:
            raise UsageError(f'{where}: there is no key "{key}".{did_you_mean(name, _shown(names))}')
        switch = names[name]
        if switch.turned:
            if not isinstance(value, bool):
                raise UsageError(f"{where}: {key} is {value!r}; it is true or false")
            value = not value
        own = str(switch.option.name)
        if own in found:
            raise UsageError(f"{where}: {found[own][0]} and {key} are one option; give one of them")
        found[own] = key, value
    return found


def parsed(command: click.Command, settings: Settings, where: str, base: Path) -> dict[str, Any]:
    """What the command gets from these settings, converted and checked as if they had been typed."""
    options = {option.name: option for option in command.params if isinstance(option, click.Option)}
    words: list[str] = []
    for name, (key, value) in settings.items():
        words += _typed(options[name], value, f"{where}: {key}", base)
    try:
        given: dict[str, Any] = command.make_context(str(command.name), [*words, "--", "DATA"]).params
    except click.ClickException as error:
        said = " ".join(error.format_message().split())
        raise UsageError(f"{where}: {said[:1].lower()}{said[1:]}") from error
    return {name: value for name, value in given.items() if name not in _ELSEWHERE}


def _typed(option: click.Option, value: Any, where: str, base: Path) -> list[str]:
    """The words a person would type; paths are relative to the file that says them."""
    if option.is_flag:
        if not isinstance(value, bool):
            raise UsageError(f"{where} is {value!r}; it is true or false")
        said = option.opts if value else option.secondary_opts
        return [_long(said)] if said else []
    if isinstance(value, Mapping):
        if option.name != "columns":
            raise UsageError(f"{where} is a table; it wants {option.make_metavar(_bare())}")
        value = [f"{part}={name}" for part, name in value.items()]
    values = list(value) if isinstance(value, Sequence) and not isinstance(value, str) else [value]
    if any(isinstance(each, bool) or not isinstance(each, str | int | float) for each in values):
        raise UsageError(f"{where} is {value!r}; it wants {option.make_metavar(_bare())}")
    texts = [placed(str(each), base) if _is_path(option) else str(each) for each in values]
    long = _long(option.opts)
    return [f"{long}={text}" for text in (texts if option.multiple else [",".join(texts)])]


def placed(text: str, base: Path) -> str:
    """A path as seen from the folder of the file that names it."""
    if "://" in text or Path(text).expanduser().is_absolute():
        return text
    return str(base / text)


def _is_path(option: click.Option) -> bool:
    return option.metavar == "FILE" or option.name == "store"


def _key(word: str) -> str:
    return word.lstrip("-").replace("-", "_")


def _long(words: Iterable[str]) -> str:
    return next(word for word in words if word.startswith("--"))


def _shown(names: Mapping[str, Switch]) -> list[str]:
    return [*names, "task", "data", "sweep", "backbones"]


def _bare() -> click.Context:
    return click.Context(click.Command("visbench"))
