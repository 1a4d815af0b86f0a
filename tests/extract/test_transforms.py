"""Pixels to what a backbone sees: sizes, crops, numbers, and one transform only."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from extract import transforms
from extract.errors import InputError
from extract.requests import Request
from extract.transforms import CallableTransform, Transform


def picture(height: int, width: int, seed: int = 0) -> np.ndarray:
    """A smooth random picture: noise would measure nothing but the resampling filter's tails."""
    coarse = np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC))


@pytest.mark.parametrize(
    ("height", "width", "resized"),
    [
        (533, 400, (298, 224)),
        (333, 500, (224, 336)),
        (224, 224, (224, 224)),
        (1, 1, (224, 224)),
        (100, 101, (224, 226)),
    ],
)
def test_the_shorter_side_becomes_the_size(height: int, width: int, resized: tuple[int, int]) -> None:
    assert Transform().resized(height, width) == resized


def test_crop_pct_resizes_further_than_it_crops() -> None:
    transform = Transform(crop_pct=0.875)
    assert transform.resized(300, 400) == (256, 341)
    assert transform.place(picture(300, 400)).shape == (3, 224, 224)


def test_crop_offsets_round_down() -> None:
    pixels = np.arange(4 * 7 * 3, dtype=np.uint8).reshape(4, 7, 3)
    placed = Transform(size=4).place(pixels).numpy()
    np.testing.assert_array_equal(placed, pixels[:, 1:5].transpose(2, 0, 1))
    np.testing.assert_array_equal(
        Transform(size=4).place(pixels.transpose(1, 0, 2)).numpy(), pixels[:, 1:5].transpose(2, 1, 0)
    )


def test_resizing_is_that_of_pillow_up_to_rounding() -> None:
    pixels = picture(375, 500)
    placed = Transform().place(pixels).numpy().transpose(1, 2, 0)
    resized = np.asarray(Image.fromarray(pixels).resize((299, 224), Image.Resampling.BICUBIC))[:, 37:261]
    difference = np.abs(placed.astype(int) - resized)
    assert difference.max() <= 2  # each of the two passes rounds to bytes
    assert difference.mean() < 0.05


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 300), st.integers(1, 300), st.sampled_from(transforms.INTERPOLATIONS))
def test_a_plain_picture_stays_plain_at_any_size(height: int, width: int, interpolation: str) -> None:
    pixels = np.full((height, width, 3), (10, 200, 97), np.uint8)
    placed = Transform(size=32, interpolation=interpolation).place(pixels)
    assert placed.shape == (3, 32, 32)
    assert placed.dtype == torch.uint8
    assert placed.flatten(1).unique(dim=1).flatten().tolist() == [10, 200, 97]


def test_a_long_strip_takes_no_memory_and_gives_its_middle() -> None:
    pixels = np.zeros((10, 40_000, 3), np.uint8)
    pixels[:, 19_990:20_010] = 255
    placed = Transform(size=32).place(pixels)
    assert placed.shape == (3, 32, 32)
    assert placed.min() > 240


def test_normalising_is_mean_and_std_of_the_unit_range() -> None:
    batch = torch.zeros(2, 3, 4, 4, dtype=torch.uint8)
    batch[1] = 255
    done = Transform(mean=(0.5, 0.25, 0.0), std=(0.5, 0.25, 2.0)).normalise(batch)
    assert done.dtype == torch.float32
    assert done[0, :, 0, 0].tolist() == pytest.approx([-1, -1, 0])
    assert done[1, :, 0, 0].tolist() == pytest.approx([1, 3, 0.5])
    assert done.is_contiguous(memory_format=torch.channels_last)
    assert batch.max() == 255  # the placed images are left as they are


def test_what_changes_a_pixel_is_described() -> None:
    plain = Transform()
    changed = [
        replace(plain, size=225),
        replace(plain, interpolation="bilinear"),
        replace(plain, mean=(0.5, 0.5, 0.5)),
        replace(plain, std=(0.5, 0.5, 0.5)),
        replace(plain, crop_pct=0.9),
        replace(plain, background=(0, 0, 0)),
        replace(plain, decoder="another"),
    ]
    texts = {json.dumps(transform.describe(), sort_keys=True) for transform in [plain, *changed]}
    assert len(texts) == 8


