"""Raw numbers become what they mean, or the option that says it is asked for."""

import io
import json
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image

from extract.datasets.targets import MapReader
from extract.errors import InputError
from extract.images import Header
from extract.maps.readers import (
    DepthReader,
    ForegroundReader,
    LabelReader,
    NormalsReader,
    ResponseReader,
    check_fits,
    settled,
    suspicious,
)


def encoded(values, kind="PNG", **options):
    stream = io.BytesIO()
    image = values if isinstance(values, Image.Image) else Image.fromarray(values)
    image.save(stream, kind, **options)
    return stream.getvalue()


def read(reader, *sources):
    found = reader.read(sources, "a.png")
    assert found.flags.c_contiguous
    return found


def refused(reader, *sources):
    """The one sentence."""
    with pytest.raises(InputError) as caught:
        reader.read(sources, "a.png")
    text = str(caught.value)
    assert "a.png" in text
    assert "\n" not in text
    return text


def row(*values, dtype="u1"):
    return np.array([values], dtype)


READERS = [
    LabelReader(21),
    ForegroundReader(),
    DepthReader(1000.0),
    NormalsReader(),
    ResponseReader(30.0, log1p=True, mask=True),
]


@pytest.mark.parametrize("reader", READERS, ids=lambda reader: reader.kind)
def test_a_reader_is_a_map_reader_known_by_its_fields(reader):
    known: MapReader = reader
    described = known.describe()
    assert json.loads(json.dumps(described)) == described
    assert described["kind"] == reader.kind
    assert {each.name for each in fields(reader)} - {"max_pixels"} <= set(described)
    assert hash(reader) == hash(replace(reader))
    assert replace(reader, key="depth").describe() != described
    assert replace(reader, max_pixels=7).describe() == described
    assert "more than 3 pixels" in refused(replace(reader, max_pixels=3), np.zeros((2, 2), np.uint8))


# Labels


def test_a_voc_palette_map_keeps_its_classes_and_its_void():
    image = Image.fromarray(row(0, 1, 15, 255))
    image.putpalette(np.random.default_rng(0).integers(0, 256, 768, np.uint8).tobytes())
    labels = read(LabelReader(21), encoded(image))
    assert labels.dtype == np.uint8
    assert labels.tolist() == [[0, 1, 15, 255]]


def test_ade_maps_count_from_one():
    assert read(LabelReader(150, offset=1), row(0, 1, 150)).tolist() == [[255, 0, 149]]
    assert "151" in refused(LabelReader(150, offset=1), row(0, 1, 151))


@pytest.mark.parametrize("dtype", ["u1", "u2", "i4", "i8", "f4"])
def test_labels_of_any_type(dtype):
    reader = LabelReader(12, ignore_index=(11, 200))
    assert read(reader, row(0, 11, 10, 200, dtype=dtype)).tolist() == [[0, 255, 10, 255]]
    assert "the labels 0, 12, 13, but 12 classes end at 11" in refused(reader, row(0, 13, 12, dtype=dtype))


def test_negative_labels_are_void():
    assert read(LabelReader(3), row(-1, 0, 2, -7, dtype="i2")).tolist() == [[255, 0, 2, 255]]


def test_labels_beyond_the_classes_are_shown_with_the_way_out():
    text = refused(LabelReader(21), row(0, 3, 21, 254, 255))
    assert "0, 3, 21, 254, 255" in text
    assert "--num-classes" in text
    assert "--ignore-index 254" in text
    assert "255" in refused(LabelReader(21, ignore_index=None), row(0, 255))
    assert "65535" in refused(LabelReader(), row(0, 65535, dtype="u2"))
    assert read(LabelReader(), row(0, 254, 255)).tolist() == [[0, 254, 255]]
    assert "255" in refused(LabelReader(ignore_index=0), row(0, 255))
    many = np.arange(40, dtype=np.uint8).reshape(5, 8)
    assert "9 and 30 more" in refused(LabelReader(2), many)


def test_booleans_are_two_classes():
    assert read(LabelReader(2), np.array([[True, False]])).tolist() == [[1, 0]]
    assert read(LabelReader(2), encoded(np.array([[True, False]]))).tolist() == [[1, 0]]


