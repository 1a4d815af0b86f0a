"""Readers: folders, tables, tar shards, arrays, and the datasets of other libraries.  None needs torch."""

from __future__ import annotations

import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from extract.datasets import adapters, folder, memory, shards, table
from extract.datasets.base import SPLITS, ImageSet, Splits, check_scorable, one_set, split_name
from extract.datasets.labels import class_order, renumbered, unite
from extract.datasets.sources import Lazy, Sources
from extract.errors import InputError

__all__ = [
    "SPLITS",
    "ImageSet",
    "Lazy",
    "Sources",
    "Splits",
    "check_scorable",
    "class_order",
    "open_dataset",
    "renumbered",
]


def open_dataset(
    data: Any,
    *,
    name: str | None = None,
    image_column: str | None = None,
    label_column: str | Sequence[str] | None = None,
    split_column: str | None = None,
    allow_empty_classes: bool = False,
) -> Splits:
    """The image sets of `data` by split, with one numbering of classes for all of them.

    `data` is a folder (`root/[split/]class/image`, or images alone), a CSV, TSV or Parquet file, tar shards
    (`photos-{000..003}.tar`), images or (images, labels) in memory, a dataset as torchvision or Hugging Face
    have them, or a mapping of split names to any of these.  Nothing is decoded yet.
    """
    columns: dict[str, Any] = {
        option: value
        for option, value in (
            ("image_column", image_column),
            ("label_column", label_column),
            ("split_column", split_column),
        )
        if value is not None
    }
    if isinstance(data, str | os.PathLike):
        return _open_path(os.fspath(data), name, columns, allow_empty_classes)
    if isinstance(data, Mapping) and not isinstance(data, Splits):
        options = {"name": name, "allow_empty_classes": allow_empty_classes, **columns}
        return _joined(
            {split_name(str(key), "data"): open_dataset(part, **options) for key, part in data.items()}
        )
    if hasattr(data, "features") and hasattr(data, "column_names"):
        _only(columns, ("image_column", "label_column"), "a Hugging Face dataset")
        return adapters.open_hugging_face(data, name=name, **columns)
    _only(columns, (), f"a {type(data).__name__}")
    if isinstance(data, Splits):
        return data
    if isinstance(data, ImageSet):
        return one_set(data)
    if isinstance(data, tuple) and len(data) == 2:
        return memory.open_arrays(*data, name=name)
    if isinstance(data, list | tuple | np.ndarray):
        return memory.open_arrays(data, name=name)
    return adapters.open_torch_style(data, name=name)


def _open_path(text: str, name: str | None, columns: dict[str, Any], allow_empty_classes: bool) -> Splits:
    if "://" in text:
        raise InputError(f"{text} is an address; images are read from local files, so copy them here first")
    path = Path(text).expanduser()
    ending = path.suffix.lower()
    if ending == ".tar":
        _only(columns, ("label_column",), "a tar shard")
        return shards.open_shards(shards.expand(str(path)), name=name, label_key=columns.get("label_column"))
    if not path.exists():
        raise InputError(_missing(path))
    if path.is_dir():
        _only(columns, (), "a folder")
        return folder.open_folder(path, name=name, allow_empty_classes=allow_empty_classes)
    if ending in table.EXTENSIONS:
        return table.open_table(path, name=name, **columns)
    raise InputError(
        f"{path} is neither a folder of images nor a table ({', '.join(table.EXTENSIONS)}) nor a .tar shard"
    )


def _joined(parts: Mapping[str, Splits]) -> Splits:
    """Datasets of one split each as one dataset."""
    sets = {}
    for split, part in parts.items():
        if len(part) != 1:
            raise InputError(
                f"the data for {split} are split into {', '.join(part)} themselves; give one of them"
            )
        sets[split] = replace(next(iter(part.values())), split=split)
    if not sets:
        raise InputError("there are no splits; give a mapping such as {'train': …, 'test': …}")
    hidden = {each for part in parts.values() for each in part.hidden}
    return Splits(unite(sets), hidden=tuple(sorted(hidden)))


def _only(columns: Mapping[str, Any], allowed: Sequence[str], what: str) -> None:
    for option in columns:
        if option not in allowed:
            raise InputError(f"{option} is for tables; {what} has no use for it")


def _missing(path: Path) -> str:
    """That `path` does not exist, and what it may have been meant to be."""
    parent = path.parent
    there = sorted(each.name for each in parent.iterdir()) if parent.is_dir() else []
    close = difflib.get_close_matches(path.name, there, n=1, cutoff=0.6)
    if close:
        return f"there is no {path}; did you mean {parent / close[0]}?"
    return f"there is no {path}" + ("" if parent.is_dir() else f", nor a folder {parent}")
