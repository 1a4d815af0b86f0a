"""What the classes of a dataset are called, and the sentences that tell a model so."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path
from typing import Any

import numpy as np

from extract.wording import counted
from visbench.errors import UsageError
from visbench.record import digest

TEMPLATE = "a photo of a {}."  # of Radford et al. 2021, arXiv:2103.00020, section 3.1.4
_SHOWN = 5

Names = Mapping[str, tuple[str, ...]]  # class → what it is called


@dataclass(frozen=True)
class Prompts:
    """The sentences about every class: each of its names in each template."""

    names: Names  # in the order of classes
    templates: tuple[str, ...]
    unused: tuple[str, ...] = ()  # classes of a list of names that the data have not
    told: bool = True  # False: the names are those of the classes themselves

    @property
    def texts(self) -> list[str]:
        """(m,) the sentences, class by class."""
        return [
            template.replace("{}", name)
            for names in self.names.values()
            for template in self.templates
            for name in names
        ]

    @property
    def classes(self) -> np.ndarray:
        """(m,) the class that each of `texts` is about."""
        return np.repeat(
            np.arange(len(self.names)), [len(each) * len(self.templates) for each in self.names.values()]
        )

    def describe(self) -> dict[str, Any]:
        """For the record: what was said, by content; how files are called or ordered changes nothing."""
        return {
            "class_names": {
                "digest": digest({name: list(said) for name, said in self.names.items()}),
                "names": sum(map(len, self.names.values())),
            },
            "templates": {
                "digest": digest(list(self.templates)),
                "count": len(self.templates),
                "first": self.templates[0],
            },
        }


def make(classes: Sequence[str], names: Names | None, templates: Sequence[str]) -> Prompts:
    """The prompts for `classes`; a class that is not named, or called like another one, is refused."""
    told, wanted = names is not None, set(classes)
    known = {each: (each.replace("_", " "),) for each in classes} if names is None else names
    lacking = [each for each in classes if each not in known]
    unused = [each for each in known if each not in wanted]
    if lacking:
        have = f"; it names {_some(unused)}, which the data have not" if unused else ""
        raise UsageError(
            f"the class names lack {_some(lacking)} ({len(lacking)} of {counted(len(classes), 'class')}){have}; "
            "give every class of the data a line that begins with it"
        )
    chosen = {each: tuple(sorted(known[each])) for each in classes}
    _refuse_shared(chosen, told)
    return Prompts(chosen, tuple(sorted(templates)), tuple(unused), told)


def read_names(given: Any) -> Names | None:
    """Class → names, from a mapping, a JSON file of one, or a text file; None where nothing is given.

    A line of text is CLASS, a tab, and its name or several with commas between; without a tab the first comma ends
    the class.  There is no list of names in the order of classes: with one line too many, all others would be wrong.
    """
    if given is None:
        return None
    if isinstance(given, Mapping):
        return _checked(given.items(), "class_names")
    path = _path(given, "class names")
    text = _text(path)
    if path.suffix.casefold() == ".json":
        try:
            found = json.loads(text, object_pairs_hook=_Pairs)
        except json.JSONDecodeError as error:
            raise UsageError(f"{path} is not JSON: {error}") from error
        if not isinstance(found, _Pairs):
            raise UsageError(
                f'{path} holds no object; give class names as {{"class": "name", "other": ["name", "synonym"]}}'
            )
        return _checked(found, str(path))
    return _checked([_line(number, line, path) for number, line in _lines(text)], str(path))


def read_templates(given: Any) -> tuple[str, ...]:
    """Templates with {} where the name goes, from a text file with one a line, or as they are."""
    if given is None:
        return (TEMPLATE,)
    if isinstance(given, tuple | list):
        lines, where = list(enumerate(given, 1)), "templates"
    else:
        path = _path(given, "templates")
        lines, where = list(_lines(_text(path))), str(path)
    if not lines:
        raise UsageError(f"{where}: there is no template; give one a line, such as {TEMPLATE}")
    for number, line in lines:
        if not isinstance(line, str) or "{}" not in line:
            raise UsageError(
                f"{where}, line {number}: {line!r} has no {{}} for the name of a class; write {TEMPLATE}"
            )
        if line[0] in "'\"" and line.rstrip(",")[1:].endswith(line[0]):
            raise UsageError(
                f"{where}, line {number}: {line} stands in quotation marks, which a model would read as part of the "
                "text; leave them and commas behind them out"
            )
    return tuple(line for _, line in lines)


class _Pairs(list[tuple[str, Any]]):
    """An object of JSON with its keys as often as they stand there."""


def _line(number: int, line: str, path: Path) -> tuple[str, list[str]]:
    """Class and names of a line."""
    between = "\t" if "\t" in line else ","
    name, found, said = line.partition(between)
    if not found:
        raise UsageError(
            f"{path}, line {number}: {line!r} is no class with a name; write CLASS, a tab (or a comma) and its name, "
            "with CLASS as the data have it"
        )
    return name, said.split(",")


def _checked(pairs: Any, where: str) -> Names:
    """Names without blanks around them; an empty one, or a class that is named twice, is refused."""
    found: dict[str, tuple[str, ...]] = {}
    for key, given in pairs:
        name, several = str(key).strip(), [given] if isinstance(given, str) else given
        if not isinstance(several, list | tuple) or not all(isinstance(each, str) for each in several):
            raise UsageError(f"{where}: the names of {name} are {given!r}; wanted text, or a list of texts")
        said = tuple(dict.fromkeys(" ".join(each.split()) for each in several))
        if not name or not said or not all(said):
            raise UsageError(f'{where}: "{name}" has an empty name; write one, or leave the comma out')
        if name in found:
            raise UsageError(f"{where}: {name} is named twice; put all its names in one place")
        found[name] = said
    if not found:
        raise UsageError(f"{where}: there is no class name; give every class of the data one")
    return found


def _refuse_shared(names: Names, told: bool) -> None:
    """Refuse a name that two classes have, be it in capitals: no text could tell them apart."""
    owner: dict[str, str] = {}
    for each, said in names.items():
        for name in said:
            other = owner.setdefault(name.casefold(), each)
            if other != each:
                way_out = "" if told else " with --class-names"
                raise UsageError(
                    f'{other} and {each} are both called "{name}", so no text tells them apart; give each a name of '
                    f'its own{way_out}, such as "{name} (bird)"'
                )


def _path(given: Any, what: str) -> Path:
    if not isinstance(given, str | PathLike):
        raise UsageError(f"{what} are {given!r}; give the path of a file")
    return Path(fspath(given))


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8 (byte {error.start}); save it as such") from error


def _lines(text: str) -> list[tuple[int, str]]:
    """Numbered lines that are not blank."""
    return [(number, line.strip()) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _some(names: Sequence[str]) -> str:
    more = f", … {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
