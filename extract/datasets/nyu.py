"""NYUv2 (Silberman et al. 2012) as probe3d packs it (El Banani et al. 2024), or as its authors publish it.

    nyuv2/nyuv2_snorm_all.pkl         1,449 labelled frames: 654 to test, 795 to train where there is no GeoNet
    nyu_geonet/*.mat                  30,816 frames with the normals of GeoNet (Qi et al. 2018), to train
    nyuv2/nyu_depth_v2_labeled.mat    the published file, depth alone; with splits.mat beside it; needs h5py

Depth is the sensor's, not filled in, in metres; normals are GeoNet's (train) and Ladický's (test).  The customary
crop is the metric's business.  Frames are arrays made when they are asked for, so their digests are taken anew
in every run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets.base import ImageSet, Splits
from extract.datasets.folder import readable
from extract.datasets.pickled import load_arrays
from extract.datasets.sources import Lazy
from extract.datasets.targets import MapReader, Targets
from extract.errors import InputError, MissingExtraError, UnreadableImageError

PACKED, GEONET, PUBLISHED, SPLIT_FILE = (
    "nyuv2_snorm_all.pkl",
    "nyu_geonet",
    "nyu_depth_v2_labeled.mat",
    "splits.mat",
)

_HEIGHT, _WIDTH = 480, 640  # GeoNet's frames have a row and a column more
_SUBTRACTED = 2 * np.array([122.175, 116.169, 103.508])  # from GeoNet's images, in RGB order
_BAD = (21181, 6919)  # of GeoNet's files in order of name: the two that probe3d leaves out
_EVERY = 20  # of GeoNet's files is probe3d's validation set

Read = Callable[[int], np.ndarray]


def find_packed(root: Path) -> dict[str, Path]:
    """What of NYUv2 lies in `root` or its folder nyuv2, by the names above."""
    places = [root, root / "nyuv2"] if root.is_dir() else []
    found = {
        name: place / name
        for name in (PACKED, GEONET, PUBLISHED)
        for place in places[::-1]
        if (place / name).exists()
    }
    if root.name == GEONET and root.is_dir():
        found[GEONET] = root
    if root.is_file() and root.suffix == ".pkl":
        found[PACKED] = root
    if root.is_file() and root.name == PUBLISHED:
        found[PUBLISHED] = root
    return found


def open_nyu(root: str | Path, *, reader: MapReader, name: str = "nyuv2") -> Splits:
    """`train`, `val` (each twentieth frame of GeoNet) and `test`, of what is there; the reader's kind chooses the maps.

    Trained anew on train and val once the settings are chosen, a probe sees what probe3d's does.
    """
    root = Path(root).expanduser()
    if reader.kind not in ("depth", "normals"):
        raise InputError(
            f"NYUv2 is packed with depth and normals, not with {reader.kind}; lay maps of your own out as "
            "train/images and train/labels"
        )
    scale = getattr(reader, "scale", None)
    if scale not in (None, 1):
        raise InputError(
            f"NYUv2 is packed in metres, so no scale is needed, and {scale:g} was given; leave it out"
        )
    found = find_packed(root)
    if not found:
        raise InputError(
            f"{root} holds none of {PACKED}, {GEONET}/ and {PUBLISHED}; pack NYUv2 as probe3d's "
            "data_processing does, or lay images and maps out in folders"
        )
    sets = _packed(found[PACKED], reader, name) if PACKED in found else {}
    if not sets and PUBLISHED in found:
        sets = _published(found[PUBLISHED], reader, name)
    if GEONET in found:
        sets |= _geonet(found[GEONET], reader, name)
    return Splits({split: sets[split] for split in ("train", "val", "test") if split in sets})


def _set(
    file: Path, split: str, names: Sequence[str], image: Read, target: Read, reader: MapReader, name: str
) -> ImageSet:
    names = tuple(names)
    params = {"layout": "nyuv2", "packed": file.name}
    targets = Targets(names, (Lazy(len(names), target),), reader, params=params)
    return ImageSet(
        name,
        split,
        Lazy(len(names), image),
        names,
        targets=targets,
        folders=(file if file.is_dir() else file.parent,),
    )


def _packed(file: Path, reader: MapReader, name: str) -> dict[str, ImageSet]:
    """probe3d's pickle: channels first, mapped from the file and never loaded whole."""
    arrays = load_arrays(file)
    wanted = "depths" if reader.kind == "depth" else "snorms"
    lacking = [key for key in ("images", wanted, "test_indices", "train_indices") if key not in arrays]
    if lacking:
        raise InputError(
            f"{file} has no {', '.join(lacking)} (it has {', '.join(arrays)}); pack it with probe3d's create_nyu_pkl.py"
        )
    images, maps = arrays["images"], arrays[wanted]
    shape = (len(images), *images.shape[2:])
    fits = images.ndim == 4 and images.shape[1] == 3 and images.dtype == np.uint8
    if not fits or maps.shape != (shape if reader.kind == "depth" else images.shape):
        raise InputError(
            f"{file} has images {images.shape} {images.dtype} and {wanted} {maps.shape}; wanted are (n, 3, h, w) uint8 "
            "and maps of the same frames"
        )
    sets = {}
    for split in ("train", "test"):
        rows = [int(row) for row in np.ravel(arrays[f"{split}_indices"])]
        if rows and not 0 <= min(rows) <= max(rows) < len(images):
            raise InputError(
                f"{file} lists {split} frames {min(rows)} … {max(rows)} of {len(images)}; pack it again"
            )

        def image(position: int, rows: Sequence[int] = rows) -> np.ndarray:
            return np.ascontiguousarray(images[rows[position]].transpose(1, 2, 0))

        def target(position: int, rows: Sequence[int] = rows) -> np.ndarray:
            frame = np.asarray(maps[rows[position]], np.float32)
            return frame if frame.ndim == 2 else frame.transpose(1, 2, 0).copy()

        names = [f"{file.name}/{row:04}" for row in rows]
        sets[split] = _set(file, split, names, image, target, reader, name)
    return sets


