"""Codes of authenticator apps and recovery codes, by the vectors of their standards."""

import base64
import hmac
from urllib.parse import parse_qs, unquote, urlsplit

import pytest

from core import totp

USER, OTHER = "01234567-89ab-7cde-8f01-23456789abcd", "01234567-89ab-7cde-8f01-23456789abce"
KEY = b"12345678901234567890"
SEED = KEY + b"only for recovery"[:12]
OLD, NEW = "test vector one, 32 bytes or more!", "test vector two, 32 bytes or more!"


def test_digits_are_those_of_rfc_4226():
    expected = [
        "755224",
        "287082",
        "359152",
        "969429",
        "338314",
        "254676",
        "287922",
        "162583",
        "399871",
        "520489",
    ]
    assert [totp.hotp(KEY, count) for count in range(10)] == expected


@pytest.mark.parametrize(
    ("seconds", "digits"),
    [
        *((59, "94287082"), (1111111109, "07081804"), (1111111111, "14050471")),
        *((1234567890, "89005924"), (2000000000, "69279037"), (20000000000, "65353130")),
    ],
)
def test_digits_are_those_of_rfc_6238(seconds, digits):
    step = totp.step_of(digits[-6:], SEED, seconds, after=0)
    assert step == seconds // totp.STEP


@pytest.mark.asvs("6.5.8")
def test_clocks_may_differ_by_one_step():
    start, step = 1111111080, 37037036
    for seconds, found in [(-31, None), (-30, step), (0, step), (59, step), (60, None)]:
        assert totp.step_of("081804", SEED, start + seconds, after=0) == found


def test_digits_are_read_whatever_their_spaces_and_hyphens():
    for typed in ("287 082", "28-70-82", " 287082 "):
        assert totp.step_of(typed, SEED, 59, after=0) == 1
    for typed in ("", "28708", "2870820", "28708½", "二八七〇八二"):
        assert totp.step_of(typed, SEED, 59, after=0) is None


def test_no_step_works_that_is_not_later_than_the_last_one():
    assert totp.step_of("287082", SEED, 59, after=1) is None


@pytest.mark.asvs("6.5.1", "6.5.2", "6.5.3", "6.5.4")
def test_recovery_codes_are_made_of_the_whole_seed():
    made = totp.recovery_codes(SEED, 3)
    digest = hmac.digest(SEED, b"recovery\x003\x000", "sha256")
    bits = f"{int.from_bytes(digest):0256b}"[:50]
    digits = [int(bits[place : place + 5], 2) for place in range(0, 50, 5)]
    code = "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[digit] for digit in digits)
    assert made[0] == f"{code[:5]}-{code[5:]}"
    others = totp.recovery_codes(SEED, 4) + totp.recovery_codes(KEY * 2, 3)
    assert len({*made, *others}) == 30


def test_recovery_code_is_read_as_it_is_meant():
    made = totp.recovery_codes(SEED, 1)
    typed = made[7].lower().replace("0", "o").replace("1", "l").replace("-", " ")
    assert totp.recovery_code_of(typed, SEED, 1) == 7
    for wrong in (made[7][:-1], made[7] + "0", "", "ü" * 10):
        assert totp.recovery_code_of(wrong, SEED, 1) is None


@pytest.mark.asvs("11.3.1", "11.3.2", "11.4.1")
def test_seed_is_opened_for_its_account_by_its_key_only():
    sealed = totp.seal(OLD, SEED, USER)
    assert SEED not in sealed
    assert sealed != totp.seal(OLD, SEED, USER)
    assert totp.unseal([NEW, OLD], sealed, USER) == SEED
    assert totp.unseal([NEW], sealed, USER) is None
    assert totp.unseal([OLD], sealed, OTHER) is None
    for cut in (b"", sealed[:11], sealed[:27], sealed[:-1], sealed + b"0"):
        assert totp.unseal([OLD], cut, USER) is None


def test_uri_survives_odd_names():
    site, email = "Lee & Jo's: School/?#%", "a+b%c&d?e#f/g@example.org"
    uri = totp.app_uri(SEED, site, email)
    assert ":a%2Bb%25c%26d%3Fe%23f%2Fg%40example.org?" in uri
    parts = urlsplit(uri)
    assert (parts.scheme, parts.netloc, parts.fragment) == ("otpauth", "totp", "")
    query = parse_qs(parts.query, strict_parsing=True)
    issuer, name = unquote(parts.path[1:]).split(":")
    assert (issuer, name) == ("Lee & Jo's  School/?#%", email)
    assert query["issuer"] == [issuer]
    (key,) = query["secret"]
    assert base64.b32decode(key) == KEY
    assert base64.b32decode(totp.app_key(b"\xff" * 32)) == b"\xff" * 20
