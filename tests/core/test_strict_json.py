"""What the JSON reader takes, and what it refuses."""

import pytest

from core import strict_json


def is_refused(raw):
    try:
        strict_json.loads(raw)
    except ValueError:
        return True
    return False


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (b"{}", {}),
        (b" \t\r\n{} \n", {}),
        (
            b'{"a": [1, -1, 0.5, "b", true, false, null]}',
            {"a": [1, -1, 0.5, "b", True, False, None]},
        ),
        (b"9223372036854775807", 2**63 - 1),
        (b"-9223372036854775808", -(2**63)),
        (b"1.7976931348623157e308", 1.7976931348623157e308),
        (b"1e-400", 0.0),
        (b"-0", 0),
        ('"\u00e9\U0001f600\u2028"'.encode(), "\u00e9\U0001f600\u2028"),
        (rb'"\ud83d\ude00"', "\U0001f600"),
        (rb'"\u0000"', "\x00"),  # JSON; the schemas refuse it
        (b'"\x7f"', "\x7f"),
        (b'{"": 1}', {"": 1}),
        (b'{"a": 1, "A": 2}', {"a": 1, "A": 2}),
        (b'[{"a": 1}, {"a": 2}]', [{"a": 1}, {"a": 2}]),
        (b'{"a": {"a": 1}}', {"a": {"a": 1}}),
        (b"[[], {}]", [[], {}]),
    ],
)
def test_interoperable_text_is_read(raw, value):
    found = strict_json.loads(raw)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    "raw",
    [
        *(b"", b" ", b"{", b"}", b"{}{}", b"{} x", b"{}\x00", b"{'a': 1}", b"{a: 1}", b'{"a": 1,}'),
        *(b"[1,]", b"[,]", b'{"a"}', b"// a comment\n{}", b"True", b"nul", b"01", b"+1", b".5"),
        *(b"1.", b"0x10", b"1_000"),
        "\u0661".encode(),  # a digit, but not one of JSON's
        *(b"\xa0{}", b'"', b'"a\nb"', b'"a\tb"', b'"a\x00b"', rb'"\x41"', rb'"\u12"'),
    ],
)
def test_text_that_is_not_json_is_refused(raw):
    assert is_refused(raw)


@pytest.mark.parametrize(
    "number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e999", b"1.0e309"]
)
@pytest.mark.parametrize("around", [b"%s", b"[%s]", b'{"a": {"b": [%s]}}'])
def test_number_that_is_none_is_refused(number, around):
    with pytest.raises(ValueError, match=r"not JSON|out of range"):
        strict_json.loads(around % number)


@pytest.mark.parametrize(
    "digits", [b"9223372036854775808", b"-9223372036854775809", b"1" + b"0" * 19, b"9" * 60_000]
)
def test_integer_beyond_64_bits_is_refused(digits):
    with pytest.raises(ValueError, match="out of range"):
        strict_json.loads(b'{"a": [%s]}' % digits)


@pytest.mark.parametrize(
    "raw",
    [
        b'"\xff"',
        b'"\xc3"',
        b'"\xc0\xaf"',  # overlong
        b'"\xed\xa0\x80"',  # a surrogate in UTF-8
        b'"\xf4\x90\x80\x80"',  # beyond U+10FFFF
        b"\xef\xbb\xbf{}",  # a byte order mark
        "{}".encode("utf-16"),
        "{}".encode("utf-16-le"),
        "{}".encode("utf-32"),
    ],
)
def test_anything_but_plain_utf_8_is_refused(raw):
    assert is_refused(raw)


@pytest.mark.parametrize(
    "raw",
    [
        *(rb'"\ud800"', rb'"\udc00"', rb'"\ude00\ud83d"', rb'["a", ["\ud800"]]'),
        *(rb'{"a": {"b": "\ud800"}}', rb'{"\ud800": 1}', rb'{"a": [{"\udfff": 1}]}'),
    ],
)
def test_half_of_a_surrogate_pair_is_refused(raw):
    with pytest.raises(ValueError, match="surrogates"):
        strict_json.loads(raw)


@pytest.mark.parametrize(
    "raw",
    [
        *(b'{"a": 1, "a": 1}', b'{"a": 1, "b": 2, "a": 3}', rb'{"a": 1, "\u0061": 2}'),
        *(b'[{"b": {"a": 1, "a": 2}}]', b'{"": 1, "": 2}'),
    ],
)
def test_name_given_twice_is_refused(raw):
    with pytest.raises(ValueError, match="twice"):
        strict_json.loads(raw)


@pytest.mark.parametrize(
    ("opening", "closing", "levels"), [(b"[", b"]", 1), (b'{"a":', b"}", 1), (b'[{"a":', b"}]", 2)]
)
def test_nesting_has_a_limit(opening, closing, levels):
    assert strict_json.MAX_DEPTH == 32
    times = 32 // levels
    fits = opening * times + b"1" + closing * times
    strict_json.loads(fits)
    with pytest.raises(ValueError, match="too deep"):
        strict_json.loads(b"[" + fits + b"]")


def test_wide_text_is_not_deep():
    strict_json.loads(b"[" + b",".join([b"[" * 31 + b"]" * 31] * 500) + b"]")


@pytest.mark.parametrize("opening", [b"[", b'{"a":', b'[{"a":'])
@pytest.mark.parametrize("closed", [True, False])
def test_nesting_of_any_depth_is_refused_without_harm(opening, closed):
    closing = opening.translate(bytes.maketrans(b"[{", b"]}"), b'"a:')[::-1]
    assert is_refused(opening * 200_000 + b"1" + closing * (200_000 if closed else 0))