@pytest.mark.parametrize("value", [0.5, np.nan, np.inf])
def test_fractions_are_no_labels(value):
    assert "no labels" in refused(LabelReader(3), row(0, value, dtype="f4"))


def test_colours_are_no_labels_unless_a_palette_says_which():
    palette = ((128, 128, 128), (128, 0, 0), (0, 0, 0))
    colours = np.array([[palette[1], palette[0], palette[2]]], np.uint8)
    text = refused(LabelReader(3), encoded(colours))
    assert "1×3×3, of 3 channels" in text
    assert "--palette" in text
    for source in (encoded(colours), encoded(Image.fromarray(colours).convert("RGBA"))):
        assert read(LabelReader(2, palette=palette, ignore_index=2), source).tolist() == [[1, 0, 255]]
    indexed = Image.fromarray(colours).quantize(3)
    assert indexed.mode == "P"
    assert read(LabelReader(3, palette=palette), encoded(indexed)).tolist() == [[1, 0, 2]]
    strange = np.array([[palette[0], (9, 8, 7)]], np.uint8)
    assert "1 colours that the palette lacks, such as (9, 8, 7)" in refused(
        LabelReader(3, palette=palette), strange
    )
    assert "leave --palette out" in refused(LabelReader(3, palette=palette), row(0, 1))
    with pytest.raises(InputError, match="twice"):
        LabelReader(2, palette=((1, 1, 1), (1, 1, 1)))


def test_alpha_that_says_something_is_refused():
    rgba = np.full((2, 2, 4), 255, np.uint8)
    rgba[0, 0, 3] = 0
    assert "alpha" in refused(LabelReader(2), rgba)
    grey = np.dstack([row(0, 1), row(255, 255)])
    assert read(LabelReader(2), encoded(Image.fromarray(grey, "LA"))).tolist() == [[0, 1]]


@pytest.mark.parametrize("reader", [LabelReader(3), ForegroundReader(), DepthReader(1.0), NormalsReader()])
def test_jpeg_maps_are_refused(reader):
    values = np.zeros((16, 16, 3) if isinstance(reader, NormalsReader) else (16, 16), np.uint8)
    assert "JPEG" in refused(reader, encoded(values, "JPEG"))


@pytest.mark.parametrize("classes", [0, 256])
def test_class_counts_that_no_map_holds(classes):
    with pytest.raises(InputError):
        LabelReader(classes)


@settings(deadline=None, max_examples=60)
@given(
    arrays.arrays(st.sampled_from(["u1", "u2", "i2", "i4"]), (3, 4), elements=st.integers(0, 99)),
    st.integers(1, 99),
    st.integers(-3, 3),
    st.sets(st.integers(0, 99), max_size=3),
)
def test_labels_against_a_loop(values, classes, offset, ignored):
    reader = LabelReader(classes, tuple(sorted(ignored)), offset)
    wanted = [255 if v in ignored or v - offset < 0 else v - offset for v in values.ravel().tolist()]
    if any(classes <= each != 255 for each in wanted):
        refused(reader, values)
    else:
        assert read(reader, values).ravel().tolist() == wanted


# Foreground


def test_foreground_without_doubt():
    for values in (
        row(0, 255, 0),
        row(0, 1, 0),
        np.array([[False, True, False]]),
        row(0, 0.5, 0.499, dtype="f4"),
    ):
        found = read(ForegroundReader(), values)
        assert found.dtype == np.uint8
        assert found.tolist() == [[0, 1, 0]]
    assert read(ForegroundReader(), encoded(np.array([[False, True]]))).tolist() == [[0, 1]]
    assert read(ForegroundReader(), row(255, 255)).tolist() == [[1, 1]]  # 255 is no void
    assert read(ForegroundReader(), row(0, 0)).tolist() == [[0, 0]]
    assert read(ForegroundReader(), row(0, np.nan, 1, dtype="f4")).tolist() == [[0, 255, 1]]
    assert read(ForegroundReader(), row(0, 255, dtype="f8")).tolist() == [[0, 1]]


