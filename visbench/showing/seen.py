"""A run of one backbone and one probe, kept together with what it read: what the views are drawn from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from PIL import Image

from extract import plan as planning
from extract.datasets import ImageSet
from extract.images import MAX_PIXELS, read_image
from extract.maps.frame import Frame
from visbench.errors import UsageError
from visbench.frames import frame_side
from visbench.options import Options
from visbench.pipeline import Result, Session
from visbench.record import run_key
from visbench.showing.choosing import Scores
from visbench.showing.page import Heading
from visbench.showing.words import GROUND
from visbench.sources import Source


@dataclass(frozen=True)
class Seen:
    """What was computed, and the session that can read it again; nothing is extracted twice."""

    session: Session
    source: Source
    measure: Any
    result: Result

    @property
    def images(self) -> ImageSet:
        """Those that were scored."""
        return self.session.data.sets["test"]

    @property
    def classes(self) -> tuple[str, ...]:
        """Names by label."""
        return self.session.data.classes

    @property
    def headline(self) -> str:
        """The metric of the run."""
        return str(self.result.record.headline)

    @cached_property
    def rows(self) -> Callable[..., Any]:
        """What the measurement read: by a tap, or for dense tasks by roles and taps."""
        session, source = self.session, self.source
        _, ids, _ = session.seen(source, session.measures)
        plan = planning.make(source.spec, source.taps, ids, store=session.store, dtype=session.options.dtype)
        found: Callable[..., Any] = session.reading(source, plan)
        return found

    @cached_property
    def side(self) -> int | None:
        """Pixels of the frame, if it is known where in a picture it lies."""
        try:
            return frame_side(self.source)
        except UsageError:
            return None

    @property
    def names(self) -> list[list[str]]:
        """What each sample goes by: an image by its name, a pair or triplet by its own and those of its images."""
        images = self.images
        if images.groups is None:
            return [[name] for name in images.names]
        groups = images.groups
        return [
            [name, *(images.names[place] for place in members)]
            for name, members in zip(groups.names, groups.members, strict=True)
        ]

    @property
    def noun(self) -> str:
        """What a sample is."""
        return "image" if self.images.groups is None else self.images.groups.noun

    def scores(
        self, metric: str | None = None, badness: np.ndarray | None = None, *, part: bool = False
    ) -> Scores:
        """Of each sample, by the headline or, where a sample has none of it, by what stands for it."""
        task, found = self.session.task, self.result.per_sample
        metric = metric or self.headline
        if metric not in found:
            raise UsageError(f"{task.name} keeps no {metric} of each {self.noun}; it has {', '.join(found)}")
        base = metric.removesuffix("_per_image")
        lower = (task.better(metric) or task.better(base) or self.result.record.better) == "lower"
        return Scores(metric, np.asarray(found[metric], float), lower, badness, part)

    def picture(self, row: int, side: int) -> Image.Image:
        """What the backbone sees of an image, at `side` pixels; the whole image where that is not known."""
        return look(self.images, row, side, framed=self.side is not None, options=self.session.options)

    def heading(self, shown: str) -> Heading:
        """Dataset, task, backbone and score above; what is shown and the record's key below."""
        record = self.result.record
        value = f"{self.headline} {self.result.metrics[self.headline]:.3f}"
        ends = self.result.intervals.get(self.headline)
        if ends is not None:
            value += f" [{ends[0]:.3f}, {ends[1]:.3f}]"
        probe = f"{record.probe}, " if record.probe else ""
        return Heading(
            f"{self.session.data.name} · {record.task} · {self.source.asked}",
            (f"{probe}tap {self.where} · {value} on {record.split}", shown),
            (f"record {run_key(record)}, visbench {_version()}",),
        )

    @property
    def where(self) -> str:
        """The taps that were read."""
        return " and ".join(self.measure.taps)


def look_at(task: str, data: Any, backbone: Any, probe: str | None, options: Options, **more: Any) -> Seen:
    """Run one backbone and one probe on the data; refused where that would be several runs."""
    if options.controls or options.seeds > 1:
        raise UsageError(
            "a picture shows one fit of one backbone; leave controls and seeds out (random weights are a backbone of "
            "their own: pretrained=False, --random-weights)"
        )
    session = Session(task, data, options, [backbone], [probe], **more)
    if len(session.measures) > 1:
        raise UsageError(
            "a picture shows one measurement, and several are asked for; give one value of each setting"
        )
    (result,) = session.run()
    return Seen(session, session.sources[0], session.measures[0], result)


def look(images: ImageSet, row: int, side: int, *, framed: bool, options: Options) -> Image.Image:
    """The central square of an image as a frame has it, or, not `framed`, the whole image on a square."""
    limit = options.max_pixels or MAX_PIXELS
    pixels = read_image(images.sources[row], name=images.names[row], max_pixels=limit).pixels
    if framed:
        return Image.fromarray(Frame(side).place_image(pixels))
    image = Image.fromarray(pixels)
    scale = side / max(image.size)
    size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
    canvas = Image.new("RGB", (side, side), GROUND)
    canvas.paste(image.resize(size, Image.Resampling.BICUBIC), ((side - size[0]) // 2, (side - size[1]) // 2))
    return canvas


def enlarged(pixels: np.ndarray, side: int, *, smooth: bool = False) -> Image.Image:
    """(h, w, 3) uint8 at `side` pixels; blocks stay blocks unless it is to be `smooth`."""
    how = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    return Image.fromarray(pixels).resize((side, side), how)


def _version() -> str:
    import visbench

    return str(visbench.__version__)
