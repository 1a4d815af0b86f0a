"""What the command line turns into one sentence.  Imports nothing but names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

import extract.errors
import probes.errors


class UsageError(ValueError):
    """A request that cannot be met: what came, what was wanted and the way out, in one sentence."""


USER_ERRORS = (UsageError, extract.errors.InputError, probes.errors.InputError)


def did_you_mean(word: str, options: Iterable[str]) -> str:
    """` Did you mean "classification"?`, or nothing where nothing is near; upper and lower case are one."""
    known = {option.casefold(): option for option in options}
    near = get_close_matches(word.casefold(), known, n=1)
    return f' Did you mean "{known[near[0]]}"?' if near else ""