@pytest.mark.parametrize("wrong", [{"interpolation": "lanczos"}, {"crop_pct": 0.0}, {"std": (0.0, 1.0, 1.0)}])
def test_settings_that_make_no_sense_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        Transform(**wrong)


def test_overrides_are_used_and_noted_with_the_models_own_values() -> None:
    own = {"size": 224, "mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "interpolation": "bicubic"}
    plain, notes = transforms.for_request(Request("x"), **own)  # type: ignore[arg-type]
    assert (plain, notes) == (Transform(**own), ())  # type: ignore[arg-type]
    other, notes = transforms.for_request(Request("x", mean=(0, 0, 0), std=(0.5, 0.5, 0.5)), **own)  # type: ignore[arg-type]
    assert other.mean == (0, 0, 0)
    assert notes == ("mean is (0.0, 0.0, 0.0), not the model's own (0.5, 0.5, 0.5)",)


def resize_then_crop(resize: int, crop: int) -> Any:
    def preprocess(image: Image.Image) -> torch.Tensor:
        image = image.resize((resize, resize))
        edge = (resize - crop) // 2
        pixels = np.asarray(image.crop((edge, edge, edge + crop, edge + crop)), np.float32)
        return torch.from_numpy(pixels / 255).permute(2, 0, 1)

    return preprocess


def test_a_users_preprocess_is_all_that_happens() -> None:
    preprocess = resize_then_crop(64, 48)
    transform = CallableTransform.of(preprocess)
    pixels = picture(90, 120)
    placed = transform.place(pixels)
    assert placed.shape == (3, 48, 48)
    assert torch.equal(placed, preprocess(Image.fromarray(pixels)))
    assert torch.equal(transform.normalise(placed[None])[0], placed)


def test_a_preprocess_is_known_by_its_code_and_settings() -> None:
    one, same, other = (
        CallableTransform.of(resize_then_crop(*size)) for size in ((64, 48), (64, 48), (60, 48))
    )
    assert one.describe() == same.describe()
    assert one.describe() != other.describe()
    assert (
        CallableTransform.of(resize_then_crop(64, 48), name="mine").describe()["preprocess"] == "named mine"
    )


def test_torchvision_transforms_are_known_by_their_settings() -> None:
    from torchvision.transforms import v2

    def make(size: int) -> CallableTransform:
        steps = [v2.ToImage(), v2.Resize((size, size)), v2.ToDtype(torch.float32, scale=True)]
        return CallableTransform.of(v2.Compose(steps))

    assert make(32).describe() == make(32).describe()
    assert make(32).token != make(33).token


def test_a_preprocess_that_cannot_be_told_apart_needs_a_name() -> None:
    import threading

    lock = threading.Lock()

    def preprocess(image: Image.Image) -> torch.Tensor:
        with lock:
            return torch.zeros(3, 8, 8)

    with pytest.raises(InputError, match="preprocess_name="):
        CallableTransform.of(preprocess)
    assert CallableTransform.of(preprocess, name="locked").shape == (3, 8, 8)


def test_a_preprocess_owes_one_size() -> None:
    transform = CallableTransform.of(lambda image: torch.zeros(3, *image.size))
    with pytest.raises(InputError, match=r"gave \(3, 5, 4\) .* and \(3, 256, 256\) for another"):
        transform.place(np.zeros((4, 5, 3), np.uint8))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ({"pixel_values": torch.zeros(1, 3, 8, 8)}, r"gives a dict.*pixel_values\[0\]"),
        (torch.zeros(3, 8, 8, dtype=torch.uint8), "torch.uint8"),
        (torch.zeros(1, 3, 8, 8), r"shape \(1, 3, 8, 8\)"),
    ],
)
def test_a_preprocess_owes_a_float_image(answer: Any, says: str) -> None:
    with pytest.raises(InputError, match=says):
        CallableTransform.of(lambda image: answer)
