"""Avatars: turns an uploaded picture into a small square WebP that holds only pixels.

A few bytes can expand to gigabytes or to hours of work. So the size is read before anything is
decoded, one picture is decoded at a time, and the limits below keep a process from growing by more
than 200 MB, however many uploads arrive at once.
"""

import io
import logging
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import BoundedSemaphore
from typing import BinaryIO, Literal

from PIL import Image, ImageCms, ImageOps, PngImagePlugin, UnidentifiedImageError
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

from core import turns

SIDE = 512  # pixels
_log = logging.getLogger("accounts.images")
_FORMATS = ("JPEG", "PNG", "WEBP", "GIF")

# Decoding takes up to 9 bytes of memory for each pixel, 18 for WebP. A JPEG with several scans
# takes 6 (8 in CMYK), and a large one is decoded at a fraction of its size.
_PIXELS = 12_000_000
_PIXELS_WEBP = 8_000_000
_PIXELS_JPEG = 25_000_000
_PIXELS_CMYK = 20_000_000
# WebP's own limit. Pillow also allocates memory for each row: twelve million rows of one pixel
# took 1.5 GB.
_LONGEST_SIDE = 16_383

# Ordinary files stay far below these limits; files made to do harm do not:
_READS = 100_000  # Pillow makes an object of each piece of metadata: 330 MB for a million.
_CHUNKS = 10_000  # Small chunks of a WebP fragment memory, which is then not released.
_PACKED_CHUNKS = 100  # Compressed text expands to 1 MiB a chunk: 20 seconds in one file.
_LONGEST_PROFILE = 4 * 2**20  # Those of printing presses have up to 3 MB.
_SCANS = 32  # A JPEG scan of ten bytes processes the whole picture: an hour in one file.

_EXIF = re.compile(rb"Exif\0\0")
_PACKED_CHUNK = re.compile(rb"zTXt|iTXt|iCCP")
_PNG_END = re.compile(rb"\0\0\0\0IEND\xaeB`\x82")
_JPEG_SEGMENT = re.compile(rb"\xff([\xc0-\xcf\xd9-\xfe])")
_JPEG_SCAN, _JPEG_END, _JPEG_EXIF = b"\xda", b"\xd9", b"\xe1"
_JPEG_ARITHMETIC = b"\xc9\xca\xcb\xcd\xce\xcf"
_ORIENTATION, _LONG = 0x0112, 4  # a tag of EXIF, and a type

_KNOWN = re.compile(rb"\xff\xd8\xff|\x89PNG\r\n|GIF8[79]a|RIFF....WEBP", re.S)
_HAS_PIXELS = re.compile(rb"\xff\xd8.*\xff\xda|\x89PNG.*IDAT", re.S)
_SRGB = ImageCms.createProfile("sRGB")

# What decoders raise for damaged files (seen with a million of them).
_DAMAGES = (OSError, SyntaxError, ValueError, AssertionError)

_UNKNOWN = "This file is not a picture that we support. Send a JPEG, PNG, WebP or GIF file."
_DAMAGED = "The picture is damaged or incomplete. Send the original file, or save it again."
_UNUSUAL = "The picture is stored in an unusual way. Save it again without metadata and send that."
_TOO_LARGE = (
    "The picture has too many pixels. The limit is 12 megapixels (25 for JPEG, 20 for JPEG in "
    "CMYK, 8 for WebP), and 16,383 pixels for each side. Scale it down and send it again."
)

# A second check, inside Pillow: it raises above twice this number.
Image.MAX_IMAGE_PIXELS = _PIXELS_JPEG
PngImagePlugin.MAX_TEXT_MEMORY = 4 * 2**20
# Pillow warns about oddities in a file; one upload could put thousands of lines into the log.
warnings.filterwarnings("ignore", module=r"PIL\.")


class PictureInvalid(Exception):
    """The picture cannot be used; the text tells the user why and what to do."""


class PicturesBusy(Exception):
    """Too many pictures are waiting, or there is not enough memory at the moment."""


class Avatars:
    """Makes avatars in one thread, while up to `waiting` further calls wait.

    glibc keeps memory for each thread that has decoded a picture: 470 MB instead of 160.
    """

    def __init__(self, waiting: int) -> None:
        self._places = BoundedSemaphore(1 + waiting)
        self._thread = ThreadPoolExecutor(1, "pictures")

    def make(self, file: BinaryIO) -> bytes:
        """Return the first frame as WebP: the square in its middle, upright, at most SIDE x SIDE
        pixels, never enlarged, without metadata or colours of fully transparent pixels.

        Takes JPEG, PNG, WebP and GIF, recognised by content. Reads the whole file, so the caller
        must limit its size. Raises PictureInvalid, or PicturesBusy at once if too many calls wait.
        """
        if not self._places.acquire(blocking=False):
            raise PicturesBusy
        try:
            with turns.waiting():
                return self._thread.submit(_make, file).result()
        finally:
            self._places.release()