def test_foreground_that_has_to_be_said():
    text = refused(ForegroundReader(), row(0, 1, 2))
    assert "the values 0, 1, 2" in text
    assert "--foreground 1,2" in text
    assert read(ForegroundReader(foreground=(1, 2)), row(0, 1, 2)).tolist() == [[0, 1, 1]]
    assert read(ForegroundReader(foreground=2, ignore_index=1), row(0, 1, 2)).tolist() == [[0, 255, 1]]
    assert read(ForegroundReader(above=127), row(3, 127, 128)).tolist() == [[0, 0, 1]]
    jpeg = encoded(np.repeat(row(*[0] * 8, *[255] * 8), 16, axis=0), "JPEG")
    assert read(ForegroundReader(above=127), jpeg)[0].tolist() == [0] * 8 + [1] * 8
    with pytest.raises(InputError, match="give one"):
        ForegroundReader(foreground=1, above=0.5)


def test_255_beside_0_and_1_is_asked_for_or_settled_by_the_whole_set():
    assert "--foreground 1 --ignore-index 255" in refused(ForegroundReader(), row(0, 1, 255))
    reader = settled({0, 1, 255})
    assert read(reader, row(0, 1, 255)).tolist() == [[0, 1, 255]]
    assert read(reader, row(0, 255)).tolist() == [[0, 255]]
    assert settled({0, 255}) == settled({0.0, 1.0}) == settled({0, 3}) == ForegroundReader()


def test_grey_saved_as_colours():
    three = np.repeat(row(0, 255)[:, :, None], 3, axis=2)
    assert read(ForegroundReader(), encoded(three)).tolist() == [[0, 1]]
    three[0, 0, 2] = 1
    assert "3 channels that differ" in refused(ForegroundReader(), encoded(three))


def test_an_indexed_mask_whose_background_is_white_is_asked_for():
    image = Image.fromarray(row(0, 1))
    image.putpalette([255, 255, 255, 0, 0, 0])
    assert "index 0 is shown as (255, 255, 255)" in refused(ForegroundReader(), encoded(image))
    assert read(ForegroundReader(foreground=1), encoded(image)).tolist() == [[0, 1]]
    image.putpalette([0, 0, 0, 128, 0, 0])
    assert read(ForegroundReader(), encoded(image)).tolist() == [[0, 1]]


# Depth


def test_depth_in_millimetres():
    depth = read(DepthReader(1000), encoded(row(0, 2500, 10000, dtype="u2")))
    assert depth.dtype == np.float32
    assert depth.tolist() == [[0, 2.5, 10]]


def test_depth_without_its_unit_is_refused_with_what_it_holds():
    text = refused(DepthReader(), row(0, 2731, 9999, dtype="u2"))
    assert "16-bit integers (min 0, median 2731, max 9999)" in text
    assert "--target-scale 1000 if they are millimetres" in text
    assert "booleans" in refused(DepthReader(), np.array([[True]]))


def test_what_is_no_depth():
    values = row(0, -1, np.nan, np.inf, -np.inf, 2.5, 11, 1e39, dtype="f8")
    assert read(DepthReader(), values).tolist() == [[0, 0, 0, 0, 0, 2.5, 11, 0]]
    assert read(DepthReader(max_depth=10), values).tolist() == [[0, 0, 0, 0, 0, 2.5, 0, 0]]
    assert read(DepthReader(0.5, max_depth=10), row(2, 5, 6, dtype="f4")).tolist() == [[4, 10, 0]]
    assert read(DepthReader(512, hole=65535), row(512, 65535, dtype="u2")).tolist() == [[1, 0]]
    assert read(DepthReader(1, hole=(7, 9)), row(7, 8, 9)).tolist() == [[0, 8, 0]]
    assert values[0, 2] != values[0, 2]  # the source is left as it was
    for scale in (0, -1, np.inf, np.nan):
        with pytest.raises(InputError):
            DepthReader(scale)


def test_depth_has_one_channel():
    assert "one number a pixel" in refused(DepthReader(1), np.zeros((3, 3, 3), np.uint8))


# Normals


