"""The table of heads: to add a head is to add a row.  Nothing is imported to read it."""

from __future__ import annotations

from dataclasses import dataclass

from probes.errors import InputError

# How the last layer starts.  Hidden layers start as "torch" does under "torch", and LeCun normal under all others.
STARTS = {
    "small": "a tenth of LeCun normal, bias 0: little seed noise, and gradients under any loss",
    "zeros": "0: no seed noise, but stuck where the loss takes a ReLU or the direction of the output (depth, normals)",
    "lecun": "LeCun normal, bias 0",
    "torch": "as PyTorch's Conv2d: weight and bias uniform within 1 / sqrt(fan-in)",
}
NORMS = {"group": "up to 32 groups of channels, at least 8 in each", "layer": "the channels of every cell"}


@dataclass(frozen=True)
class Row:
    """What a head is, how many layers it reads and which settings it has beside `channels` and `start`."""

    name: str
    summary: str  # one line, for `visbench list heads` and --help
    source: str
    path: str  # import path of its Flax module
    layers: tuple[int, int | None]  # the fewest and the most; None: any number
    settings: tuple[str, ...] = ()
    side_by_side: bool = (
        False  # whether many sets of params run faster under vmap than one by one under lax.map
    )


HEADS: dict[str, Row] = {
    row.name: row
    for row in (
        Row(
            name="linear",
            summary="A 1×1 convolution of one layer: what the features say without help (default, headline).",
            source="Alain & Bengio 2016, arXiv:1610.01644",
            path="probes.heads.linear:Linear",
            layers=(1, 1),
            side_by_side=True,
        ),
        Row(
            name="conv_block",
            summary="Twice 3×3 convolution, norm and ReLU, then 1×1, on one layer.",
            source="the usual block; group norm of Wu & He 2018, arXiv:1803.08494",
            path="probes.heads.conv_block:ConvBlock",
            layers=(1, 1),
            settings=("hidden_dim", "norm"),
        ),
        Row(
            name="fpn",
            summary="A feature pyramid over layers or CNN stages: 1×1, top-down sums, 3×3, summed, then 1×1.",
            source="Lin et al. 2017, arXiv:1612.03144; Kirillov et al. 2019, arXiv:1901.02446",
            path="probes.heads.fpn:FPN",
            layers=(1, None),
            settings=("hidden_dim", "norm"),
        ),
        Row(
            name="dpt",
            summary="Two to four layers at several scales, fused coarse to fine by residual units; slow without a GPU.",
            source="Ranftl, Bochkovskiy & Koltun 2021, arXiv:2103.13413",
            path="probes.heads.dpt:DPT",
            layers=(2, 4),
            settings=("hidden_dim", "readout"),
        ),
    )
}

_ABSENT = {
    "hidden_dim": "no hidden layer",
    "norm": "no norm",
    "readout": "no way to read CLS tokens",
}


def check(
    name: str,
    *,
    channels: int,
    layers: int = 1,
    hidden_dim: int | None = None,
    norm: str | None = None,
    readout: bool | None = None,
    start: str | None = None,
) -> Row:
    """The row of a head that can be built so for that many `layers`; InputError otherwise.  None: the default."""
    if name not in HEADS:
        raise InputError(f"there is no head {name!r}; the heads are {', '.join(HEADS)}")
    row = HEADS[name]
    for setting, value in (("hidden_dim", hidden_dim), ("norm", norm), ("readout", readout)):
        if value not in (None, False) and setting not in row.settings:
            others = " or ".join(other.name for other in HEADS.values() if setting in other.settings)
            raise InputError(f"{name} has {_ABSENT[setting]}: leave {setting} out, or use {others}")
    _check_layers(row, layers)
    for setting, number in (("channels", channels), ("hidden_dim", hidden_dim)):
        if number is not None and number < 1:
            raise InputError(f"{setting} is {number}; it must be at least 1")
    for setting, value, known in (("norm", norm, NORMS), ("start", start, STARTS)):
        if value is not None and value not in known:
            raise InputError(f"there is no {setting} {value!r}; use {' or '.join(known)}")
    return row


def _check_layers(row: Row, layers: int) -> None:
    fewest, most = row.layers
    if layers < fewest:
        out = (
            "name one" if fewest == 1 else f"name {fewest} or more, as 2 5 8 11 of a ViT-B, or use conv_block"
        )
        raise InputError(f"{row.name} reads at least {_counted(fewest)} and got {layers}: {out}")
    if most is not None and layers > most:
        out = "name one" if most == 1 else f"keep {most} of them"
        raise InputError(f"{row.name} reads at most {_counted(most)} and got {layers}: {out}, or use fpn")


def _counted(layers: int) -> str:
    return "1 layer" if layers == 1 else f"{layers} layers"
