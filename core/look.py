"""The look of pages and mails in the colour that an operator chooses.

Our own blue stands in the style sheet and the icon; where another colour is set, it takes the place
of the blue, and what is made of it that of the other shades.
"""

import functools
import hashlib
import re
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent.parent / "static"
BLUE, WHITE, BLACK = "#3451b2", "#ffffff", "#000000"
# With white on it, or as a link on the grey of mails, a colour is readable from here on.
LEAST = 5.3
# The lightest and the darkest ground of the dark look.
_GROUND, _DARKEST = "#232b3d", "#10131a"
_PAINTED = ("pages.css", "docs.css", "icon.svg")


def _parts(color: str) -> list[int]:
    return [int(color[place : place + 2], 16) for place in (1, 3, 5)]


def contrast(one: str, other: str) -> float:
    """Return the contrast of two colours, from 1 to 21 (WCAG 2.2)."""

    def luminance(color: str) -> float:
        shares = [part / 255 for part in _parts(color)]
        light = [x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in shares]
        return 0.2126 * light[0] + 0.7152 * light[1] + 0.0722 * light[2] + 0.05

    first, second = luminance(one), luminance(other)
    return max(first, second) / min(first, second)


def mix(color: str, other: str, percent: int) -> str:
    """Return a colour with so much of another one in it."""
    pairs = zip(_parts(color), _parts(other), strict=True)
    return "#" + "".join(f"{(a * (100 - percent) + b * percent) // 100:02x}" for a, b in pairs)


def shades(color: str) -> dict[str, str]:
    """Return what takes the place of each shade of our blue, in the light and in the dark."""
    tints = (mix(color, WHITE, percent) for percent in range(101))
    tint = next(each for each in tints if contrast(each, _GROUND) >= 4.5)
    light = {BLUE: color, "#273f93": mix(color, BLACK, 25)}
    return light | {"#a3b8ff": tint, "#c4d1ff": mix(tint, WHITE, 40), "#131b3a": _DARKEST}


class Look(NamedTuple):
    """The static files as they are served; `version` changes with any of them."""

    files: dict[str, bytes]
    version: str


@functools.cache
def look_of(color: str) -> Look:
    found = shades(color) if color != BLUE else {}
    files = {path.name: path.read_bytes() for path in sorted(FOLDER.iterdir()) if path.is_file()}
    # All at once: a shade that was painted may be another one of ours.
    for name in _PAINTED if found else ():
        text = re.sub("|".join(found), lambda ours: found[ours[0]], files[name].decode())
        files[name] = text.encode()
    return Look(files, hashlib.sha256(b"\0".join(files.values())).hexdigest()[:12])


def shape(drawing: str) -> float:
    """Return by how much an SVG is wider than high, by its viewBox; without one, it is square."""
    size = re.search(r"""viewBox=["'](?:\S+[ ,]+){2}(\d+)\S*[ ,]+([1-9]\d*)""", drawing)
    return min(int(size[1]) / int(size[2]), 10) if size else 1
