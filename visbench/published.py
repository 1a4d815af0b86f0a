"""Boards inside Markdown pages, drawn from records, so that a published table never drifts from them.

    <!-- visbench:board task=classification records=results/visbench.jsonl -->
    …
    <!-- /visbench:board -->

What stands between the marks is drawn anew by `visbench board --write PAGE.md`, and compared by `--check`.  Paths are
relative to the page.  `visbench:overview` marks a table of backbones × tasks.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any

from visbench import board_text
from visbench.errors import UsageError
from visbench.replacing import replacing
from visbench.standings import Wanted, single, standings

_MARK = re.compile(r"^[ \t]*<!-- *visbench:(\w+) *(.*?) *-->[ \t]*$", re.MULTILINE)
_END = "<!-- /visbench:{kind} -->"
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)")
_KEYS = ("task", "dataset", "probe", "protocol", "board", "by", "records", "backbones", "controls", "heading")


@dataclass(frozen=True)
class Block:
    """A marked place of a page: where its content begins and ends, and what it asks for."""

    line: int
    start: int
    stop: int
    kind: str
    asked: Mapping[str, str]


def render(page: Path, files: Sequence[str] = ()) -> tuple[str, str]:
    """The page as it is, and as its records say it should be; `files` are read where a block names no records."""
    try:
        text = page.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise UsageError(f"there is no {page}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{page} is no UTF-8 text") from None
    found = blocks(text, page)
    if not found:
        raise UsageError(
            f"{page} has no marked block; put <!-- visbench:board task=TASK --> and <!-- /visbench:board --> where a "
            "board shall stand, each on a line of its own"
        )
    new, place = "", 0
    for block in found:
        try:
            content = DRAWN[block.kind](block, page, files)
        except UsageError as error:
            raise UsageError(f"{page}, line {block.line}: {error}") from error
        new += text[place : block.start] + f"\n\n{content.strip()}\n\n"
        place = block.stop
    return text, new + text[place:]


def write(page: Path, files: Sequence[str] = ()) -> bool:
    """Draw the blocks of a page anew; whether anything changed."""
    old, new = render(page, files)
    if old == new:
        return False
    with replacing(page) as draft:
        draft.write_bytes(new.encode())
    return True


def drift(page: Path, files: Sequence[str] = ()) -> str:
    """How the page differs from its records, as a unified diff; empty where it does not."""
    old, new = render(page, files)
    return "".join(
        unified_diff(
            old.splitlines(keepends=True), new.splitlines(keepends=True), f"{page}", "as its records say", n=1
        )
    )


def blocks(text: str, page: Path) -> list[Block]:
    """The marked places, in their order; what stands in a fenced block of code is an example."""
    code = _code(text)
    found: list[Block] = []
    for mark in _MARK.finditer(text):
        if any(low <= mark.start() < high for low, high in code):
            continue
        line = text.count("\n", 0, mark.start()) + 1
        kind, end = mark[1], _END.format(kind=mark[1])
        where = f"{page}, line {line}"
        if kind not in DRAWN:
            raise UsageError(f"{where}: there is no block visbench:{kind}; there are {', '.join(DRAWN)}")
        stop = text.find(end, mark.end())
        following = _MARK.search(text, mark.end())
        if stop < 0 or (following is not None and following.start() < stop):
            raise UsageError(f"{where}: the block is not closed; end it with {end}")
        found.append(Block(line, mark.end(), stop, kind, _asked(mark[2], where)))
    return found


def _asked(words: str, where: str) -> dict[str, str]:
    try:
        pairs = [word.partition("=") for word in shlex.split(words)]
    except ValueError as error:
        raise UsageError(
            f"{where}: {words} cannot be read ({error}); write KEY=VALUE, in quotes where it has blanks"
        ) from None
    asked = {key: value for key, _, value in pairs}
    for key, equals, _ in pairs:
        if not equals or key not in _KEYS:
            raise UsageError(f"{where}: {key} is no KEY=VALUE of a block; its keys are {', '.join(_KEYS)}")
    return asked


def _board(block: Block, page: Path, files: Sequence[str]) -> str:
    board = single(standings(_records(block, page, files), wanted(block)))
    level = int(block.asked.get("heading", 0))
    return board_text.markdown(board, heading=level)


def _overview(block: Block, page: Path, files: Sequence[str]) -> str:
    from visbench import overview

    asked = wanted(block)
    found = standings(_records(block, page, files), asked)
    return overview.markdown(overview.of(found))


def wanted(block: Block) -> Wanted:
    """What a block asks for."""
    asked: dict[str, Any] = dict(block.asked)
    backbones = tuple(filter(None, asked.pop("backbones", "").split(",")))
    controls = asked.pop("controls", "no" if block.kind == "overview" else "yes") != "no"
    for key in ("records", "heading"):
        asked.pop(key, None)
    return Wanted(**asked, backbones=backbones, controls=controls)


def _records(block: Block, page: Path, files: Sequence[str]) -> list[str]:
    named = block.asked.get("records")
    return [str(page.parent / each) for each in named.split(",")] if named else list(files)


def _code(text: str) -> list[tuple[int, int]]:
    """Where fenced blocks of code begin and end."""
    found, place, fence, start = [], 0, "", 0
    for line in text.splitlines(keepends=True):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence, start = mark[1], place
        elif mark and mark[1].startswith(fence) and line.strip() == mark[1]:
            found.append((start, place))
            fence = ""
        place += len(line)
    return [*found, (start, len(text))] if fence else found


DRAWN: dict[str, Callable[[Block, Path, Sequence[str]], str]] = {"board": _board, "overview": _overview}
