"""Heads by name, and what is refused before anything is built."""

import subprocess
import sys
from importlib import import_module

import pytest

from probes.errors import InputError
from probes.heads import HEADS, check, make_head


def test_reading_the_table_starts_nothing():
    ask = (
        "import sys; from probes.heads import HEADS, check; check('dpt', channels=1, layers=4); "
        "print({'jax', 'flax', 'numpy', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize("name", HEADS)
def test_every_row_leads_to_a_head_with_the_settings_it_names(name):
    row = HEADS[name]
    assert row.name == name
    assert len(row.summary) < 100
    module, _, kind = row.path.partition(":")
    fields = set(getattr(import_module(module), kind).__dataclass_fields__) - {"parent", "name"}
    assert fields == {"channels", "start", *row.settings}
    head = make_head(name, channels=7, layers=row.layers[0])
    assert head.channels == 7


def test_settings_arrive_and_what_is_none_is_the_default():
    head = make_head("fpn", channels=2, layers=3, hidden_dim=48, norm="layer", start="torch")
    assert (head.hidden_dim, head.norm, head.start) == (48, "layer", "torch")
    assert make_head("fpn", channels=2) == make_head(
        "fpn", channels=2, hidden_dim=256, norm="group", layers=5
    )
    assert make_head("dpt", channels=2, layers=2, readout=True).readout


@pytest.mark.parametrize(
    ("name", "settings", "complaint"),
    [
        ("liner", {}, "the heads are linear, conv_block, fpn, dpt"),
        ("linear", {"layers": 4}, "at most 1 layer and got 4: name one, or use fpn"),
        ("conv_block", {"layers": 2}, "use fpn"),
        ("dpt", {}, "at least 2 layers and got 1.*2 5 8 11.*conv_block"),
        ("dpt", {"layers": 5}, "keep 4 of them"),
        ("fpn", {"layers": 0}, "at least 1 layer and got 0: name one"),
        (
            "linear",
            {"hidden_dim": 64},
            "no hidden layer: leave hidden_dim out, or use conv_block or fpn or dpt",
        ),
        ("linear", {"norm": "group"}, "no norm"),
        ("dpt", {"layers": 4, "norm": "group"}, "dpt has no norm"),
        ("fpn", {"readout": True}, "use dpt"),
        ("fpn", {"norm": "batch"}, "no norm 'batch'; use group or layer"),
        ("linear", {"start": "random"}, "small or zeros"),
        ("fpn", {"hidden_dim": 0}, "hidden_dim is 0"),
        ("linear", {"channels": 0}, "channels is 0"),
    ],
)
def test_what_no_head_can_do_is_refused_with_the_way_out(name, settings, complaint):
    settings = {"channels": 3, **settings}
    for refuse in (check, make_head):
        with pytest.raises(InputError, match=complaint):
            refuse(name, **settings)


def test_readout_declined_is_no_complaint():
    assert make_head("linear", channels=1, readout=False) == make_head("linear", channels=1)