class _Upload(io.BytesIO):
    """The bytes of a file, which can be read a limited number of times."""

    _reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads += 1
        if self._reads > _READS:
            raise PictureInvalid(_UNUSUAL)
        return super().read(size)


def _make(file: BinaryIO) -> bytes:
    kind: type[Exception] = PictureInvalid
    with _Upload(file.read()) as upload:
        try:
            picture, orientation, profile = _decode(upload)
        except PictureInvalid as error:
            problem = str(error)
        except MemoryError:
            kind, problem = PicturesBusy, ""
        except Image.DecompressionBombError:
            problem = _TOO_LARGE
        except Exception as error:
            problem = _DAMAGED
            if not isinstance(error, _DAMAGES):
                _log.exception("A picture is refused as damaged because of an unexpected error")
        else:
            return _encode(picture, orientation, profile)
    # Raised outside the handlers: a chained exception would keep the decoded picture in memory
    # until the response is sent, while the next picture is decoded.
    raise kind(problem)


def _decode(upload: _Upload) -> tuple[Image.Image, int, object]:
    """Return the first frame of a file, in a mode that can be scaled, its orientation, and the
    profile of its colours.
    """
    exif, depth = b"", 8
    with upload.getbuffer() as content:
        if sum(1 for _ in _PACKED_CHUNK.finditer(content)) > _PACKED_CHUNKS:
            raise PictureInvalid(_UNUSUAL)
        head = bytes(content[:12])
        if head.endswith(b"WEBP"):
            _check_chunks(content)
        # Pillow accepts a PNG that lacks its end.
        if head.startswith(b"\x89PNG\r\n\x1a\n"):
            if not _PNG_END.search(content):
                raise PictureInvalid(_DAMAGED)
            depth = content[24]  # bits of a sample
        if head.startswith(b"\xff\xd8"):
            exif = _check_segments(content)
            # Pillow parses EXIF when it opens a JPEG, even a list of a million fractions. So the
            # marks of EXIF are erased first.
            for found in [*_EXIF.finditer(content)]:
                content[found.start() : found.end()] = bytes(len(found[0]))
    picture = _open(upload)
    _draft(picture)
    profile = picture.info.get("icc_profile")
    if isinstance(picture, JpegImageFile):
        # Copies of all metadata, 10 MB.
        picture.applist.clear()
        picture.app.clear()
        picture.info.clear()
    pixels = _load(picture, depth)
    # The EXIF data of a PNG may follow its pixels.
    return pixels, _orientation(picture.info.get("exif") or exif), profile


def _open(upload: _Upload) -> Image.Image:
    """Read what a file says about its picture, up to the pixels."""
    try:
        return Image.open(upload, formats=_FORMATS)
    except _DAMAGES as error:
        if not _KNOWN.match(upload.getvalue()) and isinstance(error, UnidentifiedImageError):
            raise PictureInvalid(_UNKNOWN) from None
        # Browsers ignore metadata that Pillow cannot read.
        has_pixels = _HAS_PIXELS.match(upload.getvalue())
        raise PictureInvalid(_UNUSUAL if has_pixels else _DAMAGED) from None


def _load(picture: Image.Image, depth: int) -> Image.Image:
    """Return the pixels of the first frame as browsers show it. `depth` is that of a PNG."""
    whole, clear = (0, 0, *picture.size), picture.info.get("transparency")
    if depth == 16 and isinstance(clear, tuple):  # Pillow has the upper half of each sample
        picture.info["transparency"] = clear = tuple(value >> 8 for value in clear)
    elif depth in (2, 4) and isinstance(clear, int) and picture.mode == "L":
        picture.info["transparency"] = clear = clear * 255 // (2**depth - 1)
    if isinstance(picture, PngImageFile) and picture.info.get("default_image") is True:
        # Of an animation that begins with the next picture, on a canvas that is clear.
        picture.load()
        picture.paste(clear if isinstance(clear, int | tuple) else 0, whole)
        picture.seek(1)
        picture.blend_op = PngImagePlugin.Blend.OP_SOURCE
    shown = whole
    if isinstance(picture, GifImageFile | PngImageFile) and picture.tile:
        shown = picture.tile[0][1] or whole
    picture.load()
    if picture.mode == "I;16":
        sixteen = picture
        # `convert` alone would turn all but the darkest 256 of the 65536 greys into white.
        picture = picture.point(lambda value: value / 257).convert("L")
        if clear is not None:
            alphas = [255 * (value != clear) for value in range(2**16)]
            picture.putalpha(sixteen.convert("I").point(alphas, "L"))
    has_alpha, is_grey = picture.has_transparency_data, picture.mode in ("1", "L", "LA")
    mode = ("LA" if is_grey else "RGBA") if has_alpha else "L" if is_grey else "RGB"
    picture = picture if picture.mode in (mode, "CMYK") else picture.convert(mode)
    if shown != whole and not has_alpha:
        alpha = Image.new("L", picture.size)
        alpha.paste(255, shown)
        picture.putalpha(alpha)
    return picture