def test_a_colour_is_a_normal_of_length_one():
    normals = read(NormalsReader(), encoded(np.array([[[128, 128, 255]]], np.uint8)))
    assert normals.dtype == np.float32
    assert np.degrees(np.arccos(normals[0, 0, 2])) == pytest.approx(0.318, abs=5e-4)
    assert np.linalg.norm(normals[0, 0]) == pytest.approx(1)


def test_what_is_no_normal():
    colours = np.array([[(128, 127, 128), (0, 0, 0), (255, 255, 255), (255, 128, 128)]], np.uint8)
    assert np.linalg.norm(read(NormalsReader(), colours), axis=-1)[0] == pytest.approx([0, 0, 0, 1], abs=1e-6)
    floats = np.array([[(0, 0, 0), (np.nan, 0, 1), (0, 0.05, 0.05), (0, -0.6, 0)]])
    assert read(NormalsReader(), floats)[0].tolist() == [[0, 0, 0]] * 3 + [[0, -1, 0]]
    assert not read(NormalsReader(), np.full((2, 2, 3), np.nan)).any()


@settings(deadline=None, max_examples=40)
@given(arrays.arrays("f8", (2, 3, 3), elements=st.floats(-1, 1)))
def test_any_encoding_gives_the_same_directions(vectors):
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    if lengths.min() < 1e-3:
        return
    unit = vectors / lengths
    if unit.min() < 0:
        np.testing.assert_allclose(read(NormalsReader(), unit), unit, atol=1e-6)
    colours = (unit + 1) / 2
    np.testing.assert_allclose(read(NormalsReader(colours=True), colours), unit, atol=1e-6)
    deep = np.round(colours * 65535).astype(np.uint16)
    np.testing.assert_allclose(read(NormalsReader(), deep), unit, atol=1e-4)
    flat = np.round(colours * 255).astype(np.uint8)
    np.testing.assert_allclose(read(NormalsReader(), flat), unit, atol=1.5e-2)
    swapped = np.ascontiguousarray(flat[:, :, ::-1])
    np.testing.assert_array_equal(read(NormalsReader(order="zyx"), swapped), read(NormalsReader(), flat))
    np.testing.assert_array_equal(
        read(NormalsReader(flip="yz"), flat), read(NormalsReader(), flat) * [1, -1, -1]
    )


def test_normals_that_would_have_to_be_guessed():
    assert r"channels last" in refused(NormalsReader(), np.zeros((4, 5), np.uint8))
    assert "channels come last" in refused(NormalsReader(), np.zeros((3, 5, 7), np.float32))
    assert "[-1, 1]" in refused(NormalsReader(), np.full((2, 2, 3), 127.0))
    assert "--normal-colours" in refused(NormalsReader(), np.full((2, 2, 3), (0.5, 0.5, 1.0)))
    assert "8 or 16 bits" in refused(NormalsReader(), np.zeros((2, 2, 3), np.int32))
    for wrong in ({"order": "xyy"}, {"flip": "w"}):
        with pytest.raises(InputError):
            NormalsReader(**wrong)


def facing(seed=0):
    """Random normals that face the camera."""
    normals = np.random.default_rng(seed).normal(size=(40, 50, 3))
    normals[..., 2] = np.abs(normals[..., 2]) + 0.3
    return normals / np.linalg.norm(normals, axis=-1, keepdims=True)


def test_swapped_channels_are_noticed():
    assert suspicious(facing()) is None
    assert suspicious(-facing()) is None
    assert suspicious(np.zeros((3, 3, 3))) is None
    assert "--normal-order zyx" in suspicious(facing()[..., ::-1])
    assert "looks at the camera" in suspicious(facing()[..., [0, 2, 1]])
    flat = read(NormalsReader(), np.full((4, 4, 3), (128, 128, 255), np.uint8))
    assert suspicious(flat) is None
    assert suspicious(flat[..., ::-1]) is not None
    floor = np.broadcast_to(np.array([0.05, 0.93, 0.36]), (5, 5, 3))
    assert suspicious(floor) is None
    everywhere = np.random.default_rng(0).normal(size=(40, 50, 3))
    assert "camera's frame" in suspicious(everywhere / np.linalg.norm(everywhere, axis=-1, keepdims=True))


# Responses


