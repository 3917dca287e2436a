"""Every file opens as 8-bit RGB or is refused by name; nothing else ever comes out of an image file."""

import contextlib
import os
import re
import sys

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageDraw
from zoo import BROKEN, FORMATS, WHOLE, chunk, deep_png, deep_tiff, encoded, jpeg_with, pattern

from lookalike.data import image_io
from lookalike.data.image_io import ImageError, decode, image_size, open_image
from lookalike.errors import DataError


@pytest.mark.parametrize("name", WHOLE)
def test_whole_pixels_are_read_whatever_lies_around_them(tmp_path, name):
    (tmp_path / name).write_bytes(WHOLE[name])
    image = open_image(tmp_path / name)
    assert (image.mode, image.size) == ("RGB", image_size(tmp_path / name))
    assert open_image(tmp_path / name, at_least=(4, 4)).mode == "RGB"


HEADER_IS_WHOLE = {"half.jpg", "half.png", "half.webp", "half.tiff", "no_pixels.png", "floats.tiff"}


@pytest.mark.parametrize("name", BROKEN)
def test_broken_files_are_refused_by_name_by_every_function(tmp_path, name):
    (tmp_path / name).write_bytes(BROKEN[name])
    for function in (open_image, image_size, decode):
        if function is image_size and name in HEADER_IS_WHOLE:
            continue
        with pytest.raises(ImageError, match=re.escape(name)) as caught:
            function(tmp_path / name)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "git lfs pull"),
        (b"<!DOCTYPE html><title>404</title>", "a web page"),
        (b"%PDF-1.7", "a PDF document"),
        (b"%!PS-Adobe-3.0", "a PostScript drawing"),
        (b"<svg xmlns='x'/>", "a drawing .SVG."),
        (b"\xff\x0a\x00", "JPEG XL, which is not read"),
        (b"\x00\x00\x00\x18ftypmp42", "a video, not an image; save its frames"),
        (b"hello", "not an image .it starts with"),
        (b"", "the file is empty"),
    ],
)
def test_what_stands_in_the_place_of_an_image_is_named_with_the_remedy(content, message, tmp_path):
    (tmp_path / "x.jpg").write_bytes(content)
    with pytest.raises(ImageError, match=rf"x\.jpg: .*{message}"):
        open_image(tmp_path / "x.jpg")


@pytest.mark.parametrize("mode", ["RGB", "L", "CMYK"])
@pytest.mark.parametrize("cut", range(12))
def test_a_jpeg_may_lack_its_end_marker_but_no_pixel(tmp_path, mode, cut):
    file = tmp_path / "x.jpg"
    noise = np.random.default_rng(0).normal(128, 80, size=(40, 48)).clip(0, 255).astype(np.uint8)
    Image.fromarray(noise).convert(mode).save(file, quality=95)
    whole, data = np.asarray(open_image(file)), file.read_bytes()
    file.write_bytes(data[: len(data) - cut])
    if cut <= 2:
        np.testing.assert_array_equal(open_image(file), whole)
    else:
        with pytest.raises(ImageError, match="truncated"):
            open_image(file)


def test_a_progressive_jpeg_must_be_whole(tmp_path):
    Image.linear_gradient("L").save(tmp_path / "x.jpg", progressive=True)
    data = (tmp_path / "x.jpg").read_bytes()
    (tmp_path / "x.jpg").write_bytes(data[:-2])
    with pytest.raises(ImageError, match="truncated"):
        open_image(tmp_path / "x.jpg")


KINDS = (*FORMATS, "heic")
SEEDS = {kind: encoded(kind) for kind in KINDS} | {
    name: data for name, data in WHOLE.items() if len(data) < 9000
}


@settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    st.sampled_from(sorted(SEEDS)),
    st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=4)), min_size=1, max_size=6),
    st.floats(0, 1),
)
def test_mutated_files_yield_an_image_or_an_image_error(tmp_path, name, changes, end):
    data = bytearray(SEEDS[name])
    for place, new in changes:
        at = int(place**2 * (len(data) - 1))  # mostly headers
        data[at : at + len(new)] = new
    file = tmp_path / "mutated"
    file.write_bytes(data[: int(end * len(data))] if end < 0.2 else data)
    for function in (open_image, image_size):
        with contextlib.suppress(ImageError):
            function(file)


