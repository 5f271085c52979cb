"""Uploaded pictures: what becomes of them, what is refused, and within which bounds."""

import io
import struct
import subprocess
import sys
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from helpers import chunk, saved, segment, soon
from PIL import Image, PngImagePlugin
from PIL.JpegImagePlugin import JpegImageFile

from config import ROOT
from core.images import SIDE, Avatars, PictureInvalid, PicturesBusy

RED, GREEN, BLUE, WHITE = (200, 30, 30), (30, 160, 30), (30, 30, 200), (250, 250, 250)
CORNERS = (RED, GREEN, BLUE, WHITE)  # top left, top right, bottom left, bottom right
SECRET = b"40.7128 N, 74.0060 W"
TOO_LARGE, DAMAGED, UNUSUAL = "too many pixels", "damaged or incomplete", "unusual way"
UNKNOWN = "Send a JPEG, PNG, WebP or GIF file"


# As in production: pytest puts its own filters in front of those that the module sets.
pytestmark = pytest.mark.filterwarnings(r"ignore:::PIL\.")
# No other call may wait: a place that is not given back fails all tests after it.
AVATARS = Avatars(waiting=0)


def make(data):
    return AVATARS.make(io.BytesIO(data))


def refusal(data):
    """Return why a file is refused, None if it is not."""
    try:
        make(data)
    except PictureInvalid as error:
        return str(error)
    return None


def failing(error):
    def fail(*_, **__):
        raise error

    return fail