def _geonet(folder: Path, reader: MapReader, name: str) -> dict[str, ImageSet]:
    """One MATLAB file a frame: `img` less twice the mean colour, `depth` and `norm`."""
    paths = sorted(
        path for path in folder.iterdir() if path.suffix == ".mat" and not path.name.startswith(".")
    )
    if not paths:
        raise InputError(f"{folder} holds no .mat file; unpack GeoNet's data into it")
    kept = [path for i, path in enumerate(paths) if len(paths) <= max(_BAD) or i not in _BAD]
    key = "depth" if reader.kind == "depth" else "norm"
    sets = {}
    for split in ("train", "val"):
        mine = [path for i, path in enumerate(kept) if (i % _EVERY == 0) == (split == "val")]

        def image(position: int, mine: Sequence[Path] = mine) -> np.ndarray:
            shown = np.rint(_variable(mine[position], "img", 3) + _SUBTRACTED)
            return np.asarray(np.clip(shown, 0, 255), np.uint8)

        def target(position: int, mine: Sequence[Path] = mine) -> np.ndarray:
            return np.asarray(_variable(mine[position], key, 2 if key == "depth" else 3), np.float32)

        names = [f"{folder.name}/{readable(path.name)}" for path in mine]
        if mine:
            sets[split] = _set(folder, split, names, image, target, reader, name)
    return sets


def _variable(path: Path, key: str, axes: int) -> np.ndarray:
    """(h, w) or (h, w, 3) of a frame, its spare row and column cut off."""
    from scipy.io import loadmat  # only here: it takes a while to import

    try:
        found = loadmat(path, variable_names=[key]).get(key)
    except OSError as error:
        raise UnreadableImageError(
            path.name, error.strerror or str(error), lasting=error.errno is None
        ) from error
    except (ValueError, TypeError, NotImplementedError, MemoryError) as error:
        raise UnreadableImageError(path.name, f"it is no MATLAB 5 file ({error})") from error
    except Exception as error:  # zlib's and scipy's own of a damaged file
        raise UnreadableImageError(path.name, str(error) or type(error).__name__) from error
    if found is None or found.ndim != axes or (axes == 3 and found.shape[2] != 3):
        shape = "nothing" if found is None else f"an array of {found.shape}"
        raise UnreadableImageError(path.name, f"it has {shape} under {key!r}")
    return np.asarray(found[:_HEIGHT, :_WIDTH])


def _published(file: Path, reader: MapReader, name: str) -> dict[str, ImageSet]:
    """The labelled frames as published, MATLAB 7.3: axes reversed, splits in a file of their own."""
    if reader.kind != "depth":
        raise InputError(f"{file} has no normals; pack them with it as probe3d does ({PACKED})")
    try:
        import h5py
    except ImportError as error:
        raise MissingExtraError(f"{file} is an HDF5 file, which needs h5py: pip install h5py") from error
    from scipy.io import loadmat

    splits = file.with_name(SPLIT_FILE)
    if not splits.is_file():
        raise InputError(
            f"{splits} is missing, which says what of {PUBLISHED} is trained on; it is published beside it"
        )
    try:
        content: Any = h5py.File(file, "r")  # open as long as its frames may be asked for
        images, depths = content["images"], content["rawDepths"]
        numbers = loadmat(splits, variable_names=["trainNdxs", "testNdxs"])
        chosen = {split: np.ravel(numbers[f"{split}Ndxs"]).astype(int) - 1 for split in ("train", "test")}
    except (OSError, KeyError, ValueError) as error:
        raise InputError(f"{file} or {SPLIT_FILE} beside it cannot be read: {error}") from error
    sets = {}
    for split, rows in chosen.items():

        def image(position: int, rows: np.ndarray = rows) -> np.ndarray:
            return np.ascontiguousarray(images[rows[position]].transpose(2, 1, 0))

        def target(position: int, rows: np.ndarray = rows) -> np.ndarray:
            return np.ascontiguousarray(depths[rows[position]].T, np.float32)

        names = [f"{file.name}/{row:04}" for row in rows]
        sets[split] = _set(file, split, names, image, target, reader, name)
    return sets
