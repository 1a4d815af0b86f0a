"""Every kind of image becomes upright 8-bit RGB, or is refused by name."""

import io
import os
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFile, ImageOps

from extract import images
from extract.errors import UnreadableImageError
from extract.images import content_bytes, header, read_image

pytestmark = pytest.mark.filterwarnings("ignore:The image decoding:DeprecationWarning")  # torchvision 0.29


def encoded(image: Image.Image, kind: str, **options) -> bytes:
    stream = io.BytesIO()
    image.save(stream, kind, **options)
    return stream.getvalue()


def oriented(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = orientation
    return exif


def photo(width: int = 64, height: int = 48, seed: int = 0) -> Image.Image:
    """Smooth enough for JPEG, without any symmetry."""
    coarse = np.random.default_rng(seed).integers(0, 256, (6, 8, 3), dtype=np.uint8)
    return Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC)


def pixels(source, **options) -> np.ndarray:
    decoded = read_image(source, name="it", **options)
    assert decoded.pixels.dtype == np.uint8
    assert decoded.pixels.flags.c_contiguous
    assert decoded.pixels.shape[2] == 3
    return decoded.pixels


def test_a_missing_decoder_is_not_the_fault_of_the_image(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.io", None)
    with pytest.raises(ImportError):
        read_image(encoded(photo(), "JPEG"), name="it")


@pytest.fixture
def no_torchvision(monkeypatch):
    """Fails where torchvision would decode."""
    monkeypatch.setattr(images, "_decode_jpeg", lambda encoded: pytest.fail("torchvision was asked"))


def test_a_jpeg_is_what_pillow_makes_of_it():
    for subsampling in (0, 1, 2):  # 4:4:4, 4:2:2, 4:2:0
        data = encoded(photo(), "JPEG", quality=90, subsampling=subsampling)
        by_pillow = np.asarray(Image.open(io.BytesIO(data))).astype(int)
        assert np.abs(pixels(data) - by_pillow).max() <= 2


def test_a_grey_or_progressive_jpeg_is_decoded_by_torchvision(monkeypatch):
    asked = []
    decode = images._decode_jpeg
    monkeypatch.setattr(images, "_decode_jpeg", lambda data: asked.append(1) or decode(data))
    grey = photo().convert("L")
    data = encoded(grey, "JPEG", quality=95)
    expected = np.asarray(Image.open(io.BytesIO(data)))
    assert np.abs(pixels(data).astype(int) - expected[:, :, None]).max() <= 1
    assert read_image(data, name="it").converted is None
    assert pixels(encoded(photo(), "JPEG", progressive=True)).shape == (48, 64, 3)
    assert len(asked) == 3


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
def test_orientation_is_applied_once(kind, orientation):
    options = {"JPEG": {"quality": 95}, "WEBP": {"lossless": True}}.get(kind, {})
    data = encoded(photo(), kind, exif=oriented(orientation), **options)
    expected = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(data))).convert("RGB"))
    assert pixels(data).shape == ((48, 64, 3) if orientation < 5 else (64, 48, 3))
    assert np.abs(pixels(data).astype(int) - expected).max() <= 2
    stated = header(data)
    assert (stated.height, stated.width) == expected.shape[:2]
    assert (stated.format, stated.orientation) == (kind, orientation)


def test_a_3_by_2_jpeg_of_orientation_6_is_2_wide_and_3_high():
    picture = Image.new("RGB", (3, 2), (200, 30, 30))
    assert pixels(encoded(picture, "JPEG", exif=oriented(6))).shape == (3, 2, 3)
    upright = photo(64, 48)
    stored = upright.transpose(Image.Transpose.ROTATE_90)  # what orientation 6 undoes
    turned = pixels(encoded(stored, "JPEG", quality=95, exif=oriented(6)))
    assert np.abs(turned.astype(int) - pixels(encoded(upright, "JPEG", quality=95))).mean() < 1.5


