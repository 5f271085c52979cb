"""Pictures that cameras, programs and phones make: what is stored is what browsers show."""

import io
import struct
import zlib

import pytest
from helpers import chunk, saved, segment
from PIL import Image

from core.images import Avatars, PictureInvalid

# As in production: pytest puts its own filters in front of those that the module sets.
pytestmark = pytest.mark.filterwarnings(r"ignore:::PIL\.")
AVATARS = Avatars(waiting=0)
RED, GREEN, BLUE, WHITE = (250, 0, 0), (0, 250, 0), (0, 0, 250), (255, 255, 255)
CLEAR, HALF = (0, 0, 0, 0), (0, 0, 250, 128)
SIDE = 32
GREY, COLOUR, PALETTE, COLOUR_AND_ALPHA = 0, 2, 3, 6


def packed(pixels, depth):
    """Return pixels (tuples of samples) in SIDE columns as the data of a PNG."""
    bits = ["".join(f"{value:0{depth}b}" for value in pixel) for pixel in pixels]
    rows = ("".join(bits[start : start + SIDE]) for start in range(0, len(bits), SIDE))
    return b"".join(b"\0" + int(row, 2).to_bytes(len(row) // 8) for row in rows)


def png(kind, depth, left, right, *, extra=b"", after=b""):
    """A PNG with a left and a right half."""
    head = struct.pack(">IIBBBBB", SIDE, SIDE, depth, kind, 0, 0, 0)
    data = zlib.compress(packed(([left] * 16 + [right] * 16) * SIDE, depth))
    parts = chunk(b"IHDR", head), extra, chunk(b"IDAT", data), after, chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def cut(kind, depth, clear, other):
    """A PNG whose left half has the colour that is transparent."""
    transparent = chunk(b"tRNS", struct.pack(f">{len(clear)}H", *clear))
    return png(kind, depth, clear, other, extra=transparent)


def hidden(kind, pixel, size=SIDE, at=0, blend=0, extra=b""):
    """An APNG with a default picture that is no frame, and a square frame of one colour."""
    begin = chunk(b"acTL", struct.pack(">II", 1, 0))
    frame = struct.pack(">IIIIIHHBB", 0, size, size, at, at, 1, 10, 0, blend)
    data = zlib.compress((b"\0" + bytes(pixel) * size) * size)
    after = chunk(b"fcTL", frame) + chunk(b"fdAT", struct.pack(">I", 1) + data)
    default = {GREY: (9,), COLOUR: RED, PALETTE: (0,), COLOUR_AND_ALPHA: (*RED, 255)}[kind]
    return png(kind, 8, default, default, extra=extra + begin, after=after)


def gif(**options):
    """A GIF of 32 x 32 whose first frame is its upper left quarter."""
    data = saved(Image.new("RGB", (16, 16), RED).quantize(2), "GIF", **options)
    return data[:6] + struct.pack("<HH", SIDE, SIDE) + data[10:]


def profile(space, curve, columns=("r", "g", "b")):
    """An ICC profile of a screen, with the primaries of sRGB in this order, or of greys."""
    white = struct.pack(">8xIII", 0xF6D6, 0x10000, 0xD32D)
    primaries = ((0x6FA2, 0x38F5, 0x0390), (0x6299, 0xB785, 0x18DA), (0x24A0, 0x0F84, 0xB6CF))
    steps = b"curv" + struct.pack(">4xIHxx", 1, int(curve * 256))
    tags = [(b"wtpt", b"XYZ " + white[4:])]
    if space == b"GRAY":
        tags.append((b"kTRC", steps))
    else:
        for name, place in zip(columns, primaries, strict=True):
            tags.append((name.encode() + b"XYZ", b"XYZ " + struct.pack(">4xIII", *place)))
            tags.append((name.encode() + b"TRC", steps))
    start = 132 + 12 * len(tags)
    table, body = b"", b""
    for name, data in tags:
        table += name + struct.pack(">II", start + len(body), len(data))
        body += data
    kind = 2 << 24, b"mntr", space, b"XYZ ", b"acsp"
    head = struct.pack(">I4sI4s4s4s12x4s", start + len(body), b"lcms", *kind)
    head = head.ljust(68, b"\0") + white[8:]
    return head.ljust(128, b"\0") + struct.pack(">I", len(tags)) + table + body


def turned(orientation, order=">", mark=b"MM\0*"):
    return mark + struct.pack(f"{order}LHHHLLL", 8, 1, 0x0112, 4, 1, orientation, 0)


TURNED = turned(3)
EXCHANGED = profile(b"RGB ", 2.2, ("g", "r", "b"))
LINEAR = profile(b"GRAY", 1.0)
HALVES = Image.new("RGB", (SIDE, SIDE), RED)
HALVES.paste(BLUE, (16, 0, 32, 32))
HEAD = len(b"\xff\xd8")


def jpeg(**options):
    return saved(HALVES, "JPEG", quality=95, subsampling=0, **options)


def with_segment(kind, data):
    return jpeg()[:HEAD] + segment(kind, data) + jpeg()[HEAD:]


def plain(mode, colour, profile):
    return saved(Image.new(mode, (SIDE, SIDE), colour), icc_profile=profile)


PAINT = chunk(b"PLTE", bytes((*RED, *BLUE)))
CLEAR_RED = chunk(b"tRNS", struct.pack(">HHH", *RED))
PLAIN = Image.new("RGB", (SIDE, SIDE), RED)
# The pixels that are shown in the middle of the upper left and the lower right quarter.
SHOWN = {
    # One colour that is transparent, in each depth
    "grey of 1 bit": (cut(GREY, 1, (1,), (0,)), CLEAR, (0, 0, 0)),
    "grey of 2 bits": (cut(GREY, 2, (2,), (3,)), CLEAR, WHITE),
    "grey of 4 bits": (cut(GREY, 4, (15,), (7,)), CLEAR, (119, 119, 119)),
    "grey of 8 bits": (cut(GREY, 8, (170,), (9,)), CLEAR, (9, 9, 9)),
    "grey of 16 bits": (cut(GREY, 16, (30_000,), (30_001,)), CLEAR, (116, 116, 116)),
    "white of 16 bits": (cut(GREY, 16, (255,), (65_535,)), CLEAR, WHITE),
    "colour of 8 bits": (cut(COLOUR, 8, RED, BLUE), CLEAR, BLUE),
    "colour of 16 bits": (cut(COLOUR, 16, (30_000, 1, 2), (0, 0, 64_250)), CLEAR, BLUE),
    # The first picture of an animation
    "frame": (hidden(COLOUR, BLUE), BLUE, BLUE),
    "grey frame": (hidden(GREY, (90,)), (90, 90, 90), (90, 90, 90)),
    "part of a canvas": (hidden(COLOUR, BLUE, size=16), BLUE, CLEAR),
    "part elsewhere": (hidden(COLOUR, BLUE, size=16, at=16, blend=1), CLEAR, BLUE),
    "part of a palette": (hidden(PALETTE, (1,), size=16, extra=PAINT), BLUE, CLEAR),
    "half transparent": (hidden(COLOUR_AND_ALPHA, HALF, blend=1), HALF, HALF),
    "cut frame": (hidden(COLOUR, BLUE, size=16, extra=CLEAR_RED), BLUE, CLEAR),
    "part of a GIF": (gif(), RED, CLEAR),
    # Colours of another profile
    "exchanged JPEG": (saved(PLAIN, "JPEG", quality=95, icc_profile=EXCHANGED), GREEN, GREEN),
    "exchanged PNG": (saved(PLAIN, icc_profile=EXCHANGED), GREEN, GREEN),
    "exchanged WebP": (saved(PLAIN, "WEBP", quality=95, icc_profile=EXCHANGED), GREEN, GREEN),
    "exchanged palette": (saved(PLAIN.quantize(2), icc_profile=EXCHANGED), GREEN, GREEN),
    "exchanged alpha": (plain("RGBA", (*RED, 128), EXCHANGED), *[(*GREEN, 128)] * 2),
    "linear grey": (plain("L", 100, LINEAR), *[(168, 168, 168)] * 2),
    "linear grey with alpha": (plain("LA", (100, 128), LINEAR), *[(168, 168, 168, 128)] * 2),
    "broken profile": (saved(PLAIN, icc_profile=EXCHANGED[:200]), RED, RED),
    "profile of greys": (saved(PLAIN, icc_profile=LINEAR), RED, RED),
    "profile of steps": (saved(PLAIN, icc_profile=EXCHANGED + b"mpet"), RED, RED),
    "endless profile": (
        *(saved(PLAIN, "WEBP", quality=95, icc_profile=EXCHANGED + bytes(2**22)),),
        *(RED, RED),
    ),
    # EXIF of the picture itself, and of others; also in the long type
    "half turned": (jpeg(exif=b"Exif\0\0" + turned(3, ">", b"MM\0*")), BLUE, RED),
    "half turned, in the other order": (
        *(jpeg(exif=b"Exif\0\0" + turned(3, "<", b"II*\0")), BLUE, RED),
    ),
    "comment": (with_segment(0xFE, b"Exif\0\0" + TURNED), RED, BLUE),
    "within another": (with_segment(0xE1, b"http://ns\0Exif\0\0" + TURNED), RED, BLUE),
    "behind the end": (jpeg() + jpeg(exif=b"Exif\0\0" + TURNED), RED, BLUE),
}


@pytest.mark.parametrize("name", SHOWN)
def test_a_picture_is_stored_as_browsers_show_it(name):
    data, *expected = SHOWN[name]
    made = Image.open(io.BytesIO(AVATARS.make(io.BytesIO(data)))).convert("RGBA")
    for place, colour in zip(((8, 8), (24, 24)), expected, strict=True):
        alpha = colour[3] if len(colour) == 4 else 255
        assert made.getpixel(place)[3] == alpha
        if alpha:
            assert made.getpixel(place)[:3] == pytest.approx(colour[:3], abs=8)


def red(extra):
    return png(COLOUR, 8, RED, RED, extra=extra)


UNKNOWN, DAMAGED, UNUSUAL = "not a picture that we support", "damaged", "an unusual way"
REFUSED = {
    "text": (b"hello", UNKNOWN),
    "TIFF": (saved(PLAIN, "TIFF"), UNKNOWN),
    "JPEG cut off before its pixels": (jpeg()[:200], DAMAGED),
    "JPEG cut off within them": (jpeg()[:-100], DAMAGED),
    "GIF cut off": (gif()[:12], DAMAGED),
    "PNG cut off": (saved(PLAIN)[:40], DAMAGED),
    # Shown by browsers
    "odd Photoshop data": (with_segment(0xED, b"Photoshop 3.0\x008BIM\4\4"), UNUSUAL),
    "short Adobe data": (with_segment(0xEE, b"Adobe\0"), UNUSUAL),
    "profile of another method": (red(chunk(b"iCCP", b"a\0\1x")), UNUSUAL),
    "text of another method": (red(chunk(b"zTXt", b"a\0\1x")), UNUSUAL),
    "wrong checksum": (red(chunk(b"zTXt", b"a\0\0")[:-1] + b"x"), UNUSUAL),
    **{
        f"short {name.decode()}": (red(chunk(name, b"")), UNUSUAL)
        for name in (b"gAMA", b"cHRM", b"pHYs", b"sRGB", b"tRNS", b"acTL")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_refusal_says_what_helps(name):
    data, says = REFUSED[name]
    with pytest.raises(PictureInvalid, match=says):
        AVATARS.make(io.BytesIO(data))