def _check_segments(jpeg: memoryview) -> bytes:
    """Return the EXIF data of a JPEG itself, not of another one in or behind it.

    Refuse one with too many scans, or with arithmetic coding (slow; browsers lack it).
    """
    exif, scans, position = b"", 0, 0
    for _ in range(_READS):
        found = _JPEG_SEGMENT.search(jpeg, position)
        if found is None or found[1] == _JPEG_END:
            return exif
        scans += found[1] == _JPEG_SCAN
        if scans > _SCANS or found[1] in _JPEG_ARITHMETIC:
            break
        position = found.end() + int.from_bytes(jpeg[found.end() :][:2])
        data = jpeg[found.end() + 2 : position]
        if found[1] == _JPEG_EXIF and not scans and not exif and _EXIF.match(data):
            exif = bytes(data[6:])
    raise PictureInvalid(_UNUSUAL)


def _check_chunks(webp: memoryview) -> None:
    position, end = 12, min(len(webp), 8 + int.from_bytes(webp[4:8], "little"))
    for _ in range(_CHUNKS):
        if position >= end:
            return
        size = int.from_bytes(webp[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    raise PictureInvalid(_UNUSUAL)


def _draft(picture: Image.Image) -> None:
    """Refuse a picture that is too large, and let a JPEG be decoded at a fraction of its size."""
    pixels, short = picture.width * picture.height, min(picture.size)
    limit, enough = _PIXELS, 2 * SIDE
    if isinstance(picture, WebPImageFile):
        limit = _PIXELS_WEBP
    elif isinstance(picture, JpegImageFile):
        limit = _PIXELS_CMYK if picture.mode == "CMYK" else _PIXELS_JPEG
    if pixels > limit or max(picture.size) > _LONGEST_SIDE:
        raise PictureInvalid(_TOO_LARGE)
    if pixels > _PIXELS:
        enough = min(enough, short // (4 if short >= 4 * SIDE else 2))
    picture.draft(None, (enough, enough))


def _orientation(exif: object) -> int:
    """Return the orientation in EXIF data, 1 (upright) if there is none."""
    if not isinstance(exif, bytes):  # A PNG can have a text with that name.
        return 1
    tiff = exif.removeprefix(b"Exif\0\0")
    order: Literal["little", "big"] = "little" if tiff.startswith(b"II") else "big"

    def number(position: int, length: int) -> int:
        return int.from_bytes(tiff[position : position + length], order)

    first = number(4, 4) + 2
    for entry in range(first, first + 12 * number(first - 2, 2), 12):
        if number(entry, 2) == _ORIENTATION:
            return number(entry + 8, 4 if number(entry + 2, 2) == _LONG else 2)
    return 1


def _in_srgb(picture: Image.Image, profile: object) -> Image.Image:
    """Return a picture as RGBA with its colours in sRGB. A profile that cannot be read is none.

    So is one with a chain of steps ("mpet"): each pixel would take as many as there are.
    """
    if isinstance(profile, bytes) and len(profile) <= _LONGEST_PROFILE and b"mpet" not in profile:
        colours = picture.convert({"LA": "L", "RGBA": "RGB"}.get(picture.mode, picture.mode))
        with suppress(ImageCms.PyCMSError, *_DAMAGES):
            own = io.BytesIO(profile)
            found = ImageCms.buildTransform(own, _SRGB, colours.mode, "RGB").apply(colours)
            if picture.has_transparency_data:
                found.putalpha(picture.getchannel("A"))
            picture = found
    return picture.convert("RGBA")


def _encode(picture: Image.Image, orientation: int, profile: object) -> bytes:
    """Return the upright square in the middle of a picture as WebP."""
    width, height = picture.size
    short = min(width, height)
    side = min(short, SIDE)
    left, top = (width - short) // 2, (height - short) // 2
    box = (left, top, left + short, top + short)
    square = picture.resize((side, side), Image.Resampling.LANCZOS, box, reducing_gap=2.0)
    square = _in_srgb(square, profile)
    square.info.clear()  # or Pillow would parse the EXIF data there
    square.getexif()[_ORIENTATION] = orientation
    square = ImageOps.exif_transpose(square)
    # Pillow copies metadata from picture to picture, so the pixels go onto a new one.
    fresh = Image.new("RGBA", square.size)
    fresh.alpha_composite(square)
    file = io.BytesIO()
    fresh.save(file, "WEBP", quality=82, method=4)
    return file.getvalue()
