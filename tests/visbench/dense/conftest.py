"""Images whose colours say what their maps say, in files as people have them, and the command line over them.

Pictures are 64 × 48; the backbone sees the middle 48 × 48 as a grid of 12 × 12 mean colours.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from visbench.record import Record

# Programs here run for milliseconds and compile for seconds.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=0")

HEIGHT, WIDTH = 48, 64
SPLITS = {"train": 12, "val": 4, "test": 16}  # as many scored as trained on: one shape to compile
EIGHT = 8  # pixels that a map is shifted by


@pytest.fixture(scope="session")
def fine(tiny_backbone) -> Iterator[str]:
    """The name of a backbone that sees 48 × 48 pixels as mean colours of 4 × 4; it has two layers."""
    from extract.backbones.registry import REGISTERED, register_backbone

    register_backbone("fine")(lambda **options: tiny_backbone(48, 4, name="fine"))
    yield "fine"
    REGISTERED.pop("fine", None)


class Line:
    """`visbench` as a person types it, with a store and results of its own."""

    def __init__(self, folder: Path, backbone: str) -> None:
        self.folder, self.backbone = folder, backbone

    @property
    def results(self) -> Path:
        """Where records go."""
        return self.folder / "results" / "visbench.jsonl"

    def __call__(self, *words: Any, code: int = 0) -> Result:
        """Words such as `run depth DATA`; the backbone is added where none is named."""
        from visbench.cli.app import app

        said = [str(word) for word in words]
        if said[0] in ("run", "sweep", "probe"):
            if "--backbone" not in said:
                said += ["--backbone", self.backbone]
            if "--store" not in said:
                said += ["--store", str(self.folder / "store")]
            # CPython 3.11 mixes up how deep each of several threads is in the header of an array.
            said += ["--workers", "1"]
            if "--no-results" not in said:
                said += ["--results", str(self.results)]
        done = CliRunner().invoke(app, said)
        assert done.exit_code == code, f"{done.stdout}{done.stderr}{done.exception!r}"
        return done

    def record(self, *words: Any) -> Record:
        """The one record of a run."""
        (line,) = self(*words, "--json").stdout.splitlines()
        return Record.from_json(line)

    def refused(self, *words: Any) -> str:
        """What a run says that is refused: one line, no traceback, and nothing written."""
        before = self.written()
        done = self(*words, code=2)
        assert done.stdout == ""
        assert "Traceback" not in done.stderr
        said: str = done.stderr.strip().splitlines()[-1]  # what was read before may have told its progress
        assert said.startswith("error: ")
        assert done.stderr.count("error: ") == 1
        assert self.written() == before
        return said

    def written(self) -> list[Path]:
        """All results there are."""
        return sorted((self.folder / "results").rglob("*"))


@pytest.fixture(scope="module")
def line(fine, tmp_path_factory) -> Iterator[Line]:
    """The command line of a module, whose features are extracted once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VISBENCH_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield Line(tmp_path_factory.mktemp("line"), fine)


def colours(rng: np.random.Generator, height: int = HEIGHT, width: int = WIDTH) -> np.ndarray:
    """(h, w, 3) in 0 … 1: a few colours that run into each other."""
    lattice = rng.uniform(0.05, 0.95, (4, 5, 3)).astype(np.float32)
    planes = [Image.fromarray(lattice[:, :, each]) for each in range(3)]
    resized = [np.asarray(plane.resize((width, height), Image.Resampling.BICUBIC)) for plane in planes]
    return np.clip(np.stack(resized, axis=-1), 0, 1)


def pictures(splits: dict[str, int] | None = None, seed: int = 0) -> dict[str, list[np.ndarray]]:
    """Split → (h, w, 3) uint8 pictures, the same ones every time."""
    rng = np.random.default_rng(seed)
    return {
        split: [(colours(rng) * 255).round().astype(np.uint8) for _ in range(count)]
        for split, count in (splits or SPLITS).items()
    }


def shown(picture: np.ndarray) -> np.ndarray:
    """(h, w, 3) red, green and blue in 0 … 1."""
    return picture.astype(np.float32) / 255


