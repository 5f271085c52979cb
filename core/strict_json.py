"""A JSON parser that accepts only what RFC 8259 calls interoperable.

Python's own parser accepts NaN, numbers of any size, duplicate names (programs disagree about
which one counts) and lone surrogates, which databases cannot store.
"""

import json
import math
from typing import Any, NoReturn

MAX_DEPTH = 32
_INT64 = range(-(2**63), 2**63)


def loads(raw: bytes) -> Any:
    """Return the value of a JSON text in UTF-8.

    Raises ValueError for invalid UTF-8 or JSON, NaN, Infinity, integers beyond 64 bits, floats out
    of range, duplicate names, lone surrogates, and nesting deeper than MAX_DEPTH.
    """
    try:
        value = json.loads(
            raw.decode("utf-8"),
            parse_constant=_refuse,
            parse_float=_finite,
            parse_int=_int64,
            object_pairs_hook=_unique,
        )
    except RecursionError:
        raise ValueError("nested too deeply") from None
    _check(value, MAX_DEPTH)
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number out of range")
    return number


def _int64(digits: str) -> int:
    # Twenty characters hold every 64-bit number; int() is slow for thousands of digits.
    if len(digits) > 20 or int(digits) not in _INT64:
        raise ValueError("a number out of range")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name given twice")
    return found


def _check(value: Any, depth: int) -> None:
    if isinstance(value, str):
        value.encode()  # raises UnicodeEncodeError, a ValueError, for a lone surrogate
    elif isinstance(value, dict | list):
        if depth == 0:
            raise ValueError("nested too deeply")
        for item in value if isinstance(value, list) else (*value, *value.values()):
            _check(item, depth - 1)
