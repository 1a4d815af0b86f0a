"""What a user asked for, before anything is loaded.  No torch."""

from __future__ import annotations

import os
from dataclasses import asdict, dataclass, fields
from functools import cache
from importlib import metadata
from math import isfinite
from pathlib import Path
from typing import Any

from extract.aliases import ALIASES, PACKAGES
from extract.errors import InputError
from extract.spec import READING, digest_json
from extract.wording import counted

PRECISIONS = ("float32", "bf16")
_DISTRIBUTIONS = {
    "timm": ("timm",),
    "open_clip": ("open-clip-torch", "timm"),
    "torchvision": (),
    "package": ("timm",),
    "control": (),
}
LIBRARIES = tuple(_DISTRIBUTIONS)
"""What may stand before the colon of a name."""
CONTROLS_HEED = ("image_size", "crop_pct")
"""Options that mean something to a control, which has neither weights nor tokens."""
FLAGS = {"norm": "--no-norm", "pretrained": "--random-weights", "precision": "--amp"}
"""Options that the command line calls otherwise."""
WEIGHTS = ("checkpoint", "revision")
"""Options that say which weights."""


@dataclass(frozen=True)
class Request:
    """A backbone by name, with its options.

    `name` is an alias, `timm:ARCH[.TAG]`, `open_clip:ARCH/TAG`, `torchvision:NAME[/WEIGHTS]` or a registered
    name.  `mean`, `std`, `interpolation` and `crop_pct` override the model's own transform; `strict=False`
    lets a checkpoint lack parameters, which then are random and counted.
    """

    name: str
    checkpoint: str | None = None
    image_size: int | str = 224  # or "native"
    pretrained: bool = True
    seed: int = 0  # of weights that are random
    projection: bool = False
    norm: bool = True
    crop_pct: float = 1.0
    precision: str = "float32"
    mean: tuple[float, float, float] | None = None
    std: tuple[float, float, float] | None = None
    interpolation: str | None = None
    patch_size: int | None = None
    num_prefix_tokens: int | None = None
    revision: str | None = None
    strict: bool = True

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(
                f'precision "{self.precision}" is not known; there are {" and ".join(PRECISIONS)}'
            )
        if self.image_size != "native" and not (isinstance(self.image_size, int) and self.image_size > 0):
            raise InputError(f'image size "{self.image_size}" is neither a number of pixels nor native')
        if not 0 < self.crop_pct <= 1:
            raise InputError(
                f"crop_pct is {self.crop_pct}; it is the part of the resized side kept, in (0, 1]"
            )
        if self.revision is not None and self.checkpoint is not None:
            raise InputError("a revision is of weights on a hub, and a checkpoint was given; leave one out")
        if not self.pretrained and any(getattr(self, option) is not None for option in WEIGHTS):
            raise InputError(
                "random weights were asked for, and a checkpoint or a revision of weights too; leave one out"
            )
        idle = unheeded(self) if self.library == "control" else ""
        if idle:
            raise InputError(
                f"{self.name} is a control without weights or tokens, so {idle} would change nothing; "
                "leave it out, or name the backbone that it is for"
            )
        for option in ("mean", "std"):
            values = getattr(self, option)
            if values is not None:
                if len(values) != 3:
                    raise InputError(
                        f"{option} has {counted(len(values), 'value')}; it takes three, for red, green and blue"
                    )
                if not all(map(isfinite, values)):
                    raise InputError(f"{option} is {tuple(values)}; all three have to be finite")
                object.__setattr__(self, option, tuple(map(float, values)))
        if self.checkpoint is not None:
            object.__setattr__(self, "checkpoint", os.fspath(self.checkpoint))

    def changed(self) -> dict[str, Any]:
        """The options that are not at their default."""
        options = [each for each in fields(self) if each.name != "name"]
        return {each.name: value for each in options if (value := getattr(self, each.name)) != each.default}

    @property
    def alias(self) -> str | None:
        """The short name that was used, if one was."""
        return self.name if self.name in ALIASES else None

    @property
    def library(self) -> str | None:
        """What stands before the colon of the full name; None for a registered name or an unknown one."""
        return library_of(self.name)

    @property
    def model(self) -> str:
        """What stands after the colon."""
        return ALIASES.get(self.name, self.name).partition(":")[2]

    def key(self) -> str:
        """Equal for requests that load the same backbone with the same software from the same file."""
        full = ALIASES.get(self.name, self.name)
        names = ["torch", "torchvision", *_DISTRIBUTIONS.get(self.library or "", ())]
        if self.library == "package" and self.model in PACKAGES:
            names.append(PACKAGES[self.model])
        return digest_json(
            {
                **asdict(self),
                "full": full,
                "reading": READING,
                "versions": {name: version(name) for name in names},
                "stat": None if self.checkpoint is None else _stat(self.checkpoint),
            }
        )


def unheeded(request: Request) -> str:
    """The options of `request` that mean nothing to a control, as a person may have written them."""
    idle = [option for option in request.changed() if option not in CONTROLS_HEED]
    return ", ".join(f"{each} ({FLAGS[each]})" if each in FLAGS else each for each in idle)


def library_of(name: str) -> str | None:
    """What loads the backbone of that name."""
    before, colon, _ = ALIASES.get(name, name).partition(":")
    return before if colon and before in LIBRARIES else None


@cache
def version(distribution: str) -> str | None:
    """The installed version of a distribution, None where it is not installed."""
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def minor(distribution: str) -> str | None:
    """ "1.0" of 1.0.31: patches of a library are taken to leave a model's numbers alone."""
    full = version(distribution)
    return None if full is None else ".".join(full.split(".")[:2])


def _stat(checkpoint: str) -> tuple[int, ...]:
    try:
        stat = Path(checkpoint).stat()
    except OSError:
        raise InputError(
            f"there is no checkpoint {checkpoint}; give the path of a .pth or .safetensors file"
        ) from None
    return stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