def quarters(mode="RGB", size=(64, 64), colours=CORNERS):
    image = Image.new(mode, (2, 2))
    for index, colour in enumerate(colours):
        image.putpixel((index % 2, index // 2), colour)
    return image.resize(size, Image.Resampling.NEAREST)


def png(width, height, extra=b"", pixels=None):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    data = b"" if pixels is None else zlib.compress(pixels, 1)
    parts = chunk(b"IHDR", header), extra, chunk(b"IDAT", data), chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def jpeg(width=8, height=8, mode="RGB", frame=0xC2, scans=1, extra=b""):
    """A JPEG of that size in its header, whose scans all come without data."""
    data = saved(Image.new(mode, (8, 8)), "JPEG", progressive=True)
    start, scan = data.index(b"\xff\xc2"), data.index(b"\xff\xda")
    head = data[start + 2 : start + 5] + struct.pack(">HH", height, width)
    head = extra + data[2:start] + bytes([0xFF, frame]) + head + data[start + 9 : scan]
    size = 2 + int.from_bytes(data[scan + 2 : scan + 4])
    return data[:2] + head + data[scan : scan + size] * scans + data[-2:]


def gif(width, height, frame=(8, 8), extra=b""):
    data = saved(Image.new("L", frame, 99), "GIF")
    start = 13 + (3 << (data[10] & 7) + 1)
    return data[:6] + struct.pack("<HH", width, height) + data[10:start] + extra + data[start:]


def riff(*parts):
    content = b"WEBP" + b"".join(parts)
    return b"RIFF" + struct.pack("<I", len(content)) + content


def part(kind, data):
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def webp(width, height, frames=1):
    """An animation of small frames on a canvas of that size."""
    canvas = b"".join((side - 1).to_bytes(3, "little") for side in (width, height))
    head = part(b"VP8X", b"\2\0\0\0" + canvas), part(b"ANIM", bytes(6))
    return riff(*head, part(b"ANMF", FRAME) * frames)


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

# What comes out: files, and the colours of the corners that they show

GREYS = (0, 90, 180, 255)
GREY_CORNERS = [(value,) * 3 for value in GREYS]
INKS = [(0, 255, 255, 0), (255, 0, 0, 0), (0, 0, 0, 255), (0, 0, 0, 0)]
PRINTED = [(255, 0, 0), (0, 255, 255), (0, 0, 0), (255, 255, 255)]
# The last corner is fully transparent. What colour it had must not survive.
CLEAR = [(*RED, 255), (*GREEN, 128), (*BLUE, 255), (0, 0, 0, 0)]
HIDDEN = [*CLEAR[:3], (255, 0, 255, 0)]
CUT = [(*RED, 255), (*GREEN, 255), (*BLUE, 255), (0, 0, 0, 0)]
GREY_CUT = [*((value,) * 3 + (255,) for value in GREYS[:3]), (0, 0, 0, 0)]


def colours():
    """Yield files in all the ways to store colours, larger than what comes out."""
    size = (600, 600)
    palette = quarters(size=size).quantize(4)
    white = palette.getpixel((599, 599))
    grey, hidden = quarters("L", size, GREYS), quarters("RGBA", size, HIDDEN)
    yield "two colours", saved(quarters("1", size, (0, 0, 1, 1))), [(0,) * 3] * 2 + [(255,) * 3] * 2
    yield "grey", saved(grey), GREY_CORNERS
    yield "16 bits", saved(quarters("I;16", size, [257 * value for value in GREYS])), GREY_CORNERS
    yield "palette", saved(palette), CORNERS
    yield "palette of 2 bits", saved(palette, bits=2), CORNERS
    yield "GIF", saved(palette, "GIF"), CORNERS
    yield "CMYK", saved(quarters("CMYK", size, INKS), "JPEG", quality=95), PRINTED
    yield "opaque", saved(quarters("RGBA", size, [(*colour, 255) for colour in CORNERS])), CORNERS
    yield "RGBA", saved(hidden), CLEAR
    yield "RGBA as large as it comes out", saved(quarters("RGBA", colours=HIDDEN)), CLEAR
    yield "lossless with alpha", saved(hidden, "WEBP", lossless=True, exact=True), CLEAR
    yield "WebP with alpha", saved(hidden, "WEBP", quality=90), CLEAR
    yield "cut colour", saved(quarters(size=size), transparency=WHITE), CUT
    yield "cut grey", saved(grey, transparency=255), GREY_CUT
    yield "cut palette", saved(palette, transparency=white), CUT
    yield "cut GIF", saved(palette, "GIF", transparency=white), CUT
    alphas = bytes(255 * (index != white) for index in range(4))
    yield "alphas of a palette", saved(palette, transparency=alphas), CUT
    grey_and_alpha = quarters("LA", size, [(0, 255), (90, 255), (180, 255), (255, 0)])
    yield "grey and alpha", saved(grey_and_alpha), GREY_CUT
    # Squares of one pixel turn grey.
    board = Image.frombytes("1", (1024, 1024), (b"\xaa" * 128 + b"\x55" * 128) * 512)
    for image in (board, board.convert("RGB").quantize(2), board.convert("RGBA")):
        yield f"{image.mode} board", saved(image), [(128,) * 3] * 4


def shapes():
    """Yield files of other sizes: the square in the middle is what stays."""
    for size in [(1, 1), (2, 3), (511, 511), (512, 512), (513, 513)]:
        yield f"{size}", saved(Image.new("RGB", size, RED)), [RED] * 4
    wide = Image.new("RGB", (300, 100), RED)
    wide.paste(GREEN, (100, 0, 200, 100))
    for image in (wide, wide.rotate(90, expand=True), wide.resize((3000, 1000))):
        for kind in ("PNG", "JPEG"):
            yield f"{kind} of {image.size}", saved(image, kind), [GREEN] * 4


# For each orientation, the corners as stored of a picture that shows CORNERS: EXIF 2.32, 4.6.5.
STORED = {1: "RGBW", 2: "GRWB", 3: "WBGR", 4: "BWRG", 5: "RBGW", 6: "GWRB", 7: "WGBR", 8: "BRWG"}


def orientations():
    """Yield files that must be turned, and files whose EXIF data is odd, which need not."""
    for orientation, stored in STORED.items():
        image = quarters(colours=[CORNERS["RGBW".index(name)] for name in stored])
        data = exif(orientation, "<>"[orientation % 2])
        for kind, block in (("JPEG", b"Exif\0\0" + data), ("PNG", data), ("WEBP", data)):
            name = f"{kind} turned {orientation}"
            yield name, saved(image, kind, exif=block, quality=90), CORNERS
    twice = b"".join(segment(0xE1, b"Exif\0\0" + exif(number)) for number in (6, 1))
    data = saved(quarters(colours=(GREEN, WHITE, RED, BLUE)), "JPEG", quality=90)
    yield "first EXIF of two", data[:2] + twice + data[2:], CORNERS
    for number, block in enumerate(
        [
            *(b"\0", b"II*\0", b"nonsense" * 9, b"\xff" * 60_000, exif(6)[:-8], exif(99), exif(0)),
            exif(6).replace(b"\x08\0\0\0", b"\xff\xff\xff\xff"),
            exif(6)[:8] + b"\xff\xff" + bytes(500),
            exif(3)[:4] + struct.pack("<L", 4) + exif(3)[8:],
        ]
    ):
        for kind, data in (("JPEG", b"Exif\0\0" + block), ("PNG", block), ("WEBP", block)):
            yield f"{kind} odd {number}", saved(quarters(), kind, exif=data, quality=90), CORNERS
    info = PngImagePlugin.PngInfo()
    info.add_itxt("exif", "hello")
    yield "text named exif", saved(quarters(), pnginfo=info), CORNERS


def secretive():
    """Yield files that carry more than their pixels."""
    ifd = Image.Exif()
    ifd[0x010E] = SECRET.decode()
    ifd.get_ifd(0x8825)[1] = SECRET.decode()
    block, image, info = ifd.tobytes(), quarters(), PngImagePlugin.PngInfo()
    info.add_text("Comment", SECRET.decode())
    info.add_itxt("XML:com.adobe.xmp", SECRET.decode())
    info.add(b"prVt", SECRET)
    more = {"exif": block, "icc_profile": SECRET, "xmp": SECRET, "comment": SECRET}
    jpeg = saved(image, "JPEG", quality=90, **more)
    photoshop = segment(0xED, b"Photoshop 3.0\0" + SECRET)
    yield "JPEG", jpeg[:2] + photoshop + jpeg[2:], CORNERS
    yield "PNG", saved(image, "PNG", exif=block, icc_profile=SECRET, pnginfo=info), CORNERS
    yield "GIF", saved(image.quantize(4), "GIF", comment=SECRET), CORNERS
    for mode in ("RGB", "RGBA"):
        yield f"WebP of {mode}", saved(image.convert(mode), "WEBP", quality=90, **more), CORNERS


FILES = [
    *((name, data, CORNERS) for name, data in SAMPLES.items()),
    *(*colours(), *shapes(), *orientations()),
    *((f"{name} with metadata", *more) for name, *more in secretive()),
]


@pytest.mark.asvs("14.2.8")
@pytest.mark.parametrize(
    ("data", "corners"), [row[1:] for row in FILES], ids=[row[0] for row in FILES]
)
def test_a_picture_becomes_an_upright_square_webp_of_its_pixels(monkeypatch, data, corners):
    side = min(*Image.open(io.BytesIO(data)).size, SIDE)
    # Pillow would look for the resolution, in a list of a million fractions if there is one.
    monkeypatch.setattr("PIL.Image.Exif.load", failing(OSError))
    made = make(data + b"PK\x03\x04" + SECRET)
    assert not any(mark in made for mark in (SECRET, b"PK\3\4", b"EXIF", b"ICCP", b"XMP "))
    image = Image.open(io.BytesIO(made))
    assert (image.format, image.size) == ("WEBP", (side, side))
    places = (side // 8, side * 7 // 8)
    for place, corner in zip(((x, y) for y in places for x in places), corners, strict=True):
        assert image.getpixel(place) == pytest.approx(corner, abs=8)


# Sizes


@pytest.mark.asvs("5.2.3")
@pytest.mark.parametrize(
    ("data", "decoded_at"),
    [
        (png(4000, 3000), (4000, 3000)),
        (png(4000, 3001), None),
        (png(2**31 - 1, 2**31 - 1), None),
        (png(16_383, 1), (16_383, 1)),
        (png(1, 16_384), None),
        (gif(4000, 3000), (4000, 3000)),
        (gif(4000, 3001), None),
        (gif(1, 1, frame=(4001, 3000)), None),
        (webp(3200, 2500), (3200, 2500)),
        (webp(3200, 2501), None),
        # A large JPEG is decoded at a fraction of its size.
        (jpeg(5000, 5000), (1250, 1250)),
        (jpeg(5000, 5001), None),
        (jpeg(5000, 4000, mode="CMYK"), (1250, 1000)),
        (jpeg(5000, 4001, mode="CMYK"), None),
        (jpeg(16_383, 1525), (8192, 763)),
        (jpeg(16_384, 1), None),
        (jpeg(12_207, 2048), (3052, 512)),
        (jpeg(4000, 3000), (2000, 1500)),
        (jpeg(2047, 2047), (2047, 2047)),
    ],
    ids=range(19),
)
def test_the_limit_is_in_pixels_and_holds_before_decoding(monkeypatch, data, decoded_at):
    decoded, kept = [], []

    def load(picture):
        decoded.append(picture.size)
        if isinstance(picture, JpegImageFile):
            kept.extend([*picture.applist, *picture.app, *picture.info])  # copies of its metadata
        raise OSError

    for name in ("ImageFile.ImageFile", "WebPImagePlugin.WebPImageFile"):
        monkeypatch.setattr(f"PIL.{name}.load", load)
    assert (DAMAGED if decoded_at else TOO_LARGE) in refusal(data)
    assert (decoded, kept) == ([decoded_at] * bool(decoded_at), [])


# What is no picture


def test_other_files_are_refused():
    others = ("BMP", "TIFF", "ICO", "EPS", "JPEG2000", "AVIF", "PDF")
    for data in (
        *(b"", b"\0", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"PK\x03\x04" + bytes(100)),
        *(saved(quarters(), kind) for kind in others),
    ):
        assert UNKNOWN in refusal(data), data[:12]


@pytest.mark.parametrize("kind", SAMPLES)
def test_truncated_pictures_are_refused(kind):
    data = SAMPLES[kind]
    # Of files with two pictures, the second is not looked at; and the end may lack checksums.
    end = len(data) // 4 if kind in ("mpo", "apng", "gif", "awebp") else len(data) - 24
    for length in (*range(0, end, 1 + end // 60), end):
        assert refusal(data[:length]), length
    if kind == "png":  # Pillow would accept it
        assert refusal(data[:-1])


@pytest.mark.parametrize(
    ("error", "logged"),
    [*((error, False) for error in (OSError, SyntaxError, ValueError)), (AttributeError, True)],
)
def test_only_an_unusual_error_of_a_decoder_is_logged(monkeypatch, caplog, error, logged):
    monkeypatch.setattr("PIL.ImageFile.ImageFile.load", failing(error))
    with pytest.raises(PictureInvalid, match=DAMAGED) as caught:
        make(SAMPLES["png"])
    assert [record.exc_info[0] for record in caplog.records] == [error] * logged
    # Or the traceback would keep the picture.
    assert caught.value.__context__ is caught.value.__cause__ is None


@pytest.mark.parametrize(
    ("place", "error", "raised"),
    [("Image.open", MemoryError, PicturesBusy), ("Image.Image.save", ValueError, ValueError)],
)
def test_our_own_troubles_are_not_blamed_on_the_picture(monkeypatch, place, error, raised):
    monkeypatch.setattr(f"PIL.{place}", failing(error))
    with pytest.raises(raised):
        make(SAMPLES["png"])


# Files made to do harm


@pytest.mark.parametrize(
    "data",
    [
        png(8, 8, extra=chunk(b"prVt", b"") * 200_000),
        jpeg(extra=segment(0xE5, b"") * 200_000),
        jpeg(extra=b"\xff" * 200_000),
        gif(8, 8, extra=b"!\xfe" + b"\1A" * 200_000 + b"\0"),
        gif(8, 8, extra=b"!\xfe\1A\0" * 200_000),
        riff(SAMPLES["webp"][12:], part(b"EXIF", b"odd"), part(b"prVt", b"") * 10_000),
        riff(part(b"VP8X", b"\2" + bytes(9)), part(b"ANMF", bytes(24)) * 10_000),
        jpeg(scans=33),
        jpeg(frame=0xC9),
        jpeg(frame=0xCA),
        # A scan behind a segment that says it is longer or shorter than it can be.
        jpeg(scans=33, extra=b"\xff\xfe\0\0" + segment(0xFE, b"\xff\xd9")),
    ],
    ids=range(11),
)
def test_files_of_very_many_pieces_are_refused(data):
    assert UNUSUAL in refusal(data)


def test_files_of_many_pieces_are_made():
    """A long animation, junk behind a picture, and scans that do not count."""
    scan = segment(0xDA, bytes(8))
    for data in (
        *(webp(8, 8, frames=2_000), SAMPLES["webp"] + bytes(200_000), jpeg(scans=32)),
        jpeg(extra=segment(0xE2, scan * 99)) + b"\0\2" + scan * 99,
    ):
        make(data)


def test_texts_in_a_png_are_no_bomb():
    packed, beyond = (zlib.compress(bytes(2**20 + more), 9) for more in (0, 1))
    pixels = (b"\0" + bytes(24)) * 8
    usual = chunk(b"zTXt", b"a\0\0" + zlib.compress(b"text" * 999)) * 9
    for extra, why in (
        # Without a name, Pillow unpacks a text and does not count it.
        (chunk(b"zTXt", b"\0\0" + packed) * 101, UNUSUAL),
        (chunk(b"zTXt", b"a\0\0" + packed) * 5, UNUSUAL),
        (chunk(b"tEXt", b"a\0" + bytes(2**22 + 9)), UNUSUAL),
        (chunk(b"zTXt", b"a\0\0" + beyond), UNUSUAL),
        (usual + chunk(b"tEXt", b"b\0" + b"text" * 99_999), "None"),
    ):
        assert why in str(refusal(png(8, 8, extra=extra, pixels=pixels)))


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


def test_odd_pictures_put_nothing_into_the_log():
    data = SAMPLES["mpo"].replace(b"0100", b"01\xff\xff").replace(b"\x01\xb0", b"\x77\xb0")
    with pytest.warns(UserWarning, match="malformed"):
        Image.open(io.BytesIO(data)).load()
    code = "import sys; from core.images import Avatars; Avatars(waiting=0).make(sys.stdin.buffer)"
    command = [sys.executable, "-c", code]
    ran = subprocess.run(command, cwd=ROOT, input=data, capture_output=True, timeout=60)
    assert (ran.returncode, ran.stdout + ran.stderr) == (0, b"")