def test_responses_are_scaled_and_holes_left_out():
    raw, mask = row(0, 50, 65535, 100, dtype="u2"), row(255, 255, 255, 0)
    found = read(ResponseReader(50), raw)
    assert found.dtype == np.float32
    assert found[0] == pytest.approx([0, 1, 1310.7, 2])
    logs = read(ResponseReader(50, log1p=True, mask=True), raw, encoded(mask))
    assert logs[0] == pytest.approx([0, np.log(2), np.log1p(1310.7), -1])
    floats = row(0, np.nan, np.inf, 3, dtype="f4")
    assert read(ResponseReader(), floats).tolist() == [[0, -1, -1, 3]]
    assert read(ResponseReader(hole=-1), row(-1, 2, dtype="f4")).tolist() == [[-1, 2]]


def test_responses_that_would_have_to_be_guessed():
    text = refused(ResponseReader(), row(0, 3, 9, dtype="u2"))
    assert "16-bit integers (min 0, median 3, max 9)" in text
    assert "--target-scale" in text
    assert "negative at 1 pixels" in refused(ResponseReader(), row(0, -1, dtype="f4"))
    reader = ResponseReader(1, mask=True)
    assert "without the mask" in refused(reader, row(1, 2))
    assert "is 2×1 and its mask 1×2" in refused(reader, row(1, 2), row(1, 2).T)


def test_normals_take_a_mask_too():
    colours = np.full((1, 2, 3), (128, 128, 255), np.uint8)
    found = read(NormalsReader(mask=True), colours, row(0, 255))
    assert np.linalg.norm(found, axis=-1)[0] == pytest.approx([0, 1])


# Fitting


def header(width, height, orientation=1):
    return Header(width, height, "RGB", "JPEG", orientation)


NAMES = ("masks/a.png", "images/a.jpg")


def test_a_map_is_as_large_as_its_image():
    check_fits((3, 4), header(4, 3), NAMES)
    check_fits((3, 4, 3), header(4, 3), NAMES)
    with pytest.raises(InputError, match=r"masks/a\.png is 4×3 and images/a\.jpg 8×3; .*pixel for pixel"):
        check_fits((3, 4), header(8, 3), NAMES)


def test_an_image_turned_by_exif_with_a_map_that_is_not():
    says = (
        r"masks/a\.png is 4×3 and images/a\.jpg 3×4, turned by its EXIF orientation 6: the map was not turned"
    )
    with pytest.raises(InputError, match=says):
        check_fits((3, 4), header(3, 4, 6), NAMES)
    check_fits((4, 3), header(3, 4, 6), NAMES)  # drawn on the picture as it is seen
    check_fits((4, 3), header(3, 4, 6), NAMES, 6)


@pytest.mark.parametrize(
    ("shape", "image", "map_"),
    [((3, 4), 3, 1), ((3, 4), 2, 1), ((3, 3), 6, 1), ((3, 3), 1, 6), ((3, 4), 1, 3), ((3, 4), 6, 8)],
)
def test_turns_that_the_sizes_cannot_tell(shape, image, map_):
    with pytest.raises(InputError, match=r"cannot be told from the sizes; save the image upright"):
        check_fits(shape, header(shape[1], shape[0], image), NAMES, map_)
    check_fits(shape, header(shape[1], shape[0], image), NAMES, image)


def test_the_orientation_of_a_map_is_told_and_undone():
    exif = Image.Exif()
    exif[0x0112] = 6
    values = np.arange(6, dtype=np.uint8).reshape(2, 3)
    found, orientation = LabelReader(6).oriented((encoded(values, exif=exif),), "a.png")
    assert orientation == 6
    np.testing.assert_array_equal(found, np.rot90(values, -1))
    assert LabelReader(6).oriented((values,), "a.png")[1] == 1


def test_the_window_of_nyu_knows_one_size():
    """F116: rows 45 … 470, columns 41 … 600."""
    reader = DepthReader(nyu_crop=True)
    rows, columns = reader.read((np.ones((480, 640), np.float32),), "a").nonzero()
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (45, 470, 41, 600)
    assert len(rows) == 426 * 560
    with pytest.raises(InputError, match="240 × 320"):
        reader.read((np.ones((240, 320), np.float32),), "a")
