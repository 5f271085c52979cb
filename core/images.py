"""Pictures of users: from whatever was uploaded, a small square WebP with nothing but its pixels.

The files come from strangers, and a few bytes can unfold to gigabytes or to hours of work. So the
size is read before anything is decoded, one picture is decoded at a time, and the limits are such
that a process grows by less than 200 MB, however many come at once.
"""

import io
import re
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import BoundedSemaphore
from typing import BinaryIO, Literal

from PIL import Image, PngImagePlugin, UnidentifiedImageError
from PIL.GifImagePlugin import GifImageFile
from PIL.JpegImagePlugin import JpegImageFile
from PIL.PngImagePlugin import PngImageFile
from PIL.WebPImagePlugin import WebPImageFile

SIDE = 512  # pixels

# Up to 9 bytes for each pixel are in memory at once, 18 for WebP. A JPEG of several scans takes
# 6, and 8 in CMYK, until it is complete; a large one then comes out at a fraction of its size.
_PIXELS = 12_000_000
_PIXELS_WEBP = 8_000_000
_PIXELS_JPEG = 25_000_000
_PIXELS_CMYK = 20_000_000
# Pillow keeps some bytes for each row as well: twelve million rows of one pixel took it 1.5 GB.
# This is WebP's own limit, and hardly a panorama is longer.
_LONGEST_SIDE = 16_383

# No honest file comes near these. Pillow takes what precedes the picture apart, and makes an
# object of each piece: with a million empty ones, 330 MB. Chunks of packed text unfold to 1 MiB
# each, one after the other: 20 seconds. A scan of a JPEG may have ten bytes, but goes over the
# whole picture: an hour. Small chunks of a WebP scatter memory that is then not given back.
_READS = 100_000
_CHUNKS = 10_000
_PACKED_CHUNKS = 100
_SCANS = 32

# Pillow knows those of its formats that are imported.
_FORMATS = [kind.format for kind in (JpegImageFile, PngImageFile, WebPImageFile, GifImageFile)]
_EXIF = re.compile(rb"Exif\0\0")
_PACKED_CHUNK = re.compile(rb"zTXt|iTXt|iCCP")
_PNG_END = re.compile(rb"\0\0\0\0IEND\xaeB`\x82")
_JPEG_SEGMENT = re.compile(rb"\xff([\xc0-\xcf\xd9-\xfe])")
_JPEG_SCAN, _JPEG_END = b"\xda", b"\xd9"
_JPEG_ARITHMETIC = b"\xc9\xca\xcb\xcd\xce\xcf"
_UPRIGHT = {  # by EXIF's orientation
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}

_UNKNOWN = "This is not a picture that can be used. Send a JPEG, PNG, WebP or GIF file."
_DAMAGED = "The picture is damaged or incomplete. Send the original file, or save it anew."
_UNUSUAL = "The picture is stored in an unusual way. Save it anew, without anything beside it."
_TOO_LARGE = (
    "The picture has too many pixels: 12 megapixels are the limit, 25 for JPEG (20 in CMYK) and 8 "
    "for WebP, and 16,383 for each side. Scale it down and send it again."
)

# A second fence, inside Pillow: it raises above twice this.
Image.MAX_IMAGE_PIXELS = _PIXELS_JPEG
PngImagePlugin.MAX_TEXT_MEMORY = 4 * 2**20
# It warns of what is odd in a file. That is nothing for the log, where a file could put thousands.
warnings.filterwarnings("ignore", module=r"PIL\.")


class PictureInvalid(Exception):
    """The picture cannot be used; the text tells the person who sent it why, and what helps."""


class PicturesBusy(Exception):
    """Too many pictures wait, or there is no memory for one more at this moment."""


class Avatars:
    """Makes avatars, one at a time, while up to `waiting` calls wait for their turn.

    All are made in one thread: glibc keeps memory for each thread that has decoded a picture, and
    a process without the Procfile's settings would grow by 470 MB instead of 160.
    """

    def __init__(self, waiting: int) -> None:
        self._places = BoundedSemaphore(1 + waiting)
        self._thread = ThreadPoolExecutor(1, "pictures")

    def make(self, file: BinaryIO) -> bytes:
        """Return the picture as a WebP file: upright, the square in its middle, at most SIDE x SIDE
        pixels and never enlarged. Of an animation it is the first picture.

        It takes JPEG, PNG, WebP and GIF, by content. The file is read as a whole, so the caller
        bounds it. Nothing but the visible pixels survives: no metadata, no colours under full
        transparency. Raises PictureInvalid, and PicturesBusy at once if too many wait.
        """
        if not self._places.acquire(blocking=False):
            raise PicturesBusy
        try:
            return self._thread.submit(_make, file).result()
        finally:
            self._places.release()


class _Upload(io.BytesIO):
    """The bytes of a file, for readers that come back for more a reasonable number of times."""

    _reads = 0

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads += 1
        if self._reads > _READS:
            raise PictureInvalid(_UNUSUAL)
        return super().read(size)


def _make(file: BinaryIO) -> bytes:
    with _Upload(file.read()) as upload:
        try:
            picture, orientation = _decode(upload)
        except Exception as error:
            # Decoders raise whatever they like when a file is not as it should be.
            kind, text = _explain(error)
        else:
            return _encode(_square(picture), orientation)
    # Not from within the handler: the first error would stay with this one, and keep what it has
    # of the picture until the request is answered, while the next picture is at work.
    raise kind(text)


