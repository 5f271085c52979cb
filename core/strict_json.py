"""A JSON reader that takes what RFC 8259 calls interoperable, and nothing else.

Python's own reader would let through NaN, numbers of any size, names given twice (the last wins,
so that two programs read two different messages) and halves of surrogate pairs, which no
database can store.
"""

import json
import math
from itertools import chain
from typing import Any, NoReturn

MAX_DEPTH = 32
_INT64 = range(-(2**63), 2**63)


def loads(raw: bytes) -> Any:
    """Return the value of a JSON text.

    Raises ValueError for broken UTF-8 or JSON, NaN and Infinity, integers beyond 64 bits, floats
    beyond their range, duplicate names, lone surrogates, and nesting deeper than MAX_DEPTH.
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
        raise ValueError("nested too deep") from None
    _check(value)
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError("a number out of range")
    return number


def _int64(digits: str) -> int:
    # Twenty characters hold every such number; int() is slow on thousands of digits.
    if len(digits) > 20 or int(digits) not in _INT64:
        raise ValueError("a number out of range")
    return int(digits)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name given twice")
    return found


def _check(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        for item in level:
            if isinstance(item, str):
                item.encode()  # UnicodeEncodeError, a ValueError, on a lone surrogate
        lists = [item for item in level if isinstance(item, list)]
        objects = [item for item in level if isinstance(item, dict)]
        if not lists and not objects:
            return
        level = [*chain.from_iterable(lists), *chain.from_iterable(objects)]
        level += chain.from_iterable(item.values() for item in objects)
    raise ValueError("nested too deep")
