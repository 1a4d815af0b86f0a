"""The layouts drawn for --help: what is drawn can be read, and click keeps the drawings as they are."""

import re

import click
import pytest
from click.testing import CliRunner

from extract.datasets.dense import layout_of as told
from extract.datasets.domains import DOMAIN_OF_TASK
from extract.datasets.maps import TARGET_FOLDERS, open_maps
from extract.maps.readers import DepthReader, ForegroundReader, LabelReader, NormalsReader, ResponseReader
from visbench.maplayouts import LAYOUTS, layout_of

READERS = {
    "semantic_segmentation": LabelReader(num_classes=2),
    "generic_segmentation": ForegroundReader(),
    "depth": DepthReader(),
    "relative_depth": DepthReader(),
    "surface_normal": NormalsReader(),
    "edge": ResponseReader(),
    "keypoints2d": ResponseReader(),
    "occlusion_edge": ResponseReader(),
}


@pytest.mark.parametrize("task", READERS)
def test_the_folder_of_maps_that_is_drawn_is_found(tmp_path, task):
    """For each name the text gives, once above and once below the splits."""
    drawn = re.search(r"^ +(\w+)/ +a\.png b\.png", layout_of(task), re.MULTILINE)[1]
    others = re.search(r"may also be called (.*?)\.", layout_of(task))[1].split(" or ")
    usual = TARGET_FOLDERS.get(task)
    for name in (drawn, *others):
        for paths in (
            ("train/images/a.jpg", f"train/{name}/a.png", "val/images/c.jpg", f"val/{name}/c.png"),
            ("images/train/a.jpg", f"{name}/train/a.png", "images/val/c.jpg", f"{name}/val/c.png"),
        ):
            root = tmp_path / name / paths[0].split("/")[0]
            for path in paths:
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).touch()
            assert told(root) == "folders"
            splits = open_maps(root, reader=READERS[task], target_dir=usual)
            assert [each.targets.names[0].split("/")[-1] for each in splits.values()] == ["a.png", "c.png"]


def test_domains_are_drawn_for_their_tasks():
    for task, domain in DOMAIN_OF_TASK.items():
        assert f"domain_{domain}.png" in LAYOUTS[task]


@pytest.mark.parametrize("task", LAYOUTS)
def test_help_shows_drawings_line_by_line(task):
    command = click.command(help=layout_of(task))(lambda: None)
    shown = CliRunner().invoke(command, ["--help"], terminal_width=90).output
    blocks = re.findall(r"\x08\n(.*?)(?:\n\n|\Z)", layout_of(task), re.DOTALL)
    assert blocks
    for line in "\n".join(blocks).splitlines():
        assert f"  {line}".rstrip() in shown, line
        assert len(line) <= 86