def test_a_named_pipe_does_not_block(tmp_path):
    os.mkfifo(tmp_path / "pipe.jpg")
    with pytest.raises(ImageError, match="no regular file"):
        open_image(tmp_path / "pipe.jpg")
    (tmp_path / "folder.jpg").mkdir()
    with pytest.raises(ImageError, match=r"folder\.jpg"):
        open_image(tmp_path / "folder.jpg")


def test_a_dangling_link_says_where_it_leads(tmp_path):
    (tmp_path / "x.png").symlink_to("/nowhere/y.png")
    with pytest.raises(ImageError, match=r"a link to /nowhere/y\.png, which is gone"):
        open_image(tmp_path / "x.png")


def test_heic_without_its_package_names_the_command(tmp_path, monkeypatch):
    (tmp_path / "x.heic").write_bytes(encoded("heic"))
    assert open_image(tmp_path / "x.heic").size == (24, 16)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ImageError, match=r"pip install 'lookalike\[heif\]'"):
        open_image(tmp_path / "x.heic")


def test_white_motifs_stay_visible_and_others_keep_their_white_ground(tmp_path):
    for color, ground in (((255, 255, 255), 0), ((200, 30, 30), 255)):
        image = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
        ImageDraw.Draw(image).rectangle((20, 20, 44, 44), fill=(*color, 255))
        image.save(tmp_path / "logo.png")
        opened = open_image(tmp_path / "logo.png")
        assert opened.getpixel((32, 32)) == color
        assert opened.getpixel((2, 2)) == (ground,) * 3


DEEP = {
    "png": deep_png,
    "little.tiff": lambda values: deep_tiff(values, "<"),
    "big.tiff": lambda values: deep_tiff(values, ">"),
    "deflated.tiff": lambda values: deep_tiff(values, "<", deflated=True),
}


@pytest.mark.parametrize("alpha", [False, True])
@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
@pytest.mark.parametrize("kind", DEEP)
def test_sixteen_bit_color_is_scaled_by_the_range_it_uses(tmp_path, kind, bits, alpha):
    values = np.random.default_rng(bits).integers(0, 1 << bits, (9, 7, 3), dtype=np.uint16)
    values[0, 0, 1] = (1 << bits) - 1
    shades = [values, np.full((9, 7, 1), 65535, dtype=np.uint16)] if alpha else [values]
    (tmp_path / kind).write_bytes(DEEP[kind](np.concatenate(shades, axis=2)))
    decoded = decode(tmp_path / kind)
    np.testing.assert_array_equal(np.asarray(decoded.image), values >> (bits - 8))
    assert decoded.bits == bits
    assert decoded.mode == ("RGBA;16" if alpha else "RGB;16")


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
@pytest.mark.parametrize("alpha_bits", [12, 16])
def test_sixteen_bit_gray_with_alpha_is_scaled_too(tmp_path, bits, alpha_bits):
    gray = np.random.default_rng(bits).integers(0, 1 << bits, (9, 7, 1), dtype=np.uint16)
    gray[0, 0] = (1 << bits) - 1
    alpha = np.full_like(gray, (1 << alpha_bits) - 1)
    (tmp_path / "a.png").write_bytes(deep_png(np.concatenate([gray, alpha], axis=2)))
    decoded = decode(tmp_path / "a.png")
    np.testing.assert_array_equal(np.asarray(decoded.image)[..., 1], gray[..., 0] >> (bits - 8))
    assert decoded.bits == bits


def test_damaged_metadata_does_not_hide_the_range_of_sixteen_bit_color(tmp_path):
    values = np.full((9, 7, 3), 4095, dtype=np.uint16)
    data = deep_png(values)
    at = data.index(b"IDAT") - 4
    (tmp_path / "a.png").write_bytes(
        data[:at] + chunk(b"zTXt", b"x\0\0" + b"damaged", right=False) + data[at:]
    )
    assert open_image(tmp_path / "a.png").getpixel((3, 3)) == (255, 255, 255)