def _explain(error: Exception) -> tuple[type[Exception], str]:
    match error:
        case PictureInvalid():
            return PictureInvalid, str(error)
        case MemoryError():
            return PicturesBusy, ""
        case UnidentifiedImageError():
            return PictureInvalid, _UNKNOWN
        case Image.DecompressionBombError():
            return PictureInvalid, _TOO_LARGE
    return PictureInvalid, _DAMAGED


def _decode(upload: _Upload) -> tuple[Image.Image, int]:
    """Return the first picture of a file, in a mode that can be scaled, and its orientation."""
    exif = b""
    with upload.getbuffer() as content:
        if sum(1 for _ in _PACKED_CHUNK.finditer(content)) > _PACKED_CHUNKS:
            raise PictureInvalid(_UNUSUAL)
        head = bytes(content[:12])
        if head.endswith(b"WEBP"):
            _check_chunks(content)
        # Pillow accepts a PNG that lacks its end.
        if head.startswith(b"\x89PNG\r\n\x1a\n") and not _PNG_END.search(content):
            raise PictureInvalid(_DAMAGED)
        if head.startswith(b"\xff\xd8"):
            _check_scans(content)
            # Pillow reads EXIF as soon as it opens a JPEG, with lists of a million fractions if
            # that is what somebody wrote. So it sees none. A segment has 64 KiB at most.
            for found in reversed(list(_EXIF.finditer(content))):
                exif = bytes(content[found.end() : found.end() + 2**16])
                content[found.start() : found.end()] = bytes(len(found[0]))
    picture: Image.Image = Image.open(upload, formats=_FORMATS)
    _draft(picture)
    if isinstance(picture, JpegImageFile):
        # Copies of all that precedes the picture, which would stay until it is done: 10 MB. With
        # many uploads at once they make the difference between 197 and 205 MB.
        picture.applist.clear()
        picture.app.clear()
        picture.info.clear()
    picture.load()
    exif = picture.info.get("exif") or exif
    if picture.mode == "I;16":
        # Converted as it is, all but the darkest 256 of its 65536 greys would be white.
        picture = picture.point(lambda value: value / 257).convert("L")
    if picture.has_transparency_data:
        picture = picture if picture.mode == "RGBA" else picture.convert("RGBA")
    elif picture.mode in ("1", "P"):
        picture = picture.convert("RGB")
    return picture, _orientation(exif)


def _check_scans(jpeg: memoryview) -> None:
    """Refuse a JPEG with far too many scans, or with arithmetic coding: that takes ten times as
    long, and browsers do not show it either."""
    scans = position = 0
    for _ in range(_READS):
        found = _JPEG_SEGMENT.search(jpeg, position)
        if found is None or found[1] == _JPEG_END:
            return
        scans += found[1] == _JPEG_SCAN
        if scans > _SCANS or found[1] in _JPEG_ARITHMETIC:
            break
        position = found.end() + int.from_bytes(jpeg[found.end() : found.end() + 2])
    raise PictureInvalid(_UNUSUAL)


def _check_chunks(webp: memoryview) -> None:
    """Refuse a WebP with far too many chunks."""
    position, end = 12, min(len(webp), 8 + int.from_bytes(webp[4:8], "little"))
    for _ in range(_CHUNKS):
        if position >= end:
            return
        size = int.from_bytes(webp[position + 4 : position + 8], "little")
        position += 8 + size + size % 2
    raise PictureInvalid(_UNUSUAL)


def _draft(picture: Image.Image) -> None:
    """Refuse a picture that is too large, and have a JPEG decoded at a fraction of its size."""
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
    """Return the orientation of the EXIF data, 1 (upright) where there is none to be read."""
    if not isinstance(exif, bytes):  # In a PNG, a text may have that name.
        return 1
    tiff = exif.removeprefix(b"Exif\0\0")
    order: Literal["little", "big"] = "little" if tiff.startswith(b"II") else "big"

    def number(position: int, length: int) -> int:
        return int.from_bytes(tiff[position : position + length], order)

    first = number(4, 4) + 2
    for entry in range(first, first + 12 * number(first - 2, 2), 12):
        if number(entry, 2) == 0x0112:
            return number(entry + 8, 2)
    return 1


def _square(picture: Image.Image) -> Image.Image:
    """Return the square in the middle, scaled to at most SIDE x SIDE pixels."""
    width, height = picture.size
    short = min(width, height)
    left, top = (width - short) // 2, (height - short) // 2
    box = (left, top, left + short, top + short)
    side = min(short, SIDE)
    return picture.resize((side, side), Image.Resampling.LANCZOS, box, reducing_gap=2.0)


def _encode(picture: Image.Image, orientation: int) -> bytes:
    if orientation in _UPRIGHT:
        picture = picture.transpose(_UPRIGHT[orientation])
    # Metadata stick to a picture and to all that is derived from it, so a new one is saved.
    if picture.mode == "RGBA":
        fresh = Image.new("RGBA", picture.size)
        fresh.alpha_composite(picture)
    else:
        fresh = Image.new("RGB", picture.size)
        fresh.paste(picture.convert("RGB"))
    file = io.BytesIO()
    fresh.save(file, "WEBP", quality=82, method=4)
    return file.getvalue()
