"""The code that proves a new e-mail address."""

from core import codes

# The vector of the specification.
SECRET = "test vector one, 32 bytes or more!"
CHANGE = "01234567-89ab-7cde-8f01-23456789abcd"
ADDRESS = "new@example.org"
CODE = "ZYSX-5966"


def is_right(typed, *, secrets=(SECRET,), change=CHANGE, address=ADDRESS):
    return codes.is_email_code(typed, secrets, change, address)


def test_code_is_the_one_of_the_vector_whatever_its_case_and_hyphens():
    assert codes.email_code(SECRET, CHANGE, ADDRESS) == CODE
    for typed in (CODE, "zysx5966", " zY-Sx 59-66 "):
        assert is_right(typed)


def test_dashes_and_spaces_that_devices_write_by_themselves_are_left_out():
    for sign in "\u2013\u2014\u2011\u2010\u2212\u00a0\u202f\t":
        assert is_right(CODE.replace("-", sign)), f"U+{ord(sign):04X}"


def test_letters_that_look_like_digits_are_read_as_those():
    change = next(
        f"{number}"
        for number in range(10_000)
        if {"0", "1"} <= {*codes.email_code(SECRET, f"{number}", "a")}
    )
    code = codes.email_code(SECRET, change, "a")
    for zero, one in ("OI", "oi", "OL", "ol"):
        typed = code.replace("0", zero).replace("1", one)
        assert typed != code
        assert is_right(typed, change=change, address="a")


def test_any_other_text_is_wrong():
    wrong = ("", "-", "ZYSX-5967", "ZYSX-596", "ZYSX-59666", "ZYSX-5966\u0660", "\U0001f600" * 8)
    for typed in wrong:
        assert not is_right(typed)


def test_code_is_bound_to_key_change_and_address():
    assert not is_right(CODE, secrets=(SECRET + "x",))
    assert not is_right(CODE, change=CHANGE[:-1] + "e")
    assert not is_right(CODE, address="new@example.com")
    # No part may move from one field into the next.
    assert codes.email_code(SECRET, "a", "bc") != codes.email_code(SECRET, "ab", "c")


def test_every_key_is_accepted():
    assert is_right(CODE, secrets=("newest", SECRET))
    assert is_right(CODE, secrets=("newest", "older", SECRET))
