"""`visbench extract DATA`: features into the store, nothing else."""

from __future__ import annotations

from typing import Any

import click

from visbench.cli import options as shared
from visbench.cli.common import Command, json_option


@click.command(cls=Command)
@shared.apply(
    shared.data_argument,
    shared.backbone_options,
    click.option(
        "--taps",
        default="default",
        show_default=True,
        metavar="TAP[,…]",
        help="What to keep: default, cls, mean, patches, each with or without @LAYER.",
    ),
    click.option(
        "--layers",
        type=shared.Numbers(int),
        metavar="INT[,…]",
        help="Each tap without a layer at each of these.",
    ),
    shared.data_options,
    shared.extraction_options,
    click.option("--shard", metavar="I/N", help="Only this share of the images, for example 3/64."),
    click.option("--dry-run", is_flag=True, help="Say what would be done and what it costs; do nothing."),
    json_option,
)
def extract(**given: Any) -> None:
    """Extract features of every image of DATA, all taps in one pass; only what the store lacks is computed.

    DATA is a folder (with or without splits and classes), a CSV or Parquet table, or tar shards.

    \b
    visbench extract photos/ --backbone dinov2_vits14 --taps cls,mean,patches
    visbench extract photos/ --backbone dinov2_vits14 --taps cls --layers 2,5,8,11 --shard 0/8
    """
    from visbench.cli.running import extract_data

    extract_data(**given)
