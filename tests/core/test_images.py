import io
import os
import random
import struct
import subprocess
import sys
import threading
import time
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from PIL import Image, PngImagePlugin
from PIL.JpegImagePlugin import JpegImageFile
from real_service import MEMORY

from config import ROOT
from core.images import SIDE, Avatars, PictureInvalid, PicturesBusy

RED, GREEN, BLUE, WHITE = (200, 30, 30), (30, 160, 30), (30, 30, 200), (250, 250, 250)
CORNERS = (RED, GREEN, BLUE, WHITE)  # top left, top right, bottom left, bottom right
SECRET = b"40.7128 N, 74.0060 W"
TOO_LARGE, DAMAGED, UNUSUAL = "too many pixels", "damaged or incomplete", "unusual way"


@pytest.fixture(autouse=True)
def _filters_of_production():
    # pytest puts its own in front of those that the module sets.
    warnings.filterwarnings("ignore", module=r"PIL\.")


@pytest.fixture(scope="module")
def avatars():
    return Avatars(waiting=9)


@pytest.fixture
def make(avatars):
    """Make an avatar of these bytes, and return it decoded."""

    def make(data):
        made = avatars.make(io.BytesIO(data))
        assert chunks(made) <= {b"VP8 ", b"VP8L", b"VP8X", b"ALPH"}
        image = Image.open(io.BytesIO(made))
        image.load()
        assert image.format == "WEBP"
        assert image.width == image.height <= SIDE
        return image

    return make


@pytest.fixture
def refusal(make):
    """Return why a file is refused, None if it is not."""

    def refusal(data):
        try:
            make(data)
        except PictureInvalid as error:
            return str(error)
        return None

    return refusal


