"""A map comes out of its file as it was saved, or is refused by name."""

import io
import struct
import subprocess
import sys
import zipfile
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from extract.errors import InputError, MissingExtraError, UnreadableImageError
from extract.maps.files import map_header, read_map


def encoded(image, kind="PNG", **options):
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def png(width, bits, colour, rows, palette=None):
    """A PNG of a bit depth that Pillow does not write."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, len(rows), bits, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    parts = [chunk(b"IHDR", head), chunk(b"PLTE", palette) if palette else b""]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


def npy(array):
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def npz(compressed=True, **arrays):
    stream = io.BytesIO()
    (np.savez_compressed if compressed else np.savez)(stream, **arrays)
    return stream.getvalue()


def pixels(source, **options):
    return read_map(source, name="it", **options).pixels


def refused(source, match, **options):
    with pytest.raises(UnreadableImageError, match=f"^it cannot be read: .*{match}"):
        read_map(source, name="it", **options)


def same(found, wanted):
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


def test_a_palette_png_gives_its_indices():
    image = Image.fromarray(np.array([[0, 1, 15, 255]], np.uint8))
    image.putpalette(np.random.default_rng(0).integers(0, 256, 768, np.uint8).tobytes())
    data = encoded(image)
    assert Image.open(io.BytesIO(data)).mode == "P"
    raw = read_map(data, name="it")
    same(raw.pixels, np.array([[0, 1, 15, 255]], np.uint8))
    assert raw.palette.shape == (256, 3)
    assert raw.palette[15].tolist() == image.getpalette()[45:48]
    assert not raw.lossy


@pytest.mark.parametrize(
    ("kind", "dtype", "shape"),
    [
        ("PNG", "u1", (5, 7)),
        ("PNG", "u2", (5, 7)),
        ("PNG", "?", (5, 7)),
        ("PNG", "u1", (5, 7, 3)),
        ("PNG", "u1", (5, 7, 4)),
        ("TIFF", "u1", (5, 7)),
        ("TIFF", "u2", (5, 7)),
        ("TIFF", "i4", (5, 7)),
        ("TIFF", "f4", (5, 7)),
        ("TIFF", "?", (5, 7)),
        ("TIFF", "u1", (5, 7, 3)),
        ("BMP", "u1", (5, 7)),
        ("PPM", "u2", (5, 7)),
        ("npy", "f8", (5, 7)),
        ("npy", "f2", (5, 7, 2)),
        ("npy", "i8", (5, 7)),
        ("npz", "f4", (5, 7, 3)),
    ],
)
def test_every_number_survives(kind, dtype, shape, tmp_path):
    rng = np.random.default_rng(1)
    if np.dtype(dtype).kind == "f":
        values = rng.normal(size=shape).astype(dtype)
    else:
        info = np.iinfo(dtype) if dtype != "?" else None
        values = (
            rng.integers(info.min, info.max, shape, dtype, endpoint=True) if info else rng.random(shape) < 0.5
        )
    data = npy(values) if kind == "npy" else npz(depth=values) if kind == "npz" else None
    data = data or encoded(Image.fromarray(values), kind)
    same(pixels(data), values)
    path = tmp_path / f"a map #1.{kind.lower()}"
    path.write_bytes(data)
    same(pixels(path), values)
    same(pixels(str(path)), values)
    same(pixels(values), values)
    head = map_header(path, name="it")
    assert (head.height, head.width, head.orientation) == (5, 7, 1)
    assert map_header(values, name="it") == map_header(data, name="it") == head
    if data[:4] != npy(values)[:4] and kind != "npz":
        same(pixels(Image.open(path)), values)


def test_few_bits_are_not_stretched():
    same(pixels(png(4, 2, 0, [b"\x1b"])), np.array([[0, 1, 2, 3]], np.uint8))
    same(pixels(png(4, 4, 0, [b"\x01\x2f"])), np.array([[0, 1, 2, 15]], np.uint8))
    same(pixels(png(4, 1, 0, [b"\x50"])), np.array([[False, True, False, True]]))
    assert pixels(png(4, 1, 0, [b"\x50"])).view(np.uint8).max() == 1  # Pillow's own are 255
    same(pixels(png(4, 2, 3, [b"\x1b"], bytes(range(12)))), np.array([[0, 1, 2, 3]], np.uint8))


def test_three_channels_of_16_bits_keep_their_lower_halves():
    values = np.array([[[1000, 2000, 65535], [0, 256, 32768]]], ">u2")
    same(pixels(png(2, 16, 2, [values.tobytes()])), values.astype(np.uint16))
    alpha = np.array([[[1000, 65535]]], ">u2")
    refused(png(1, 16, 4, [alpha.tobytes()]), "16-bit channels and alpha")


def plain_tiff(values, photometric=1, form=1, order="<", deflate=False):
    """As written by hand: one strip, `form` the sample format."""
    body = np.ascontiguousarray(values, values.dtype.newbyteorder(order)).tobytes()
    body = zlib.compress(body) if deflate else body
    tags = [(256, 4, values.shape[1]), (257, 4, values.shape[0]), (258, 3, 8 * values.itemsize)]
    tags += [(259, 3, 8 if deflate else 1), (262, 3, photometric), (273, 4, 8), (277, 3, 1)]
    tags += [(278, 4, values.shape[0]), (279, 4, len(body)), (339, 3, form)]
    rows = b"".join(
        struct.pack(order + ("HHIHxx" if kind == 3 else "HHII"), tag, kind, 1, value)
        for tag, kind, value in tags
    )
    head = struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, 8 + len(body))
    return head + body + struct.pack(order + "H", len(tags)) + rows + bytes(4)


def test_integers_of_a_tiff_keep_their_sign():
    for values, form in [
        (np.array([[-1, 0, 7]], np.int8), 2),
        (np.array([[-300, 0, 7]], np.int16), 2),
        (np.array([[0, 7, 2**32 - 1]], np.uint32), 1),
        (np.array([[0, 7, -(2**31)]], np.int32), 2),
        (np.array([[0, 7, 65535]], np.uint16), 1),
        (np.array([[0, -1.5, np.nan]], np.float32), 3),
    ]:
        for order, deflate in (("<", False), ("<", True), (">", False), (">", True)):
            data = plain_tiff(values, form=form, order=order, deflate=deflate)
            if order == ">" and (
                (deflate and values.dtype not in (np.int8, np.uint16)) or values.dtype == np.uint32
            ):
                refused(data, "Pillow")  # which would swap the bytes, or knows no such file
            else:
                found = pixels(data)
                np.testing.assert_array_equal(found.astype(np.float64), values.astype(np.float64))


def test_tiffs_that_would_have_to_be_guessed():
    two = [Image.fromarray(np.full((2, 2), value, np.uint8)) for value in (1, 2)]
    refused(encoded(two[0], "TIFF", save_all=True, append_images=two[1:]), "2 pages")
    refused(plain_tiff(np.zeros((2, 2), np.uint8), photometric=0), "counts from white")
    refused(
        plain_tiff(np.zeros((2, 2)), form=3), r"TIFF of a kind that Pillow does not read.*save it as \.npy"
    )


def test_a_pgm_that_pillow_would_stretch():
    same(pixels(b"P5 2 1 255\n\x01\x05"), np.array([[1, 5]], np.uint8))
    same(pixels(b"P2 2 1 255\n1 5"), np.array([[1, 5]], np.uint8))
    same(pixels(b"P5 2 1 65535\n\x01\x05\x02\x00"), np.array([[261, 512]], np.uint16))
    refused(b"P5 2 1 20\n\x01\x05", "end at 20")


def test_what_was_compressed_with_loss_says_so():
    grey = Image.fromarray(np.arange(256, dtype=np.uint8).reshape(16, 16))
    assert read_map(encoded(grey, "JPEG"), name="it").lossy
    assert read_map(Image.open(io.BytesIO(encoded(grey, "JPEG"))), name="it").lossy
    assert read_map(encoded(grey.convert("RGB"), "WEBP"), name="it").lossy
    assert not read_map(encoded(grey.convert("RGB"), "WEBP", lossless=True), name="it").lossy
    assert not read_map(encoded(grey, "TIFF", compression="tiff_lzw"), name="it").lossy
    assert read_map(encoded(grey, "TIFF", compression="jpeg"), name="it").lossy
    refused(encoded(grey.convert("CMYK"), "JPEG"), "CMYK")


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_orientation_is_undone_once_and_reported(kind, orientation):
    exif = Image.Exif()
    exif[0x0112] = orientation
    values = np.arange(6 * 4, dtype=np.uint16).reshape(4, 6) * 1000
    data = encoded(Image.fromarray(values), kind, exif=exif)
    raw = read_map(data, name="it")
    same(raw.pixels, np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))).astype(np.uint16))
    assert raw.orientation == orientation
    head = map_header(data, name="it")
    assert (head.height, head.width) == raw.pixels.shape == ((4, 6) if orientation < 5 else (6, 4))
    assert head.orientation == orientation


def test_arrays_of_other_byte_orders_layouts_and_a_last_axis_of_one():
    values = np.arange(12, dtype=">u2").reshape(3, 4)
    for form in (values, np.asfortranarray(values), values[:, :, None]):
        same(pixels(npy(form)), values.astype(np.uint16))
        same(pixels(form), values.astype(np.uint16))


def test_an_npz_gives_the_array_named_or_the_only_one():
    one, two = np.zeros((2, 3)), np.ones((2, 3))
    same(pixels(npz(depth=one)), one)
    same(pixels(npz(False, depth=one, rgb=two), key="rgb"), two)
    refused(npz(depth=one, rgb=two), r"2 arrays \(depth, rgb\).*--target-key")
    refused(npz(depth=one, rgb=two), "2 arrays")
    refused(npz(depth=one), "no array called 'disparity' but depth", key="disparity")
    assert map_header(npz(depth=one, rgb=two), name="it", key="rgb").width == 3
    with pytest.raises(UnreadableImageError, match="2 arrays"):
        map_header(npz(depth=one, rgb=two), name="it")


@pytest.mark.parametrize(
    ("values", "says"),
    [
        (np.zeros((3, 20, 30)), r"30 channels.*transpose\(1, 2, 0\)"),
        (np.zeros((1, 20, 30)), r"channels come last: array\[0\]"),
        (np.zeros((20, 30, 5)), "5 channels; a map has up to 4$"),
        (np.zeros(5), r"shape \(5,\)"),
        (np.zeros((0, 5)), r"shape \(0, 5\)"),
        (np.zeros((2, 2), complex), "complex128"),
        (np.zeros((2, 2), "U3"), "U3"),
        (np.array([[{}]]), "never unpickled"),
    ],
)
def test_arrays_that_are_no_maps(values, says):
    refused(values, says)
    refused(npy(values), says)
    with pytest.raises(InputError):
        map_header(npy(values), name="it")


def test_a_masked_array_would_lose_its_mask():
    refused(np.ma.masked_less(np.arange(4.0).reshape(2, 2), 2), "masked array")


def claiming(shape, dtype="<f8"):
    """An .npy that says it is of this shape, and holds nothing."""
    stream = io.BytesIO()
    np.lib.format.write_array_header_1_0(stream, {"descr": dtype, "fortran_order": False, "shape": shape})
    return stream.getvalue()


def test_sizes_are_not_trusted():
    refused(claiming((10**6, 10**6)), "more than 178,956,970 pixels")
    refused(claiming((10**4, 10**4)), "cut short: 0 of 800,000,000 bytes")
    refused(npy(np.zeros((4, 4)))[:-1], "cut short")
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as archive:
        archive.writestr("a.npy", claiming((10**4, 10**4)))
    refused(stream.getvalue(), "cut short")
    data = encoded(Image.fromarray(np.zeros((10, 10), np.uint8)))
    for source in (data, npy(np.zeros((10, 10))), npz(a=np.zeros((10, 10))), np.zeros((10, 10))):
        refused(source, "more than 99 pixels", max_pixels=99)
        with pytest.raises(InputError, match="more than 99 pixels"):
            map_header(source, name="it", max_pixels=99)
    refused(encoded(Image.fromarray(np.zeros((10, 10), np.float32)), "TIFF"), "more than 99", max_pixels=99)


def test_damaged_files_and_what_is_no_map(tmp_path):
    data = encoded(Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64), np.uint8)))
    refused(data[: len(data) // 2], "truncated")
    refused(b"", "empty")
    refused(b"some text", "no image")
    refused(b"PK\x03\x04" + bytes(40), "")
    refused(b"\x93NUMPY\x09\x00" + bytes(40), "")
    refused(b"MATLAB 5.0 MAT-file", "MATLAB")
    refused(tmp_path / "missing.png", "No such file")
    with pytest.raises(InputError, match="it is a list; give a map as a path"):
        read_map([[1, 2]], name="it")


def test_a_gif_gives_its_indices():
    image = Image.fromarray(np.array([[0, 1, 2]], np.uint8))
    image.putpalette([9, 9, 9, 200, 0, 0, 0, 0, 7] + [0] * 759)
    found = read_map(encoded(image, "GIF"), name="it")
    assert found.palette[found.pixels[0]].tolist() == [[9, 9, 9], [200, 0, 0], [0, 0, 7]]


def test_exr_without_its_package_names_the_install_line(monkeypatch):
    monkeypatch.setitem(sys.modules, "OpenEXR", None)
    for ask in (read_map, map_header):
        with pytest.raises(MissingExtraError, match=r"pip install 'visbench\[exr\]'"):
            ask(b"v/1\x01" + bytes(60), name="it")


@pytest.fixture
def exr(tmp_path):
    """`exr(Z=…, R=…)`: the bytes of an OpenEXR file of these channels."""
    library = pytest.importorskip("OpenEXR")

    def make(more=None, **channels):
        parts = [library.Part({**(more or {}), "name": "a"}, channels)]
        with library.File(parts) as file:
            file.write(str(tmp_path / "map.exr"))
        return (tmp_path / "map.exr").read_bytes()

    return make


def test_exr_channels(exr, tmp_path):
    rng = np.random.default_rng(0)
    r, g, b = rng.normal(size=(3, 5, 7)).astype(np.float32)
    half, whole = r.astype(np.float16), np.arange(35, dtype=np.uint32).reshape(5, 7)
    same(pixels(exr(Z=r)), r)
    same(pixels(exr(Z=half)), half)
    same(pixels(exr(id=whole)), whole)
    data = exr(R=r, G=g, B=b)
    same(pixels(data), np.stack([r, g, b], axis=-1))
    same(pixels(data, key="B"), b)
    same(pixels(tmp_path / "map.exr", key="B, G"), np.stack([b, g], axis=-1))
    head = map_header(tmp_path / "map.exr", name="it")
    assert (head.height, head.width) == (5, 7)
    refused(exr(Z=r, id=whole), "channels Z, id; name those of the map: --target-key")
    refused(data, "no channel called 'Z' but B, G, R", key="Z")
    refused(data, "more than 34 pixels", max_pixels=34)
    refused(data[:-10], "")
    refused(data[:40], "")


def test_reading_needs_no_torch():
    ask = "import extract.maps.readers, extract.maps.frame, sys; print({'torch', 'scipy'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "set()"
