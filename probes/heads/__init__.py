"""Heads: small networks that read a map off frozen feature maps.

`HEADS` is the table of them, and `check` refuses what no head can do; both start nothing. `make_head` builds a Flax
module, with `head.init(key, maps, cls)["params"]` and `head.apply({"params": params}, maps, cls)`: `maps` is a tuple
of (b, h, w, d), one a layer, `cls` a tuple of (b, d) or None, and what comes out (b, h', w', channels) in float32.
"""

from typing import Any

from probes.heads.table import HEADS, Row, check

__all__ = ["HEADS", "Row", "check", "make_head"]


def __getattr__(name: str) -> Any:
    if name == "make_head":
        from probes.heads.making import make_head

        return make_head
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
