"""Heads by name."""

from importlib import import_module

from flax import linen as nn

from probes.heads import table


def make_head(
    name: str,
    *,
    channels: int,
    layers: int = 1,
    hidden_dim: int | None = None,
    norm: str | None = None,
    readout: bool | None = None,
    start: str | None = None,
) -> nn.Module:
    """The head of that name with `channels` of output, for that many `layers`; None: its default.

    Two heads made alike are equal and hash alike, so that jit traces a configuration once. What a head cannot do is
    refused with an InputError.
    """
    asked = {"hidden_dim": hidden_dim, "norm": norm, "readout": readout, "start": start}
    row = table.check(name, channels=channels, layers=layers, **asked)  # type: ignore[arg-type]
    module, _, kind = row.path.partition(":")
    given = {
        setting: value
        for setting, value in asked.items()
        if value is not None and setting in (*row.settings, "start")
    }
    head: nn.Module = getattr(import_module(module), kind)(channels=channels, **given)
    return head