@pytest.mark.parametrize("bits", [8, 10, 12, 14, 16])
def test_sixteen_bit_gray_is_scaled_by_the_range_it_uses(tmp_path, bits):
    values = np.linspace(0, 2**bits - 1, 256).astype(np.uint16).reshape(16, 16)
    for name in ("x.png", "x.tiff"):
        Image.fromarray(values).save(tmp_path / name)
        decoded = decode(tmp_path / name)
        assert decoded.bits == bits
        assert decoded.image.getextrema()[0] == (0, 255)


def test_floats_need_a_range(tmp_path):
    for top in (1.0, 255.0):
        Image.fromarray(np.linspace(0, top, 64, dtype=np.float32).reshape(8, 8)).save(tmp_path / "x.tiff")
        assert open_image(tmp_path / "x.tiff").getextrema()[0] == (0, 255)
    Image.fromarray(np.full((4, 4), np.nan, np.float32)).save(tmp_path / "x.tiff")
    with pytest.raises(ImageError, match="no defined range"):
        open_image(tmp_path / "x.tiff")


def test_a_color_profile_is_converted_to_srgb(tmp_path):
    image = Image.new("RGB", (8, 8), (200, 100, 50))
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB"))
    image.save(tmp_path / "srgb.png", icc_profile=profile.tobytes())
    assert open_image(tmp_path / "srgb.png").getpixel((0, 0)) == (200, 100, 50)
    lab = ImageCms.profileToProfile(image, profile, ImageCms.createProfile("LAB"), outputMode="LAB")
    lab.save(tmp_path / "lab.tiff")
    assert np.abs(np.subtract(open_image(tmp_path / "lab.tiff").getpixel((0, 0)), (200, 100, 50))).max() <= 6


def test_giant_jpegs_are_decoded_reduced(tmp_path, monkeypatch):
    pattern((320, 240)).save(tmp_path / "x.jpg")
    monkeypatch.setattr(image_io, "REDUCE_FROM", 320 * 240 // 10)
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    decoded = decode(tmp_path / "x.jpg")
    assert (decoded.size, decoded.image.size) == ((320, 240), (80, 60))
    assert open_image(tmp_path / "x.jpg", box=(160, 120, 320, 240)).size == (40, 30)


def test_a_box_is_cut_out_of_the_upright_image(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 6
    image = Image.new("RGB", (40, 20), "red")
    image.paste("blue", (0, 0, 10, 20))
    image.save(tmp_path / "x.png", exif=exif)  # shown 20 wide and 40 high, blue on top
    assert open_image(tmp_path / "x.png", box=(0, 0, 20, 10)).getpixel((5, 5)) == (0, 0, 255)
    assert open_image(tmp_path / "x.png", box=(0, 10, 20, 40)).size == (20, 30)
    with pytest.raises(ImageError, match=r"the box \(0, 0, 30, 10\) does not lie in the image of 20 x 40"):
        open_image(tmp_path / "x.png", box=(0, 0, 30, 10))


@pytest.mark.parametrize("orientation", ["text", b"\x00", 99, 0, -1, (6, 6), 3.7])
def test_odd_orientations_are_none(orientation):
    class Odd:
        format, info = "PNG", {}

        def getexif(self):
            return {image_io.ORIENTATION: orientation}

    assert image_io._orientation(Odd()) == 1


def test_the_orientation_survives_damaged_metadata(tmp_path):
    exif = Image.Exif()
    exif[0x0112] = 8
    data = encoded("png", exif=exif)
    at = data.index(b"IDAT") - 4
    (tmp_path / "x.png").write_bytes(data[:at] + chunk(b"tEXt", b"a\0b", right=False) + data[at:])
    decoded = decode(tmp_path / "x.png")
    assert (decoded.repaired, decoded.orientation, decoded.size) == (True, 8, (16, 24))


def test_warnings_of_the_decoder_reach_nobody(tmp_path, capfd):
    (tmp_path / "x.jpg").write_bytes(jpeg_with((0xE1, b"Exif\0\0II*\0\x08\0\0\0\x09\0")))
    open_image(tmp_path / "x.jpg")
    assert capfd.readouterr() == ("", "")


def test_errors_are_data_errors():
    assert issubclass(ImageError, DataError)
