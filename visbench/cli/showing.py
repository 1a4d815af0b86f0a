"""What `visbench show` does with its options: one sentence over the library, then a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from visbench import console
from visbench.cli.options import the_data
from visbench.cli.running import options_of
from visbench.errors import UsageError
from visbench.showing.drawing import picture, refuse_place, save


def show_task(task: str, *, out: str, **given: Any) -> None:
    """Draw the picture and say where it lies."""
    data = the_data(given.pop("data"), given.pop("data_option"))
    path = refuse_place(out, data)
    backbones, probes = list(dict.fromkeys(given.pop("backbones"))), given.pop("probes", ()) or (None,)
    for several, what in ((backbones, "backbone"), (probes, "probe")):
        if len(several) > 1:
            raise UsageError(
                f"a picture shows one {what}, and {len(several)} are named; draw one after the other"
            )
    view = given.pop("view", None)
    more = {"view": view} if view else {}
    image = picture(backbones[0], task, data, probe=probes[0], **more, **_words(given))
    save(image, path)
    console.note(f"{path} ({image.width} × {image.height})")


def _words(given: dict[str, Any]) -> dict[str, Any]:
    """The command line's own words as those of `visbench.picture`."""
    words = dict(given)
    chosen = {name: words.pop(name, None) for name in ("worst", "best", "random", "patch")}
    chosen["frames"] = words.pop("frames", ())
    make: Callable[..., Any] = dict
    told: Any = options_of(words, make=make)
    given = {name: value for name, value in told.items() if value is not None or name == "store"}
    return {**chosen, **given}
