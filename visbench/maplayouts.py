"""How data lie on disk for the dense tasks, drawn for --help."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest

_SPLITS = """\
`test` is scored where there is one and `val` then selects the settings; otherwise `val` is scored and a part of
`train` selects."""

_FORMATS = "PNG, TIFF, BMP, .npy, .npz and EXR are read"


def _beside(left: str, right: str) -> str:
    """Two drawings side by side, in a block that click leaves as it is."""
    halves = left.splitlines(), right.splitlines()
    wide = max(map(len, halves[0])) + 4
    lines = [f"  {one:{wide}}{other}".rstrip() for one, other in zip_longest(*halves, fillvalue="")]
    return "\n".join(["\b", *lines])


def _folders(data: str, folder: str, names: str, *more: str) -> str:
    wide = max(len(folder), len("images")) + 3
    images, maps = "images/".ljust(wide), f"{folder}/".ljust(wide)
    above = f"""\
{data}/
  train/
    {images}a.jpg b.png
    {maps}a.png b.png
  val/  (or valid, validation)
    {images}c.jpg
    {maps}c.png
  test/ …"""
    below = f"""\
or {data}/
     images/
       train/  a.jpg b.png
       val/    c.jpg
     {folder}/
       train/  a.png b.png
       val/    c.png"""
    drawn = f"""\
DATA is a folder of images and maps; a map has the name of its image and its size, pixel for pixel:

{_beside(above, below)}

{_SPLITS} {names} --image-dir and --target-dir name other folders. Where {data}/images and {data}/{folder} are not
split, --stems FILE and --train-stems FILE list what is scored and trained on, a name without its ending a line."""
    return "\n\n".join([drawn, *more])


_LABELS = f"""\
A map holds a class number a pixel, 0 … classes - 1, and 255 where it is not scored, in one channel; of palette
PNGs the indices are read. {_FORMATS}, JPEG is refused: it invents classes."""

_VOC = """\
A VOC devkit, the ADE20K challenge and their split lists are known by their folders:

\b
  VOCdevkit/VOC2012/              ADEChallengeData2016/
    JPEGImages/                     images/training/ validation/
    SegmentationClass/              annotations/training/ validation/
    ImageSets/Segmentation/         objectInfo150.txt
      train.txt val.txt"""

_MASKS = f"""\
A mask holds 0 and 1, or 0 and 255, the larger of them foreground. {_FORMATS}."""

_DEPTH = f"""\
A map holds one number a pixel; 0 means not known. Whole numbers need their unit (--target-scale 1000: millimetres),
floats are metres. {_FORMATS}."""

_NYU = """\
NYUv2 as probe3d packs it is known by its files; the folder of either or of both is DATA:

\b
  data/
    nyuv2/nyuv2_snorm_all.pkl   test, and train where there is no nyu_geonet
    nyu_geonet/  *.mat          train, each twentieth frame val"""

_NORMALS = f"""\
A map holds x, y and z as red, green and blue of 8 or 16 bits (0 … 1 is -1 … 1), or as floats; grey is not known.
Normals are the camera's, so z has one sign throughout: `visbench check` tells where it does not. {_FORMATS}."""


def _taskonomy(domain: str, *, mask: bool = False) -> str:
    by_domain = f"""\
taskonomy/[train/ val/ test/]
  rgb/<building>/
    point_0_view_1_domain_rgb.png
  {domain}/<building>/
    point_0_view_1_domain_{domain}.png""" + ("\n  mask_valid/<building>/ …" if mask else "")
    by_building = f"""\
or taskonomy/
     train_val_test_tiny.csv
     <building>/
       rgb/
       {domain}/""" + ("\n       mask_valid/" if mask else "")
    masks = " Where mask_valid is there, the holes it marks are not scored." if mask else ""
    return f"""\
Taskonomy is known by its file names. Buildings, not images, are split: by folders, or by the published table in the
root.{masks}

{_beside(by_domain, by_building)}"""


def _responses(what: str, scale: str) -> str:
    return (
        f"A map holds {what} as one number a pixel, 0 or more. Whole numbers need their unit ({scale}), and a number "
        f"that means not known is named (--target-hole). {_FORMATS}."
    )


_PHOTOS = (
    """\
DATA is a folder of images and needs no maps: they are made from the images.

\b
  photos/
    train/  a.jpg b.png
    val/    c.jpg
    test/   d.jpg

Folders below a split count as well. """
    + _SPLITS
    + " Without splits a fifth is drawn and scored."
)

_BOUNDARIES = (
    """\
DATA is BSDS500 as it is published, or laid out as it is:

\b
  BSDS500/data/                   or images and groundTruth themselves
    images/
      train/ val/ test/  100007.jpg …
    groundTruth/
      train/ val/ test/  100007.mat …

A .mat file holds what several people drew. """
    + _SPLITS
)

LAYOUTS: Mapping[str, str] = {
    "semantic_segmentation": _folders(
        "streets", "labels", "The folder of maps may also be called masks or annotations.", _LABELS, _VOC
    ),
    "generic_segmentation": _folders(
        "things", "masks", "The folder of maps may also be called labels or annotations.", _MASKS
    ),
    "depth": _folders(
        "rooms",
        "depth",
        "The folder of maps may also be called depths.",
        _DEPTH,
        _NYU,
        _taskonomy("depth_zbuffer"),
    ),
    "relative_depth": _folders(
        "rooms",
        "depth",
        "The folder of maps may also be called depths.",
        _DEPTH + " Only the order of depths counts, so that any unit does.",
        _NYU,
        _taskonomy("depth_zbuffer"),
    ),
    "surface_normal": _folders(
        "rooms",
        "normals",
        "The folder of maps may also be called normal.",
        _NORMALS,
        _NYU,
        _taskonomy("normal", mask=True),
    ),
    "edge": _folders(
        "rooms",
        "edges",
        "The folder of maps may also be called edge or edge_texture.",
        _responses("the strength of edges of texture", "--target-scale 1000"),
        _taskonomy("edge_texture"),
    ),
    "keypoints2d": _folders(
        "rooms",
        "keypoints",
        "The folder of maps may also be called keypoints2d.",
        _responses("how much of a keypoint a pixel is", "--target-scale 30"),
        _taskonomy("keypoints2d"),
    ),
    "occlusion_edge": _folders(
        "rooms",
        "edge_occlusion",
        "The folder of maps may also be called occlusion_edges.",
        _responses("the strength of edges of depth", "--target-scale 50"),
        _taskonomy("edge_occlusion", mask=True),
    ),
    "corner": _PHOTOS,
    "orientation": _PHOTOS,
    "boundaries": _BOUNDARIES,
}
"""Task → what DATA is, with blocks that click leaves as they are."""


def layout_of(task: str) -> str:
    """The text for the help of a dense task."""
    return LAYOUTS[task]