Target = Callable[[np.ndarray], np.ndarray]  # of a picture's colours


def planted(
    target: Target, splits: dict[str, list[np.ndarray]], how: str = "planted"
) -> dict[str, list[np.ndarray]]:
    """The map of each picture: its own, that of another picture ("permuted"), or its own 8 pixels on ("shifted")."""
    made = {split: [target(shown(each)) for each in several] for split, several in splits.items()}
    if how == "permuted":
        return {split: several[1:] + several[:1] for split, several in made.items()}
    if how == "shifted":
        return {
            split: [np.roll(each, (EIGHT, EIGHT), axis=(0, 1)) for each in several]
            for split, several in made.items()
        }
    return made


def save(path: Path, array: np.ndarray, **options: Any) -> Path:
    """As the ending says: PNG or TIFF of 8 or 16 bits, .npy, or .npz under one name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".npy":
        np.save(path, array)
    elif path.suffix == ".npz":
        np.savez(path, map=array)
    else:
        Image.fromarray(array).save(path, **options)
    return path


def save_palette(path: Path, labels: np.ndarray) -> Path:
    """An indexed PNG, as VOC has them: the indices are the classes, whatever their colours."""
    path.parent.mkdir(parents=True, exist_ok=True)
    image = Image.fromarray(labels, mode="P")
    image.putpalette(np.random.default_rng(7).integers(0, 256, 768).astype(np.uint8).tobytes())
    image.save(path)
    return path


def save_folders(
    root: Path,
    splits: dict[str, list[np.ndarray]],
    maps: dict[str, list[np.ndarray]],
    folder: str,
    *,
    ending: str = "png",
    saver: Callable[[Path, np.ndarray], Path] = save,
    below: bool = False,
) -> Path:
    """root/split/images beside root/split/folder, or with the splits below them."""
    for split, several in splits.items():
        for number, (picture, target) in enumerate(zip(several, maps[split], strict=True)):
            for kind, write, array, end in (
                ("images", save, picture, "png"),
                (folder, saver, target, ending),
            ):
                home = root / kind / split if below else root / split / kind
                write(home / f"{number:03}.{end}", array)
    return root


def save_taskonomy(
    root: Path,
    splits: dict[str, list[np.ndarray]],
    maps: dict[str, list[np.ndarray]],
    domain: str,
    masks: Callable[[int], np.ndarray] | None = None,
) -> Path:
    """root/<building>/<domain>/…, two buildings a split, and the published kind of table."""
    rows = ["id,train,val,test"]
    for split, several in splits.items():
        for building in (f"{split}one", f"{split}two"):
            marks = ",".join(str(int(split == each)) for each in ("train", "val", "test"))
            rows += [f"{building},{marks}"]
        for number, (picture, target) in enumerate(zip(several, maps[split], strict=True)):
            home, view = root / f"{split}{('one', 'two')[number % 2]}", f"point_{number}_view_1_domain_"
            save(home / "rgb" / f"{view}rgb.png", picture)
            save(home / domain / f"{view}{domain}.png", target)
            if masks is not None:
                save(home / "mask_valid" / f"{view}{domain}.png", masks(number))
    (root / "train_val_test_tiny.csv").write_text("\n".join(rows) + "\n")
    return root


def context(record: Record) -> dict[str, Any]:
    """What a score is read beside, without the metric's name."""
    headline = str(record.headline)
    return {
        name.removesuffix(f"_{headline}"): value
        for name, value in record.context.items()
        if name.endswith(headline)
    }


def text_of(record: Record) -> str:
    """A record without what differs between two runs of one thing."""
    values = record.to_dict()
    for name in ("timestamp", "duration_seconds"):
        values.pop(name)
    return json.dumps(values, sort_keys=True)


@pytest.fixture(scope="session")
def files() -> SimpleNamespace:
    """The functions above: pictures and maps, and the layouts they are saved in."""
    return SimpleNamespace(
        pictures=pictures,
        shown=shown,
        planted=planted,
        save=save,
        save_palette=save_palette,
        folders=save_folders,
        taskonomy=save_taskonomy,
        context=context,
        text_of=text_of,
    )