def test_damaged_exif_does_not_cost_the_picture():
    data = encoded(photo(), "JPEG", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\xff" + b"\x01" * 40)
    assert pixels(data).shape == (48, 64, 3)
    assert pixels(encoded(photo(), "JPEG", exif=oriented(99))).shape == (48, 64, 3)
    assert pixels(encoded(photo(), "JPEG", exif=b"Exif\x00\x00garbage")).shape == (48, 64, 3)


def test_cmyk_by_pillow(no_torchvision):
    data = encoded(Image.new("CMYK", (16, 16), (0, 255, 255, 0)), "JPEG", quality=95)
    decoded = read_image(data, name="it")
    assert np.abs(decoded.pixels.astype(int) - (255, 0, 0)).max() <= 4
    assert decoded.converted == "CMYK"
    assert header(data).mode == "CMYK"


def test_palette_equals_its_rgb_version():
    palette = photo().quantize(16)
    decoded = read_image(encoded(palette, "PNG"), name="it")
    assert decoded.converted == "palette"
    assert np.array_equal(decoded.pixels, np.asarray(palette.convert("RGB")))


@pytest.mark.parametrize("background", [(255, 255, 255), (10, 20, 30)])
def test_transparent_palette_shows_the_background(background):
    image = Image.new("P", (2, 1))
    image.putpalette([0, 0, 0, 250, 100, 50])
    image.putdata([0, 1])
    decoded = read_image(encoded(image, "PNG", transparency=0), name="it", background=background)
    assert decoded.pixels.tolist() == [[list(background), [250, 100, 50]]]
    assert decoded.converted == "alpha"


def test_alpha_is_laid_over_the_background():
    rgba = Image.new("RGBA", (3, 1))
    rgba.putdata([(200, 100, 0, 255), (200, 100, 0, 0), (200, 100, 0, 51)])  # 51 is a fifth
    assert pixels(encoded(rgba, "PNG")).tolist() == [[[200, 100, 0], [255, 255, 255], [244, 224, 204]]]
    grey = Image.new("LA", (2, 1))
    grey.putdata([(40, 255), (40, 0)])
    assert pixels(encoded(grey, "PNG"), background=(0, 0, 9)).tolist() == [[[40, 40, 40], [0, 0, 9]]]


def test_one_bit():
    image = Image.new("1", (2, 1))
    image.putdata([0, 1])
    decoded = read_image(encoded(image, "PNG"), name="it")
    assert decoded.pixels.tolist() == [[[0, 0, 0], [255, 255, 255]]]
    assert decoded.converted == "1-bit"


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM"])
def test_16_bit_grey_is_scaled_by_65535(kind):
    values = np.array([[0, 255, 256, 2500, 10000, 65535]], np.uint16)
    decoded = read_image(encoded(Image.fromarray(values), kind), name="it")
    assert decoded.pixels[0, :, 0].tolist() == [0, 1, 1, 10, 39, 255]
    assert (decoded.pixels == decoded.pixels[:, :, :1]).all()
    assert decoded.converted == "16-bit grey"
    assert np.array_equal(pixels(values), decoded.pixels)


def test_values_of_no_known_range_are_refused():
    for array in (np.ones((4, 4), np.float32), np.ones((4, 4), np.int32)):
        with pytest.raises(UnreadableImageError, match=r"depth\.tif cannot be read: .* range is unknown"):
            read_image(encoded(Image.fromarray(array), "TIFF"), name="depth.tif")
    with pytest.raises(UnreadableImageError, match="float64 has no known range; give uint8"):
        read_image(np.ones((4, 4, 3)), name="it")


def test_an_animation_gives_its_first_frame():
    frames = [Image.new("RGB", (4, 4), colour) for colour in ((255, 0, 0), (0, 255, 0))]
    for kind in ("GIF", "WEBP"):
        data = encoded(frames[0], kind, save_all=True, append_images=frames[1:])
        assert np.abs(pixels(data).astype(int) - (255, 0, 0)).max() <= 6


def test_arrays_and_pil_images():
    array = np.asarray(photo())
    assert np.array_equal(pixels(array), array)
    assert np.array_equal(pixels(photo()), array)
    assert np.array_equal(pixels(array[:, ::-1]), array[:, ::-1])
    assert np.array_equal(pixels(array[:, :, :1])[:, :, 2], array[:, :, 0])
    assert pixels(np.array([[True, False]])).tolist() == [[[255] * 3, [0] * 3]]
    for shape in ((3, 48, 64), (0, 5, 3), (4,), (2, 2, 2)):
        with pytest.raises(UnreadableImageError, match="is no"):
            read_image(np.zeros(shape, np.uint8), name="it")


@pytest.mark.parametrize(("width", "height"), [(1, 1), (4000, 10)])
def test_odd_sizes(width, height):
    for kind in ("JPEG", "PNG"):
        assert pixels(encoded(photo(width, height), kind)).shape == (height, width, 3)


@pytest.mark.parametrize("kept", [0.01, 0.5, 0.99])
@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP"])
def test_a_truncated_file_is_refused_by_name(kind, kept):
    data = encoded(photo(200, 150), kind)
    with pytest.raises(UnreadableImageError, match=r"hat/c\.jpg cannot be read: \S+"):
        read_image(data[: int(len(data) * kept)], name="hat/c.jpg")


def test_a_jpeg_whose_second_half_is_blank_is_refused():
    data = encoded(photo(200, 150), "JPEG")
    half = len(data) // 2
    for filler in (b"\x00", b"\xff"):  # what an interrupted copy leaves
        with pytest.raises(UnreadableImageError, match="truncated"):
            read_image(data[:half] + filler * half, name="it")


def test_bytes_after_the_end_do_no_harm():
    data = encoded(photo(), "JPEG")
    assert np.array_equal(pixels(data + b"\x00" * 999), pixels(data))
    assert np.array_equal(pixels(data + encoded(photo(seed=1), "JPEG")), pixels(data))
    pair = encoded(photo(), "MPO", save_all=True, append_images=[photo(seed=1)])  # as phones write
    assert header(pair).format == "MPO"
    assert np.abs(pixels(pair).astype(int) - pixels(data)).max() <= 2


def test_pillow_has_the_last_word(monkeypatch):
    monkeypatch.setattr(images, "_decode_jpeg", lambda data: None)
    data = encoded(photo(), "JPEG")
    assert np.array_equal(pixels(data), np.asarray(Image.open(io.BytesIO(data))))


def test_files_that_are_no_images(tmp_path):
    (tmp_path / "empty.jpg").touch()
    (tmp_path / "page.jpg").write_text("<html>404</html>")
    for name, reason in (("empty", "it is empty"), ("page", "it is no image"), ("gone", "No such file")):
        with pytest.raises(UnreadableImageError, match=f"a/{name} cannot be read: {reason}"):
            read_image(tmp_path / f"{name}.jpg", name=f"a/{name}")


def test_the_pixel_limit_holds_before_anything_is_decoded(no_torchvision, monkeypatch):
    files = [encoded(photo(64, 48), kind) for kind in ("JPEG", "PNG")]
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda self: pytest.fail("decoded"))
    for data in files:
        with pytest.raises(UnreadableImageError, match=r"more than 3,071 pixels \(--max-pixels raises"):
            read_image(data, name="it", max_pixels=3071)
        with pytest.raises(UnreadableImageError, match="3,071"):
            header(data, max_pixels=3071)


