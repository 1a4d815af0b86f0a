"""BSDS500 (Arbeláez et al. 2011): photographs, and the boundaries that several people drew in each.

    data/images/{train,val,test}/100075.jpg
    data/groundTruth/{train,val,test}/100075.mat

The .mat files are MATLAB's, with a cell of structs `groundTruth`, one an annotator, of which `Boundaries` is read.
How many annotators there are differs between pictures.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import Splits
from extract.datasets.folder import find
from extract.datasets.pairing import Passed, Side, both_there, pair, paired_set, side
from extract.errors import InputError
from extract.maps.frame import Frame

SPLITS = ("train", "val", "test")
_MARKS = "groundTruth"
_NESTED = ("", "data", "BSDS500/data", "BSR/BSDS500/data")  # the last is how the archive unpacks


@dataclass(frozen=True)
class BoundaryReader:
    """Who marked which pixels as a boundary."""

    kind = "boundaries"

    def describe(self) -> dict[str, Any]:
        """JSON values: the kind and how it is brought into a frame."""
        return {
            "kind": self.kind,
            "decoder": "bsds-mat/1",
            "place": "share of annotators, any pixel of a cell",
        }

    def read(self, sources: tuple[Any, ...], name: str) -> np.ndarray:
        """(h, w, a) bool of one picture, a layer an annotator, from its .mat file."""
        layers = [np.asarray(each) for each in _boundaries(sources[0], name)]
        shapes = {layer.shape for layer in layers}
        if (
            not layers
            or len(shapes) > 1
            or layers[0].ndim != 2
            or any(x.dtype.kind not in "bui" for x in layers)
        ):
            said = ", ".join(sorted(f"{layer.shape} {layer.dtype}" for layer in layers)) or "nobody"
            raise InputError(
                f"{name} has boundaries of {said}; each annotator's must be integers of the picture's height and width"
            )
        return np.stack(layers, axis=-1) > 0

    def place(self, marks: np.ndarray, frame: Frame) -> np.ndarray:
        """(h, w, a) to (s, s) float32: of each frame pixel the share of annotators who marked any pixel in it.

        A line one pixel wide stays whole, where the pixel nearest to each centre would leave gaps.
        """
        box = frame.crop_box(*marks.shape[:2])
        if min(marks.shape[:2]) <= frame.size:  # enlarged: some frame pixels hold no centre of a pixel
            placed = frame.place(marks)
        else:
            placed = np.zeros((frame.size, frame.size, marks.shape[2]), bool)
            rows, columns = (
                np.clip(np.floor(places + 0.5), 0, frame.size - 1).astype(int)
                for places in (box.row_positions, box.column_positions)
            )
            y, x, annotator = np.nonzero(marks[box.rows, box.columns])
            placed[rows[y], columns[x], annotator] = True
        shares: np.ndarray = placed.mean(-1, dtype=np.float32)
        return shares


def find_bsds(root: Path) -> Path | None:
    """The folder of `images` and `groundTruth` that `root` is, or holds; None where there is none."""
    for nested in _NESTED:
        folder = root / nested
        if any((folder / _MARKS / split).is_dir() for split in SPLITS):
            return folder
    return None


def open_bsds(root: str | Path, *, reader: BoundaryReader | None = None, name: str | None = None) -> Splits:
    """The splits that are there, each picture with its annotators; nothing opened yet."""
    root = Path(root).expanduser()
    folder = find_bsds(root)
    if folder is None:
        raise InputError(
            f"{root} is not laid out as BSDS500: there is no {_MARKS}/train, val or test; boundaries are read from "
            f"images/train/a.jpg and {_MARKS}/train/a.mat, and the like for val and test"
        )
    sets, passed = {}, Passed()
    for split in SPLITS:
        places = folder / "images" / split, folder / _MARKS / split
        if not both_there(folder, *places):
            continue
        images, marks = side(places[0], passed.note(find(places[0]))), _marks(places[1])
        sets[split] = paired_set(
            pair(images, marks),
            images,
            marks,
            name=name or (folder.resolve().parent.name if folder.name == "data" else folder.resolve().name),
            split=split,
            root=folder,
            reader=reader or BoundaryReader(),
            params={"layout": "bsds", "target_dir": _MARKS},
        )
    return passed.splits(sets)


def _marks(folder: Path) -> Side:
    """The .mat files of a folder by stem, those below it too."""
    paths = sorted(
        path.relative_to(folder).as_posix()
        for path in folder.rglob("*")
        if path.suffix.lower() == ".mat" and not path.name.startswith(".")
    )
    return Side(folder, {os.path.splitext(path)[0]: [path] for path in paths})  # noqa: PTH122


def _boundaries(source: Any, name: str) -> list[Any]:
    """The `Boundaries` of each annotator."""
    from scipy.io import loadmat

    try:
        content = loadmat(source, variable_names=[_MARKS])
    except NotImplementedError as error:  # MATLAB 7.3 writes HDF5
        raise InputError(
            f"{name} is a MATLAB 7.3 file, which is HDF5 and not read; save it again with -v7"
        ) from error
    except OSError as error:
        raise InputError(f"{name} cannot be read: {error.strerror or error}") from error
    except MemoryError:
        raise
    except Exception as error:  # of a damaged file SciPy raises whatever it stumbles on
        raise InputError(
            f"{name} is damaged or no MATLAB file ({error}); copy it from the dataset again"
        ) from error
    cells = content.get(_MARKS)
    if cells is None:
        raise InputError(f"{name} holds no {_MARKS}; the .mat files of BSDS500 do, one struct an annotator")
    try:
        return [cell["Boundaries"][0, 0] for cell in np.ravel(cells)]
    except (IndexError, KeyError, ValueError, TypeError) as error:
        raise InputError(
            f"the {_MARKS} of {name} is no cell of structs with Boundaries, as that of BSDS500 is"
        ) from error
