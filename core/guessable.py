"""Refuses passwords that are guessed first: common ones, the user's names, and simple patterns.

NIST SP 800-63B advises this instead of rules about kinds of characters. common_passwords.txt has
the 20,000 most common ones by frequency, from the zxcvbn project (MIT licence), which counted ten
million leaked passwords published by Mark Burnett; then names, everyday words and recent passwords.
"""

import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import permutations
from pathlib import Path

from core.addresses import fold, spellings
from core.reasons import Reason

_LIST = Path(__file__).with_name("common_passwords.txt")

# Similar characters become one letter on both sides, so one lookup finds all spellings.
_LOOKALIKES = ("a4@", "b8", "c(<", "e3", "g96", "il1!|", "o0", "s5$", "t7+", "z2")
_SKELETON = {ord(other): group[0] for group in _LOOKALIKES for other in group[1:]}

# Rows of keyboards (US, German, French), then columns, zigzags, and the number pad.
_KEYBOARDS = r"""
    `1234567890-= qwertyuiop[]\ asdfghjkl;' zxcvbnm,./
    qwertzuiop yxcvbnm
    azertyuiop qsdfghjklm wxcvbn
    1qaz2wsx3edc4rfv5tgb6yhn7ujm8ik,9ol.0p;/ 1qazxsw23edcvfr45tgbnhy67ujm,ki89ol./;p0 1qay2wsx
    1q2w3e4r5t6y7u8i9o0p q1w2e3r4t5y6u7i8o9p0 qawsedrftgyhujikolp azsxdcfvgbhnjmk,l.
    147258369 789456123
"""
_ROWS = ("0123456789" * 14, *_KEYBOARDS.split())
_BOTH_WAYS = "\n".join((*_ROWS, *(row[::-1] for row in _ROWS)))
_UNSHIFT = str.maketrans('~!@#$%^&*()_+{}|:"<>?', "`1234567890-=[]\\;',./")

_ADVICE = "Use several unrelated words."
# Why a password is refused, and what would help. templates/*/pages.txt have the translations.
_TOO_SHORT = Reason("too_short", "This password is too short. Use {min_length} or more characters.")
_REPEATED = Reason("repeated", f"This password repeats the same characters. {_ADVICE}")
_PERSONAL = Reason(
    "personal",
    "This password consists of your own username, e-mail address or name, or this site's. "
    "Use words that have nothing to do with you.",
)
_ROW = Reason(
    "sequence", f"This password follows the alphabet, the digits or the keyboard. {_ADVICE}"
)
_COMMON = Reason("common", f"This password is a common one, or very similar to one. {_ADVICE}")

# Digits and signs that may follow a common password, or surround a name (a date fits).
_FEW = 6
_FEW_AROUND_NAME = 12


def why_guessable(password: str, personal: Iterable[str], min_length: int) -> Reason | None:
    """Return None for a good password, else the reason, which never repeats the password.

    `password` is normalised, `personal` are the user's username, e-mail address and names, and the
    name of the site.
    """
    if len(password) < min_length:
        return _TOO_SHORT.format(min_length=min_length)
    text = fold(password)
    unit = _repeated_unit(text)
    if len(unit) <= 3 and unit != text:
        return _REPEATED
    parts = _parts(personal)
    if any(_is_made_of(each, parts) for each in spellings(password)):
        return _PERSONAL
    for base in (unit, *_bases(text)):
        if _is_row(base):
            return _ROW
        if _skeleton(base) in _common():
            return _COMMON
    return None


@cache
def _common() -> frozenset[str]:
    # Translating the whole text at once is much faster than each word.
    return frozenset(_skeleton(_LIST.read_text("ascii")).split())


def _skeleton(text: str) -> str:
    return text.translate(_SKELETON)


def _repeated_unit(text: str) -> str:
    """Return the shortest start whose repetition gives the text, else the text itself."""
    for size in range(1, len(text) // 2 + 1):
        if text[size:] == text[:-size]:
            return text[:size]
    return text


def _is_row(text: str) -> bool:
    """Whether the text consists of runs along an alphabet or a keyboard, at least three each."""
    text = text.translate(_UNSHIFT)
    while text:
        length = _row_length(text)
        if length < 3:
            return False
        text = text[length:]
    return True


def _row_length(text: str) -> int:
    """Return how many first characters are equal, successive in Unicode, or keys in a row."""
    by_code = 2
    if len(text) > 1 and abs(step := ord(text[1]) - ord(text[0])) <= 1:
        while by_code < len(text) and ord(text[by_code]) - ord(text[by_code - 1]) == step:
            by_code += 1
    by_key = 2
    while by_key < len(text) and text[: by_key + 1] in _BOTH_WAYS:
        by_key += 1
    return max(by_code, by_key)


def _bases(text: str) -> Iterator[str]:
    """Yield the text, then the text without a few digits or signs at its end."""
    yield text
    letters = len(text)
    while letters and not text[letters - 1].isalpha():
        letters -= 1
    cuts = list(range(max(letters, len(text) - _FEW), len(text)))
    if _is_row(text[letters:]):  # as in password1234567890 and password!!!!!!!!!
        cuts.append(letters)
    for cut in cuts:
        # A shorter beginning says nothing about the password.
        if cut >= (4 if letters else 6):
            yield text[:cut]


def _parts(personal: Iterable[str]) -> list[str]:
    """Return the skeletons of the user's names, whole, split and reversed, longest first."""
    values = [each for value in personal for each in spellings(value)]
    # Pairs, since one name alone may be too short to count.
    found = {first + second for first, second in permutations(values, 2)}
    for value in values:
        local, _, domain = value.rpartition("@")
        # The top-level domain is not personal.
        pieces = f"{local} {domain.rpartition('.')[0]}" if local else value
        found.update((value, local, domain))
        found.update(re.split(r"[\W_]+", pieces))
        found.update(re.split(r"[\W\d_]+", pieces))
    parts = {_skeleton(part) for part in found if len(part) >= 3}
    return sorted(parts | {part[::-1] for part in parts}, key=len, reverse=True)


def _is_made_of(text: str, parts: list[str]) -> bool:
    """Whether removing these parts leaves little of the text."""
    rest, skeleton = text, _skeleton(text)
    for part in parts:
        while (at := skeleton.find(part)) >= 0:
            rest = rest[:at] + rest[at + len(part) :]
            skeleton = skeleton[:at] + skeleton[at + len(part) :]
    if rest == text:
        return False
    letters = sum(map(str.isalpha, rest))
    return _is_row(rest) or (letters < 4 and len(rest) <= _FEW_AROUND_NAME)