def test_a_huge_png_is_refused_and_the_limit_can_be_raised(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", Image.MAX_IMAGE_PIXELS)  # restored afterwards
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", 20_000, 20_000, 8, 2, 0, 0, 0)),
        (b"IDAT", b""),
        (b"IEND", b""),
    ]
    data = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
        for kind, body in chunks
    )
    with pytest.raises(UnreadableImageError, match=r"178,956,970 pixels \(--max-pixels"):
        read_image(data, name="it")
    stated = header(data, max_pixels=400_000_000)
    assert (stated.width, stated.height) == (20_000, 20_000)


def test_a_header_is_read_from_a_file(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(photo(), "PNG"))
    assert header(tmp_path / "a.png") == images.Header(64, 48, "RGB", "PNG", 1)
    with pytest.raises(UnreadableImageError, match=r"b\.png cannot be read: No such file"):
        header(tmp_path / "b.png")


def test_content_is_what_is_in_an_image(tmp_path):
    data = encoded(photo(), "PNG")
    (tmp_path / "a.png").write_bytes(data)
    assert content_bytes(tmp_path / "a.png") == content_bytes(data) == data
    array = np.asarray(photo())
    assert content_bytes(array) == content_bytes(np.asfortranarray(array))
    assert content_bytes(array) != content_bytes(array.reshape(64, 48, 3))
    assert content_bytes(np.zeros((2, 2), np.uint16)) != content_bytes(np.zeros((2, 4), np.uint8))
    assert content_bytes(photo()) == content_bytes(photo())
    assert content_bytes(photo()) != content_bytes(photo(seed=1))
    opened = Image.open(io.BytesIO(encoded(photo(), "TIFF", exif=oriented(6))))
    assert content_bytes(opened) == content_bytes(opened)
    turned = photo()
    turned.getexif()[0x0112] = 6
    assert content_bytes(turned) != content_bytes(photo())


def test_torch_is_only_imported_for_jpegs(tmp_path):
    (tmp_path / "a.png").write_bytes(encoded(photo(), "PNG"))
    ask = (
        "import sys, pathlib, extract.images as i, extract.datasets, extract.memo, extract.duplicates;"
        "i.read_image(pathlib.Path('a.png'), name='a');"
        "print({'torch', 'torchvision', 'jax', 'pyarrow'} & set(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", ask], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"


def test_names_of_any_kind(tmp_path):
    for name in ("a b#c%20'\".png", "写真.png", "😀.png", "new\nline.png"):
        path = Path(tmp_path, name)
        path.write_bytes(encoded(photo(), "PNG"))
        assert pixels(path).shape == (48, 64, 3)
        assert header(path).width == 64
    with pytest.raises(UnreadableImageError, match=r"\\udcff\.png cannot be read: No such file"):
        content_bytes(Path("\udcff.png"))


def test_a_pipe_called_like_an_image_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    for read in (content_bytes, lambda path: read_image(path, name="pipe.png")):
        with pytest.raises(UnreadableImageError, match=r"pipe\.png cannot be read: it is no file"):
            read(tmp_path / "pipe.png")