def chunks(webp):
    names, position = set(), 12
    while position < len(webp):
        names.add(webp[position : position + 4])
        size = int.from_bytes(webp[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return names


def quarters(mode="RGB", size=(64, 64), colours=CORNERS):
    image = Image.new(mode, size)
    width, height = size[0] // 2, size[1] // 2
    for index, colour in enumerate(colours):
        column, row = index % 2, index // 2
        image.paste(
            colour, (column * width, row * height, (column + 1) * width, (row + 1) * height)
        )
    return image


def saved(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def seen(image):
    """The colours in the middle of the four quarters."""
    side = image.width
    spots = [(side // 4 + x * side // 2, side // 4 + y * side // 2) for y in (0, 1) for x in (0, 1)]
    return [image.getpixel(spot) for spot in spots]


def alike(one, other, tolerance=16):
    return all(
        len(a) == len(b) and all(abs(x - y) <= tolerance for x, y in zip(a, b, strict=True))
        for a, b in zip(one, other, strict=True)
    )


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width, height, bits=8, colour=2, extra=b"", pixels=None):
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, 0)
    data = b"" if pixels is None else zlib.compress(pixels, 1)
    parts = chunk(b"IHDR", header), extra, chunk(b"IDAT", data), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def segment(kind, data):
    return b"\xff" + bytes([kind]) + struct.pack(">H", len(data) + 2) + data


def jpeg(width, height, layers=3, frame=194, scans=1, extra=b""):
    """A grey JPEG whose scans all come without data."""
    components = b"".join(bytes([number + 1, 0x11, 0]) for number in range(layers))
    table = bytes([0, 1]) + bytes(14) + b"\0"
    scan = bytes([layers]) + b"".join(bytes([number + 1, 0]) for number in range(layers))
    return b"".join(
        [
            b"\xff\xd8" + extra,
            segment(0xDB, b"\0" + b"\1" * 64),
            segment(frame, struct.pack(">BHHB", 8, height, width, layers) + components),
            segment(0xC4, b"\0" + table) + segment(0xC4, b"\x10" + table),
            segment(0xDA, scan + b"\0\0\0") * scans,
            b"\xff\xd9",
        ]
    )


def gif(width, height, frame=(8, 8), extra=b""):
    data = saved(Image.new("L", frame, 99), "GIF")
    start = 13 + (3 << (data[10] & 7) + 1)
    return data[:6] + struct.pack("<HH", width, height) + data[10:start] + extra + data[start:]


def riff(*parts):
    content = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(content)) + content


def part(kind, data):
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def webp(width, height):
    """An animation of a small frame on a canvas of that size."""
    canvas = b"".join((side - 1).to_bytes(3, "little") for side in (width, height))
    parts = part(b"VP8X", b"\2\0\0\0" + canvas), part(b"ANIM", bytes(6)), part(b"ANMF", FRAME)
    return riff(*parts)


def exif(orientation, order="<", kind=3, count=1):
    mark = b"II*\0" if order == "<" else b"MM\0*"
    entries = struct.pack(order + "HHHLHH", 1, 0x0112, kind, count, orientation, 0)
    return mark + struct.pack(order + "L", 8) + entries + bytes(4)


# 8 x 8 pixels for the corner of a WebP animation.
FRAME = bytes(6) + bytes([7, 0, 0]) * 2 + bytes(4) + saved(Image.new("RGB", (8, 8)), "WEBP")[12:]
SAMPLES = {
    "jpeg": saved(quarters(), "JPEG", quality=90),
    "progressive": saved(quarters(), "JPEG", quality=90, progressive=True),
    "mpo": saved(quarters(), "MPO", save_all=True, append_images=[Image.new("RGB", (64, 64))]),
    "png": saved(quarters()),
    "apng": saved(quarters(), save_all=True, append_images=[Image.new("RGB", (64, 64))]),
    "gif": saved(quarters(), "GIF", save_all=True, append_images=[Image.new("RGB", (64, 64))]),
    "webp": saved(quarters(), "WEBP", quality=90),
    "lossless": saved(quarters(), "WEBP", lossless=True),
    "awebp": saved(quarters(), "WEBP", save_all=True, append_images=[Image.new("RGB", (64, 64))]),
}
# What comes out


@pytest.mark.parametrize("kind", SAMPLES)
def test_the_first_picture_of_a_file_becomes_a_square_webp(make, kind):
    image = make(SAMPLES[kind])
    assert image.size == (64, 64)
    assert image.mode == "RGB"
    assert alike(seen(image), CORNERS)


def test_the_samples_are_of_their_kinds():
    kinds = {name: Image.open(io.BytesIO(data)) for name, data in SAMPLES.items()}
    assert kinds["mpo"].format == "MPO"
    assert all(kinds[name].n_frames == 2 for name in ("mpo", "apng", "gif", "awebp"))


@pytest.mark.parametrize(
    ("mode", "colours", "expected"),
    [
        ("1", (1, 0, 0, 1), [(255,) * 3, (0,) * 3, (0,) * 3, (255,) * 3]),
        ("L", (0, 90, 180, 255), [(0,) * 3, (90,) * 3, (180,) * 3, (255,) * 3]),
        ("I;16", (0, 90 * 257, 180 * 257, 65535), [(0,) * 3, (90,) * 3, (180,) * 3, (255,) * 3]),
        ("RGB", CORNERS, CORNERS),
    ],
)
def test_opaque_colours_are_kept_from_each_mode(make, mode, colours, expected):
    image = make(saved(quarters(mode, colours=colours)))
    assert image.mode == "RGB"
    assert alike(seen(image), expected)


def test_palettes_are_looked_up_before_the_picture_is_scaled(make):
    palette = quarters(size=(1200, 1200)).quantize(4)
    for data in (saved(palette), saved(palette, "GIF"), saved(palette, bits=2)):
        image = make(data)
        assert image.size == (SIDE, SIDE)
        assert alike(seen(image), CORNERS)


def test_scaling_blends_colours(make):
    board = Image.frombytes("1", (1024, 1024), (b"\xaa" * 128 + b"\x55" * 128) * 512)
    for image in (board, board.convert("RGB").quantize(2), board.convert("RGBA")):
        assert alike(seen(make(saved(image))), [(128, 128, 128)] * 4)


@pytest.mark.parametrize("bits", [8, 16])
@pytest.mark.parametrize(("colour", "channels"), [(0, 1), (2, 3), (4, 2), (6, 4)])
def test_png_of_8_and_16_bits_come_out_alike(make, bits, colour, channels):
    values = [20, 120, 220, 255][:channels] if channels != 2 else [120, 255]
    pixel = b"".join(bytes([value]) * (bits // 8) for value in values)
    image = make(png(600, 600, bits, colour, pixels=(b"\0" + pixel * 600) * 600))
    expected = (20, 120, 220) if channels > 2 else (values[0],) * 3
    assert image.size == (SIDE, SIDE)
    assert alike(seen(image), [expected] * 4, tolerance=4)


@pytest.mark.parametrize("progressive", [False, True])
def test_jpegs_of_printers_keep_their_colours(make, progressive):
    inks = [(0, 255, 255, 0), (255, 0, 0, 0), (0, 0, 0, 255), (0, 0, 0, 0)]
    data = saved(quarters("CMYK", colours=inks), "JPEG", progressive=progressive)
    expected = [(255, 0, 0), (0, 255, 255), (0, 0, 0), (255, 255, 255)]
    assert alike(seen(make(data)), expected, tolerance=30)


@pytest.mark.parametrize("size", [64, 600])
def test_transparency_is_kept_from_each_mode(make, size):
    size = (size, size)
    clear = [(*RED, 255), (*GREEN, 128), (*BLUE, 255), (0, 0, 0, 0)]
    cut = [(*RED, 255), (*GREEN, 255), (*BLUE, 255), (0, 0, 0, 0)]
    palette = quarters(size=size).quantize(4)
    index = palette.getpixel((size[0] - 1, size[1] - 1))
    grey = quarters("L", size, colours=(10, 90, 170, 250))
    files = [
        (saved(quarters("RGBA", size, clear)), clear),
        (saved(quarters("RGBA", size, clear), "WEBP", lossless=True), clear),
        (saved(quarters("RGBA", size, clear), "WEBP", quality=90), clear),
        (saved(quarters(size=size), transparency=WHITE), cut),
        (saved(palette, transparency=index), cut),
        (saved(palette, "GIF", transparency=index), cut),
        (saved(palette, transparency=bytes(255 * (i != index) for i in range(4))), cut),
        (saved(grey, transparency=250), [(10, 10, 10, 255), (90, 90, 90, 255)]),
        (saved(quarters("LA", size, colours=[(10, 255), (90, 0)])), [(10,) * 3 + (255,), (0,) * 4]),
    ]
    for data, expected in files:
        image = make(data)
        assert image.mode == "RGBA"
        assert alike(seen(image)[: len(expected)], expected)


@pytest.mark.parametrize("size", [64, 600])
def test_colours_under_full_transparency_do_not_survive(make, size):
    image = quarters("RGBA", (size, size), [(*colour, 255) for colour in CORNERS])
    image.paste((255, 0, 255, 0), (0, size // 2, size, size))
    for data in (saved(image), saved(image, "WEBP", lossless=True, exact=True)):
        assert alike(seen(make(data))[2:], [(0, 0, 0, 0)] * 2, tolerance=0)


def test_nothing_is_enlarged(make):
    for size in [(1, 1), (2, 3), (511, 511), (512, 512), (513, 513), (40, 900), (900, 40)]:
        assert make(saved(Image.new("RGB", size, RED))).size == (min(*size, SIDE),) * 2


def test_the_middle_is_what_stays(make):
    wide = Image.new("RGB", (300, 100), RED)
    wide.paste(GREEN, (100, 0, 200, 100))
    for image in (wide, wide.rotate(90, expand=True), wide.resize((3000, 1000))):
        for kind in ("PNG", "JPEG"):
            made = make(saved(image, kind))
            assert made.width == min(*image.size, SIDE)
            # A line in the colour beside it may shine through at the edge.
            inner = made.crop((8, 8, made.width - 8, made.width - 8))
            assert alike(
                [(low, high) for low, high in inner.getextrema()],
                [(30,) * 2, (160,) * 2, (30,) * 2],
            )


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "GIF", "WEBP"])
def test_very_long_pictures_come_out_in_full_size(make, kind):
    size = (6000, 600)
    assert make(saved(Image.new("RGB", size, RED), kind)).size == (SIDE, SIDE)


# Orientation and metadata

# For each orientation, the corners as stored of a picture that shows CORNERS: EXIF 2.32, 4.6.5.
STORED = {1: "RGBW", 2: "GRWB", 3: "WBGR", 4: "BWRG", 5: "RBGW", 6: "GWRB", 7: "WGBR", 8: "BRWG"}


@pytest.mark.parametrize("order", "<>")
@pytest.mark.parametrize("orientation", STORED)
def test_every_picture_comes_out_upright(make, orientation, order):
    colours = [dict(zip("RGBW", CORNERS, strict=True))[name] for name in STORED[orientation]]
    data = exif(orientation, order)
    for kind, block in (("JPEG", b"Exif\0\0" + data), ("PNG", data), ("WEBP", data)):
        made = make(saved(quarters(colours=colours), kind, exif=block, quality=90))
        assert alike(seen(made), CORNERS), kind


@pytest.mark.parametrize(
    "block",
    [
        *(b"", b"II*\0", b"nonsense" * 9),
        *(exif(6)[:-8], exif(99), exif(0), exif(6, kind=5, count=2**31)),
        exif(6).replace(b"\x08\0\0\0", b"\xff\xff\xff\xff"),
        exif(6)[:8] + b"\xff\xff" + bytes(500),
        exif(3)[:4] + struct.pack("<L", 4) + exif(3)[8:],
        b"\xff" * 60_000,
    ],
)
def test_broken_exif_does_not_spoil_a_picture(make, block):
    for kind, data in (("JPEG", b"Exif\0\0" + block), ("PNG", block), ("WEBP", block)):
        made = make(saved(quarters(), kind, exif=data or b"\0", quality=90))
        assert sorted(map(sum, seen(made)))[-1] > 700  # the white corner is somewhere


def test_a_text_is_no_exif(make):
    info = PngImagePlugin.PngInfo()
    info.add_itxt("exif", "hello")
    assert alike(seen(make(saved(quarters(), pnginfo=info))), CORNERS)


def secretive():
    """Files that carry more than their pixels."""
    ifd = Image.Exif()
    ifd[0x010E] = SECRET.decode()
    ifd.get_ifd(0x8825)[1] = SECRET.decode()
    block, image, info = ifd.tobytes(), quarters(), PngImagePlugin.PngInfo()
    info.add_text("Comment", SECRET.decode())
    info.add_itxt("XML:com.adobe.xmp", SECRET.decode())
    info.add(b"prVt", SECRET)
    jpeg = saved(image, "JPEG", exif=block, icc_profile=SECRET, xmp=SECRET, comment=SECRET)
    yield jpeg
    yield jpeg[:2] + segment(0xED, b"Photoshop 3.0\0" + SECRET) + jpeg[2:]
    yield saved(image, "PNG", exif=block, icc_profile=SECRET, pnginfo=info)
    yield saved(image.quantize(4), "GIF", comment=SECRET, transparency=2)
    for mode in ("RGB", "RGBA"):
        yield saved(image.convert(mode), "WEBP", exif=block, icc_profile=SECRET, xmp=SECRET)
    yield from SAMPLES.values()


def test_nothing_but_the_pixels_survives(avatars, make):
    archive = b"PK\x03\x04" + SECRET + b"<script>alert(1)</script>"
    for data in secretive():
        make(data)  # and look at its chunks
        made = avatars.make(io.BytesIO(data + archive))
        assert not any(mark in made for mark in (SECRET, b"PK\3\4", b"<script", b"Exif", b"ICC"))


# Sizes


@pytest.mark.parametrize(
    ("data", "allowed"),
    [
        (png(4000, 3000), True),
        (png(4000, 3001), False),
        (png(2**31 - 1, 2**31 - 1), False),
        (gif(4000, 3000), True),
        (gif(4000, 3001), False),
        (gif(1, 1, frame=(4001, 3000)), False),
        (webp(3200, 2500), True),
        (webp(3200, 2501), False),
        (jpeg(5000, 5000), True),
        (jpeg(5000, 5001), False),
        (jpeg(16_383, 1525), True),
        (jpeg(16_384, 1), False),
        (png(16_383, 1), True),
        (png(1, 16_384), False),
        (jpeg(5000, 4000, layers=4), True),
        (jpeg(5000, 4001, layers=4), False),
    ],
    ids=lambda value: "" if isinstance(value, bytes) else str(value),
)
def test_the_limit_is_in_pixels_and_holds_before_decoding(refusal, monkeypatch, data, allowed):
    decoded = []
    monkeypatch.setattr(
        "PIL.ImageFile.ImageFile.load", lambda self: decoded.append(self.size) or 1 / 0
    )
    monkeypatch.setattr(
        "PIL.WebPImagePlugin.WebPImageFile.load", lambda self: decoded.append(self) or 1 / 0
    )
    assert (DAMAGED if allowed else TOO_LARGE) in refusal(data)
    assert bool(decoded) is allowed


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(make, monkeypatch):
    decoded = []

    def load(self, load=JpegImageFile.load):
        decoded.append(self.size)
        assert not [*self.applist, *self.app, *self.info]
        return load(self)

    monkeypatch.setattr("PIL.JpegImagePlugin.JpegImageFile.load", load)
    for size in [(16_383, 1525), (12_207, 2048), (5000, 5000), (4000, 3000), (2047, 2047)]:
        make(jpeg(*size, extra=segment(0xE2, b"ICC_PROFILE\0\1\1profile")))
    assert decoded[::2] == [(8192, 763), (3052, 512), (1250, 1250), (2000, 1500), (2047, 2047)]


# What is no picture


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"\0", b"<html><body>hello</body></html>"),
        b"<svg xmlns='http://www.w3.org/2000/svg'/>",
        b"PK\x03\x04" + bytes(100),
        b"%PDF-1.7\n%%EOF",
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        random.Random(1).randbytes(5000),
        *(saved(quarters(), kind) for kind in ("BMP", "TIFF", "PPM", "ICO", "TGA", "PCX", "EPS")),
        *(saved(quarters(), kind) for kind in ("JPEG2000", "AVIF", "PDF")),
    ],
    ids=lambda data: repr(data[:12]),
)
def test_other_files_are_refused(refusal, data):
    assert "Send a JPEG, PNG, WebP or GIF file" in refusal(data)


@pytest.mark.parametrize("kind", SAMPLES)
def test_truncated_pictures_are_refused(refusal, kind):
    data = SAMPLES[kind]
    # Of files with two pictures, the second is not looked at; and the end may lack checksums.
    end = len(data) // 4 if kind in ("mpo", "apng", "gif", "awebp") else len(data) - 24
    for length in {*range(0, min(40, end)), *range(0, end, max(1, end // 60)), end}:
        assert refusal(data[:length]), length


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_damaged_file_is_refused_or_made_and_nothing_else(refusal, kind, caplog):
    chance = random.Random(kind)
    for _ in range(300):
        data = bytearray(SAMPLES[kind])
        for _ in range(chance.choice((1, 1, 2, 8))):
            place = chance.randrange(len(data))
            match chance.randrange(5):
                case 0:
                    data[place] = chance.randrange(256)
                case 1:
                    data[place] ^= 1 << chance.randrange(8)
                case 2:
                    data[place : place + 4] = chance.choice((b"\xff" * 4, bytes(4), b"\x7f\xff"))
                case 3:
                    del data[place : place + chance.randrange(1, 9)]
                case 4:
                    data[place:place] = data[place // 2 : place // 2 + chance.randrange(40)]
        refusal(bytes(data))
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "logged"),
    [*((error, False) for error in (OSError, SyntaxError, ValueError)), (AttributeError, True)],
)
def test_only_an_unusual_error_of_a_decoder_is_logged(refusal, monkeypatch, caplog, error, logged):
    def broken(*args, **options):
        raise error

    monkeypatch.setattr("PIL.Image.open", broken)
    assert DAMAGED in refusal(SAMPLES["png"])
    assert [record.levelname for record in caplog.records] == ["ERROR"] * logged
    assert all(record.exc_info[0] is error for record in caplog.records)


def test_a_refusal_keeps_nothing_of_the_picture(avatars):
    with pytest.raises(PictureInvalid) as caught:
        avatars.make(io.BytesIO(SAMPLES["png"][:-40]))
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_our_own_mistakes_are_not_blamed_on_the_picture(avatars, monkeypatch):
    def broken(*args, **options):
        raise ValueError("ours")

    monkeypatch.setattr("PIL.Image.Image.save", broken)
    with pytest.raises(ValueError, match="ours"):
        avatars.make(io.BytesIO(SAMPLES["png"]))


# Files made to do harm


@pytest.mark.parametrize(
    "data",
    [
        png(8, 8, extra=chunk(b"prVt", b"") * 200_000),
        jpeg(8, 8, extra=segment(0xE5, b"") * 200_000),
        jpeg(8, 8, extra=b"\xff" * 200_000),
        gif(8, 8, extra=b"!\xfe" + b"\1A" * 200_000 + b"\0"),
        gif(8, 8, extra=b"!\xfe\1A\0" * 200_000),
        riff(SAMPLES["webp"][12:], part(b"EXIF", b"odd"), part(b"prVt", b"") * 10_000),
        riff(part(b"VP8X", b"\2" + bytes(9)), part(b"ANMF", bytes(24)) * 10_000),
        jpeg(8, 8, scans=33),
        jpeg(8, 8, frame=0xC9),
        jpeg(8, 8, frame=0xCA),
        # A scan behind a segment that says it is longer or shorter than it can be.
        jpeg(8, 8, scans=33, extra=b"\xff\xfe\0\0" + segment(0xFE, b"\xff\xd9")),
    ],
    ids=range(11),
)
def test_files_of_very_many_pieces_are_refused(refusal, data):
    assert UNUSUAL in refusal(data)


def test_an_animation_may_be_long_and_junk_may_follow(make):
    frames = part(b"ANMF", FRAME) * 2_000
    make(riff(part(b"VP8X", b"\2\0\0\0" + bytes([7, 0, 0]) * 2), part(b"ANIM", bytes(6)), frames))
    make(SAMPLES["webp"] + bytes(200_000))


def test_scans_are_counted_to_the_end_of_the_picture_only(refusal):
    scan = segment(0xDA, bytes(8))
    assert refusal(jpeg(8, 8, scans=32)) is None
    assert refusal(jpeg(8, 8, extra=segment(0xE2, scan * 99)) + b"\0\2" + scan * 99) is None


def test_texts_in_a_png_are_no_bomb(refusal, make):
    packed = zlib.compress(bytes(2**20), 9)
    pixels = (b"\0" + bytes(24)) * 8
    nameless = chunk(b"zTXt", b"\0\0" + packed)  # Pillow unpacks it, and does not count it
    assert UNUSUAL in refusal(png(8, 8, extra=nameless * 101, pixels=pixels))
    beyond = zlib.compress(bytes(2**20 + 1), 9)
    for extra in (
        chunk(b"zTXt", b"a\0\0" + packed) * 5,
        chunk(b"tEXt", b"a\0" + bytes(2**22 + 9)),
        chunk(b"zTXt", b"a\0\0" + beyond),
    ):
        assert DAMAGED in refusal(png(8, 8, extra=extra, pixels=pixels))
    usual = chunk(b"zTXt", b"a\0\0" + zlib.compress(b"text" * 999)) * 9
    make(png(8, 8, extra=usual + chunk(b"tEXt", b"b\0" + b"text" * 99_999), pixels=pixels))


def test_exif_is_not_taken_apart(make):
    """Pillow would look for the resolution, and for this one take a second and 200 MB."""
    entries = (0x0112, 3, 1, 6), (0x011A, 5, 600_000, 50), (0x0128, 3, 1, 2)
    block = b"II*\0\x08\0\0\0\3\0" + b"".join(struct.pack("<HHLL", *entry) for entry in entries)
    block += bytes(4) + bytes(4_800_000)
    pieces = [block[start : start + 60_000] for start in range(0, len(block), 60_000)]
    segments = b"".join(segment(0xE1, b"Exif\0\0" + piece) for piece in pieces)
    data = saved(quarters(colours=(GREEN, WHITE, RED, BLUE)), "JPEG", quality=90)
    started = time.process_time()
    assert alike(seen(make(data[:2] + segments + data[2:])), CORNERS)
    assert time.process_time() - started < 0.5


# One after the other


@pytest.fixture
def gate(monkeypatch):
    """Decoding waits until the gate is opened; `running` tells how many are at it."""
    gate = threading.Event()
    gate.started, gate.threads, gate.most, gate.now = threading.Event(), set(), 0, 0

    def slow(*args, open=Image.open, **options):
        gate.now += 1
        gate.most = max(gate.most, gate.now)
        gate.threads.add(threading.get_ident())
        gate.started.set()
        gate.wait(timeout=5)
        time.sleep(0.01)
        gate.now -= 1
        return open(*args, **options)

    monkeypatch.setattr("PIL.Image.open", slow)
    return gate


def wait_until(true):
    deadline = time.monotonic() + 10
    while not true() and time.monotonic() < deadline:
        time.sleep(0.001)


def test_one_picture_more_than_may_wait_is_refused(gate):
    avatars = Avatars(waiting=2)
    with ThreadPoolExecutor(max_workers=3) as pool:
        calls = [pool.submit(avatars.make, io.BytesIO(SAMPLES["png"])) for _ in range(3)]
        wait_until(lambda: not avatars._places._value)
        try:
            for _ in range(3):
                with pytest.raises(PicturesBusy):
                    avatars.make(io.BytesIO(SAMPLES["png"]))
        finally:
            gate.set()
    assert len({call.result() for call in calls}) == 1
    assert avatars.make(io.BytesIO(SAMPLES["png"]))


def test_pictures_are_made_one_at_a_time_in_one_thread(gate):
    avatars = Avatars(waiting=9)
    gate.set()
    with ThreadPoolExecutor(max_workers=6) as pool:
        calls = [pool.submit(avatars.make, io.BytesIO(SAMPLES["png"])) for _ in range(6)]
    assert all(call.result() for call in calls)
    assert gate.most == len(gate.threads) == 1


def test_a_refused_picture_gives_its_place_back():
    avatars = Avatars(waiting=0)
    for _ in range(3):
        with pytest.raises(PictureInvalid):
            avatars.make(io.BytesIO(b"nonsense"))
    assert avatars.make(io.BytesIO(SAMPLES["png"]))


def test_a_lack_of_memory_is_not_blamed_on_the_picture(avatars, monkeypatch):
    def full(*args, **options):
        raise MemoryError

    monkeypatch.setattr("PIL.Image.open", full)
    with pytest.raises(PicturesBusy):
        avatars.make(io.BytesIO(SAMPLES["png"]))


def run(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=os.environ | MEMORY, capture_output=True, text=True, timeout=60
    )


ODD = """
import io, sys
from core.images import Avatars
for name in sys.argv[1:]:
    with open(name, "rb") as file:
        print(len(Avatars(waiting=0).make(file)) > 0)
"""


def test_odd_pictures_put_nothing_into_the_log(tmp_path):
    mpo = SAMPLES["mpo"].replace(b"0100", b"01\xff\xff").replace(b"\x01\xb0", b"\x77\xb0")
    twice = chunk(b"acTL", bytes([0, 0, 0, 0]) * 2)
    files = [mpo, png(9, 9, extra=twice, pixels=(b"\0" + bytes(27)) * 9)]
    for number, data in enumerate(files):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            Image.open(io.BytesIO(data)).load()
        assert caught
        (tmp_path / str(number)).write_bytes(data)
    ran = run(ODD, *(str(path) for path in sorted(tmp_path.iterdir())))
    assert (ran.stdout, ran.stderr) == ("True\nTrue\n", "")
