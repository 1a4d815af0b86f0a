"""How each dense task opens its data: the layout it finds, and a reader that knows what the numbers mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from extract.datasets import SPLITS, ImageSet, Splits, ade, bsds, open_dataset, voc
from extract.datasets.dense import layout_of, open_dense
from extract.datasets.domains import DOMAIN_OF_TASK
from extract.datasets.maps import TARGET_FOLDERS
from extract.datasets.targets import MapReader, Targets
from extract.maps import made
from extract.maps.readers import DepthReader, ForegroundReader, LabelReader, NormalsReader, ResponseReader
from visbench.errors import UsageError
from visbench.options import Options

HIGH = 10.0  # metres: the last of the values that depth is an expectation of
WHERE = ("image_dir", "target_dir", "stems", "train_stems", "domain")
MakeReader = Callable[[Mapping[str, Any], str], MapReader]  # settings of the maps, and the layout


@dataclass(frozen=True)
class MadeReader:
    """Targets that are made from the picture as a backbone sees it."""

    kind: str

    def describe(self) -> dict[str, Any]:
        """JSON values: all that could change a number."""
        return made.describe(self.kind)

    def read(self, sources: tuple[Any, ...], name: str) -> Any:
        """There is no file."""
        raise UsageError(f"{self.kind} has no maps to read; its targets are made from the images")

    def make(self, pixels: Any) -> Any:
        """The target of an (S, S, 3) picture."""
        return made.MADE[self.kind](pixels)


def semantic_segmentation(data: Any, options: Options, name: str | None = None) -> Splits:
    """Label maps: of VOC and ADE20K the classes are known, of others their number is to be told."""
    return _open("semantic_segmentation", _labels, data, options, name)


def generic_segmentation(data: Any, options: Options, name: str | None = None) -> Splits:
    """Masks of foreground."""
    return _open("generic_segmentation", _foreground, data, options, name)


def depth(data: Any, options: Options, name: str | None = None) -> Splits:
    """Depth maps."""
    return _open("depth", _depth, data, options, name)


def relative_depth(data: Any, options: Options, name: str | None = None) -> Splits:
    """Depth maps, of whatever unit."""
    return _open("relative_depth", _relative_depth, data, options, name)


def surface_normal(data: Any, options: Options, name: str | None = None) -> Splits:
    """Maps of unit normals."""
    return _open("surface_normal", _normals, data, options, name)


def edge(data: Any, options: Options, name: str | None = None) -> Splits:
    """Responses of an edge detector."""
    return _open("edge", _response, data, options, name)


def keypoints2d(data: Any, options: Options, name: str | None = None) -> Splits:
    """Responses of a keypoint detector."""
    return _open("keypoints2d", _response, data, options, name)


def occlusion_edge(data: Any, options: Options, name: str | None = None) -> Splits:
    """Responses at edges where one thing hides another."""
    return _open("occlusion_edge", _log_response, data, options, name)


def boundaries(data: Any, options: Options, name: str | None = None) -> Splits:
    """What several people drew, as BSDS500 has it."""
    if not isinstance(data, str | os.PathLike):
        raise UsageError(f"boundaries reads BSDS500's folders, not a {type(data).__name__}")
    return bsds.open_bsds(Path(data).expanduser(), name=name)


def corner(data: Any, options: Options, name: str | None = None) -> Splits:
    """Images alone: the targets are made from them."""
    return _made(MadeReader("corner"), data, options, name)


def orientation(data: Any, options: Options, name: str | None = None) -> Splits:
    """Images alone: the targets are made from them."""
    return _made(MadeReader("orientation"), data, options, name)


def _open(task: str, make: MakeReader, data: Any, options: Options, name: str | None) -> Splits:
    if not isinstance(data, str | os.PathLike):
        if isinstance(data, Splits):
            return data
        raise UsageError(f"{task} reads a folder of images and maps, not a {type(data).__name__}")
    root, maps = Path(data).expanduser(), dict(options.truth)
    if not root.exists():
        raise UsageError(f"there is no {root}")
    where = {key: maps[key] for key in WHERE if maps.get(key) is not None}
    chosen = {"image_dir", "stems", "train_stems", "target_dir"} & where.keys()
    layout = "folders" if chosen else layout_of(root)
    if maps.get("voc") and layout != "voc":
        raise UsageError(
            f"{root} is no VOC devkit: JPEGImages, SegmentationClass and ImageSets/Segmentation lie in one"
        )
    if layout == "taskonomy":
        where.setdefault("domain", DOMAIN_OF_TASK.get(task))
    reader = make(maps, layout)
    if layout == "folders":
        where.setdefault("target_dir", TARGET_FOLDERS.get(task) or TARGET_FOLDERS[reader.kind])
    return open_dense(root, reader=reader, layout=layout, name=name, **where)


def _made(reader: Any, data: Any, options: Options, name: str | None) -> Splits:
    """Images as any reader of images finds them, each with a target made from it."""

    def with_targets(images: ImageSet) -> ImageSet:
        return replace(images, labels=None, classes=(), targets=Targets(images.names, (), reader))

    opened = open_dataset(_images_alone(data), name=name or _name(data))
    return replace(opened, sets={split: with_targets(images) for split, images in opened.items()})


def _images_alone(data: Any) -> Any:
    """Of a folder of images and maps the images: the maps beside them are no pictures."""
    if not isinstance(data, str | os.PathLike) or not (root := Path(data).expanduser()).is_dir():
        return data
    if (root / "images").is_dir() and len(_folders(root)) > 1:
        return root / "images"
    splits = {folder.name: folder / "images" for folder in _folders(root) if folder.name.lower() in SPLITS}
    return splits if splits and all(folder.is_dir() for folder in splits.values()) else data


def _folders(root: Path) -> list[Path]:
    return [folder for folder in root.iterdir() if folder.is_dir() and not folder.name.startswith(".")]


def _name(data: Any) -> str | None:
    return Path(data).resolve().name if isinstance(data, str | os.PathLike) else None


def _labels(maps: Mapping[str, Any], layout: str) -> MapReader:
    known = {"voc": (len(voc.CLASSES), 0), "ade": (ade.NUM_CLASSES, 1)}.get(layout, (None, 0))
    count, offset = maps.get("num_classes") or known[0], maps.get("label_offset", known[1])
    if count is None and not maps.get("any_label"):  # a check counts them
        raise UsageError(
            "how many classes the label maps have is to be told, not guessed: --num-classes 11, for example, says "
            "that 0 … 10 are classes; `visbench check` shows which labels occur"
        )
    if count is not None and count < 2:
        raise UsageError(f"num_classes is {count}; a score needs at least two classes to tell apart")
    ignored = maps.get("ignore_index", 255)
    return LabelReader(
        num_classes=count,
        ignore_index=_plain(ignored),
        offset=offset,
        palette=_palette(maps.get("palette")),
        key=maps.get("target_key"),
    )


def _foreground(maps: Mapping[str, Any], layout: str) -> MapReader:
    return ForegroundReader(
        foreground=_plain(maps.get("foreground")),
        ignore_index=_plain(maps.get("ignore_index")),
        above=maps.get("foreground_above"),
        key=maps.get("target_key"),
    )


def _depth(maps: Mapping[str, Any], layout: str) -> MapReader:
    crop = maps.get("nyu_crop", layout == "nyu")
    return DepthReader(**_numbers(maps), max_depth=maps.get("max_depth", HIGH), nyu_crop=crop)


def _relative_depth(maps: Mapping[str, Any], layout: str) -> MapReader:
    crop = maps.get("nyu_crop", layout == "nyu")
    return DepthReader(**_numbers(maps), max_depth=maps.get("max_depth"), nyu_crop=crop)


def _response(maps: Mapping[str, Any], layout: str) -> MapReader:
    return ResponseReader(**_numbers(maps))


def _log_response(maps: Mapping[str, Any], layout: str) -> MapReader:
    return ResponseReader(**_numbers(maps), log1p=True)


def _normals(maps: Mapping[str, Any], layout: str) -> MapReader:
    given = {key: maps.get(f"normal_{key}") for key in ("colours", "order", "flip")}
    chosen = {key: value for key, value in given.items() if value is not None}
    return NormalsReader(**chosen, key=maps.get("target_key"))


def _numbers(maps: Mapping[str, Any]) -> dict[str, Any]:
    """What stored numbers mean; Taskonomy's own where nothing is said of them."""
    scale = maps.get("target_scale")
    return {
        "scale": None if scale is None else float(scale),
        "hole": _plain(maps.get("target_hole")),
        "key": maps.get("target_key"),
    }


def _palette(given: Any) -> tuple[tuple[int, int, int], ...] | None:
    """The colour of each class: as told, or of a text file that has red, green and blue of a class a line."""
    if given is None or not isinstance(given, str | os.PathLike):
        return None if given is None else tuple((int(r), int(g), int(b)) for r, g, b in given)
    path = Path(given).expanduser()
    try:
        lines = [line.replace(",", " ").split()[:3] for line in path.read_text().splitlines() if line.strip()]
        return tuple((int(red), int(green), int(blue)) for red, green, blue in lines)
    except (OSError, ValueError) as error:
        raise UsageError(
            f"--palette {path}: wanted a text file with red, green and blue of a class a line, as 128 64 128; {error}"
        ) from error


def _plain(ignored: Any) -> Any:
    """One label or several."""
    if isinstance(ignored, Sequence) and not isinstance(ignored, str):
        return tuple(ignored) if len(ignored) != 1 else ignored[0]
    return ignored
