"""Uploaded pictures: what becomes of them, what is refused, and within which bounds."""

import io
import os
import random
import struct
import subprocess
import sys
import threading
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import soon
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


# No other call may wait: a place that is not given back fails all tests after it.
AVATARS = Avatars(waiting=0)


def make(data):
    """Make an avatar of these bytes; return it decoded."""
    made = AVATARS.make(io.BytesIO(data))
    assert chunks(made) <= {b"VP8 ", b"VP8L", b"VP8X", b"ALPH"}
    image = Image.open(io.BytesIO(made))
    image.load()
    assert image.format == "WEBP"
    assert image.width == image.height <= SIDE
    return image


def refusal(data):
    """Return why a file is refused, None if it is not."""
    try:
        make(data)
    except PictureInvalid as error:
        return str(error)
    return None


@pytest.fixture
def broken(monkeypatch):
    """Let functions of Pillow raise an error; return the list of those that are called."""

    def broken(error, *names):
        called = []

        def fail(*_, **__):
            called.append(names)
            raise error

        for name in names:
            monkeypatch.setattr(f"PIL.{name}", fail)
        return called

    return broken


def chunks(webp):
    names, position = set(), 12
    while position < len(webp):
        names.add(webp[position : position + 4])
        size = int.from_bytes(webp[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    return names


def quarters(mode="RGB", size=(64, 64), colours=CORNERS):
    image = Image.new(mode, (2, 2))
    for index, colour in enumerate(colours):
        image.putpixel((index % 2, index // 2), colour)
    return image.resize(size, Image.Resampling.NEAREST)


def saved(image, kind="PNG", **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def seen(image):
    """The colours in the middle of the four quarters."""
    places = (image.width // 4, image.width * 3 // 4)
    return [image.getpixel((x, y)) for y in places for x in places]


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
TWO_FRAMES = {"save_all": True, "append_images": [Image.new("RGB", (64, 64))]}
SAMPLES = {
    "jpeg": saved(quarters(), "JPEG", quality=90),
    "progressive": saved(quarters(), "JPEG", quality=90, progressive=True),
    "mpo": saved(quarters(), "MPO", **TWO_FRAMES),
    "png": saved(quarters()),
    "apng": saved(quarters(), **TWO_FRAMES),
    "gif": saved(quarters(), "GIF", **TWO_FRAMES),
    "webp": saved(quarters(), "WEBP", quality=90),
    "lossless": saved(quarters(), "WEBP", lossless=True),
    "awebp": saved(quarters(), "WEBP", **TWO_FRAMES),
}


# What comes out

GREYS = (0, 90, 180, 255)
GREY_CORNERS = [(value,) * 3 for value in GREYS]
TWO_COLOURS = [(0,) * 3, (0,) * 3, (255,) * 3, (255,) * 3]
INKS = [(0, 255, 255, 0), (255, 0, 0, 0), (0, 0, 0, 255), (0, 0, 0, 0)]
PRINTED = [(255, 0, 0), (0, 255, 255), (0, 0, 0), (255, 255, 255)]
# The last corner is fully transparent. What colour it had must not survive.
OPAQUE = [(*colour, 255) for colour in CORNERS]
CLEAR = [(*RED, 255), (*GREEN, 128), (*BLUE, 255), (0, 0, 0, 0)]
HIDDEN = [*CLEAR[:3], (255, 0, 255, 0)]
CUT = [(*RED, 255), (*GREEN, 255), (*BLUE, 255), (0, 0, 0, 0)]
GREY_CUT = [(0, 0, 0, 255), (90, 90, 90, 255), (180, 180, 180, 255), (0, 0, 0, 0)]
# Larger than what comes out, in squares of one pixel that turn grey.
BOARD = Image.frombytes("1", (1024, 1024), (b"\xaa" * 128 + b"\x55" * 128) * 512)
BLENDED = [(128, 128, 128)] * 4


def pictures(side):
    """Yield the name of a mode or kind, a file, and the corners that it shows."""
    size = (side, side)
    palette = quarters(size=size).quantize(4)
    white = palette.getpixel((side - 1, side - 1))
    grey = quarters("L", size, GREYS)
    hidden = quarters("RGBA", size, HIDDEN)
    yield "two colours", saved(quarters("1", size, (0, 0, 1, 1))), TWO_COLOURS
    yield "grey", saved(grey), GREY_CORNERS
    yield "16 bits", saved(quarters("I;16", size, [257 * value for value in GREYS])), GREY_CORNERS
    yield "palette", saved(palette), CORNERS
    yield "palette of 2 bits", saved(palette, bits=2), CORNERS
    yield "GIF", saved(palette, "GIF"), CORNERS
    yield "CMYK", saved(quarters("CMYK", size, INKS), "JPEG", quality=95), PRINTED
    yield "opaque", saved(quarters("RGBA", size, OPAQUE)), CORNERS
    yield "RGBA", saved(hidden), CLEAR
    yield "lossless", saved(hidden, "WEBP", lossless=True, exact=True), CLEAR
    yield "WebP", saved(hidden, "WEBP", quality=90), CLEAR
    yield "cut colour", saved(quarters(size=size), transparency=WHITE), CUT
    yield "cut grey", saved(grey, transparency=255), GREY_CUT
    yield "cut palette", saved(palette, transparency=white), CUT
    yield "cut GIF", saved(palette, "GIF", transparency=white), CUT
    alphas = bytes(255 * (index != white) for index in range(4))
    yield "alphas of a palette", saved(palette, transparency=alphas), CUT
    grey_and_alpha = quarters("LA", size, [(0, 255), (90, 255), (180, 255), (255, 0)])
    yield "grey and alpha", saved(grey_and_alpha), GREY_CUT


PICTURES = [
    *((name, data, CORNERS) for name, data in SAMPLES.items()),
    *pictures(64),
    *((f"large {name}", data, expected) for name, data, expected in pictures(600)),
    *(
        (f"{board.mode} board", saved(board), BLENDED)
        for board in (BOARD, BOARD.convert("RGB").quantize(2), BOARD.convert("RGBA"))
    ),
]


@pytest.mark.parametrize(("name", "data", "corners"), PICTURES, ids=[row[0] for row in PICTURES])
def test_a_picture_becomes_a_square_webp_in_its_colours(name, data, corners):
    image = make(data)
    assert image.width == min(Image.open(io.BytesIO(data)).width, SIDE)
    assert alike(seen(image), corners, tolerance=30 if "CMYK" in name else 16)


def test_nothing_is_enlarged():
    for size in [(1, 1), (2, 3), (511, 511), (512, 512), (513, 513), (40, 900), (900, 40)]:
        assert make(saved(Image.new("RGB", size, RED))).size == (min(*size, SIDE),) * 2


def test_the_middle_is_what_stays():
    wide = Image.new("RGB", (300, 100), RED)
    wide.paste(GREEN, (100, 0, 200, 100))
    for image in (wide, wide.rotate(90, expand=True), wide.resize((3000, 1000))):
        for kind in ("PNG", "JPEG"):
            made = make(saved(image, kind))
            assert made.width == min(*image.size, SIDE)
            # A line in the colour beside it may shine through at the edge.
            inner = made.crop((8, 8, made.width - 8, made.width - 8))
            assert alike(inner.getextrema(), [(value, value) for value in GREEN])


# Orientation and metadata

# For each orientation, the corners as stored of a picture that shows CORNERS: EXIF 2.32, 4.6.5.
STORED = {1: "RGBW", 2: "GRWB", 3: "WBGR", 4: "BWRG", 5: "RBGW", 6: "GWRB", 7: "WGBR", 8: "BRWG"}


@pytest.mark.parametrize("orientation", STORED)
def test_every_picture_comes_out_upright(orientation):
    colours = [dict(zip("RGBW", CORNERS, strict=True))[name] for name in STORED[orientation]]
    for order in "<>":
        data = exif(orientation, order)
        for kind, block in (("JPEG", b"Exif\0\0" + data), ("PNG", data), ("WEBP", data)):
            made = make(saved(quarters(colours=colours), kind, exif=block, quality=90))
            assert alike(seen(made), CORNERS), kind


def test_broken_exif_does_not_spoil_a_picture():
    for block in (
        *(b"", b"II*\0", b"nonsense" * 9, b"\xff" * 60_000),
        *(exif(6)[:-8], exif(99), exif(0), exif(6, kind=5, count=2**31)),
        exif(6).replace(b"\x08\0\0\0", b"\xff\xff\xff\xff"),
        exif(6)[:8] + b"\xff\xff" + bytes(500),
        exif(3)[:4] + struct.pack("<L", 4) + exif(3)[8:],
    ):
        for kind, data in (("JPEG", b"Exif\0\0" + block), ("PNG", block), ("WEBP", block)):
            made = make(saved(quarters(), kind, exif=data or b"\0", quality=90))
            assert sorted(map(sum, seen(made)))[-1] > 700  # the white corner is somewhere


def test_a_text_is_no_exif():
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


def test_nothing_but_the_pixels_survives():
    archive = b"PK\x03\x04" + SECRET + b"<script>alert(1)</script>"
    for data in secretive():
        make(data)  # and look at its chunks
        made = AVATARS.make(io.BytesIO(data + archive))
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
    ids=range(16),
)
def test_the_limit_is_in_pixels_and_holds_before_decoding(broken, data, allowed):
    decoded = broken(OSError, "ImageFile.ImageFile.load", "WebPImagePlugin.WebPImageFile.load")
    assert (DAMAGED if allowed else TOO_LARGE) in refusal(data)
    assert bool(decoded) is allowed


def test_a_large_jpeg_is_decoded_at_a_fraction_of_its_size(monkeypatch):
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


def test_other_files_are_refused():
    others = ("BMP", "TIFF", "PPM", "ICO", "TGA", "PCX", "EPS", "JPEG2000", "AVIF", "PDF")
    for data in (
        *(b"", b"\0", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"PK\x03\x04" + bytes(100)),
        b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
        random.Random(1).randbytes(5000),
        *(saved(quarters(), kind) for kind in others),
    ):
        assert "Send a JPEG, PNG, WebP or GIF file" in refusal(data), data[:12]


@pytest.mark.parametrize("kind", SAMPLES)
def test_truncated_pictures_are_refused(kind):
    data = SAMPLES[kind]
    # Of files with two pictures, the second is not looked at; and the end may lack checksums.
    end = len(data) // 4 if kind in ("mpo", "apng", "gif", "awebp") else len(data) - 24
    for length in {*range(0, min(40, end)), *range(0, end, max(1, end // 60)), end}:
        assert refusal(data[:length]), length


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_damaged_file_is_refused_or_made_and_nothing_else(kind, caplog):
    chance = random.Random(kind)
    for _ in range(300):
        data = bytearray(SAMPLES[kind])
        for _ in range(chance.choice((1, 1, 2, 8))):
            place = chance.randrange(len(data))
            length = chance.choice((0, 1, 1, 4, 9))
            odd = (b"", bytes([data[place] ^ 1]), chance.randbytes(1), b"\xff" * 4, bytes(4))
            data[place : place + length] = chance.choice((*odd, data[place // 2 :][:40]))
        refusal(bytes(data))
    assert caplog.records == []


@pytest.mark.parametrize(
    ("error", "logged"),
    [*((error, False) for error in (OSError, SyntaxError, ValueError)), (AttributeError, True)],
)
def test_only_an_unusual_error_of_a_decoder_is_logged(broken, caplog, error, logged):
    broken(error, "Image.open")
    assert DAMAGED in refusal(SAMPLES["png"])
    assert [record.levelname for record in caplog.records] == ["ERROR"] * logged
    assert all(record.exc_info[0] is error for record in caplog.records)


def test_a_refusal_keeps_nothing_of_the_picture():
    with pytest.raises(PictureInvalid) as caught:
        AVATARS.make(io.BytesIO(SAMPLES["png"][:-40]))
    assert caught.value.__context__ is None
    assert caught.value.__cause__ is None


def test_our_own_mistakes_are_not_blamed_on_the_picture(broken):
    broken(ValueError("ours"), "Image.Image.save")
    with pytest.raises(ValueError, match="ours"):
        make(SAMPLES["png"])


def test_a_lack_of_memory_is_not_blamed_on_the_picture(broken):
    broken(MemoryError, "Image.open")
    with pytest.raises(PicturesBusy):
        make(SAMPLES["png"])


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
def test_files_of_very_many_pieces_are_refused(data):
    assert UNUSUAL in refusal(data)


def test_an_animation_may_be_long_and_junk_may_follow():
    frames = part(b"ANMF", FRAME) * 2_000
    make(riff(part(b"VP8X", b"\2\0\0\0" + bytes([7, 0, 0]) * 2), part(b"ANIM", bytes(6)), frames))
    make(SAMPLES["webp"] + bytes(200_000))


def test_scans_are_counted_to_the_end_of_the_picture_only():
    scan = segment(0xDA, bytes(8))
    assert refusal(jpeg(8, 8, scans=32)) is None
    assert refusal(jpeg(8, 8, extra=segment(0xE2, scan * 99)) + b"\0\2" + scan * 99) is None


def test_texts_in_a_png_are_no_bomb():
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


def test_exif_is_not_taken_apart(broken):
    """Pillow would look for the resolution, in a list of a million fractions if there is one."""
    taken_apart = broken(OSError, "Image.Exif.load")
    segments = b"".join(segment(0xE1, b"Exif\0\0" + exif(number)) for number in (6, 1))
    data = saved(quarters(colours=(GREEN, WHITE, RED, BLUE)), "JPEG", quality=90)
    assert alike(seen(make(data[:2] + segments + data[2:])), CORNERS)
    assert taken_apart == []


# One after the other


def test_pictures_are_made_one_at_a_time_and_few_may_wait(monkeypatch):
    gate, threads = threading.Event(), set()

    def slow(*args, open=Image.open, **options):
        threads.add(threading.get_ident())
        gate.wait(timeout=30)
        return open(*args, **options)

    monkeypatch.setattr("PIL.Image.open", slow)
    avatars = Avatars(waiting=2)
    with ThreadPoolExecutor(max_workers=3) as pool:
        calls = [pool.submit(avatars.make, io.BytesIO(SAMPLES["png"])) for _ in range(3)]
        soon(lambda: not avatars._places._value)
        try:
            for _ in range(3):
                with pytest.raises(PicturesBusy):
                    avatars.make(io.BytesIO(SAMPLES["png"]))
        finally:
            gate.set()
    assert len({call.result() for call in calls}) == 1
    assert avatars.make(io.BytesIO(SAMPLES["png"]))
    assert len(threads) == 1


ODD = """
import sys
from core.images import Avatars
with open(sys.argv[1], "rb") as file:
    Avatars(waiting=0).make(file)
"""


def test_odd_pictures_put_nothing_into_the_log(tmp_path):
    data = SAMPLES["mpo"].replace(b"0100", b"01\xff\xff").replace(b"\x01\xb0", b"\x77\xb0")
    with pytest.warns(UserWarning, match="malformed"):
        Image.open(io.BytesIO(data)).load()
    odd = tmp_path / "odd"
    odd.write_bytes(data)
    command = [sys.executable, "-c", ODD, odd]
    environ = os.environ | MEMORY
    ran = subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, timeout=60)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, b"")
