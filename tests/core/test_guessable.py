"""Which passwords are refused as easy to guess, and which pass."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.guessable import why_guessable

USERNAME, EMAIL = "r2d2.falcon77", "j.smith@riverbank.example.org"
PERSONAL = (USERNAME, EMAIL, "John", "Smith")


def judge(password, personal=PERSONAL, min_length=8):
    return why_guessable(password, personal, min_length)


@pytest.mark.parametrize(
    "password",
    [
        *("Tr4vel-Mug-Blue-42", "correct horse battery staple", "purple-Kettle-19-rain"),
        *("smithereens-of-light", "riverbank-picnic-ants", "smith-kettle", "x7Kq0vTz"),
        *("b4ttery-h0rse", "abc#7!29", "4857201936", "6969201937", "7!40$92#"),
        *("password8351907264", "smith-8351907264-3382", "gr\u00fcne Stra\u00dfe im Nebel"),
        "\u65e9\u4e0a\u7684\u84dd\u8272\u6c34\u58f6\u5f88\u5927",
    ],
)
def test_passwords_that_are_hard_to_guess_pass(password):
    assert judge(password) is None


@pytest.mark.asvs("6.2.4", "6.2.5")
@pytest.mark.parametrize(
    "password",
    [
        *("password", "PassWord", "p@ssw0rd", "P4$$w0rd", "Passw0rd!", "password20261"),
        *("password1234567890", "password!!!!!!!!!!", "hunter2!", "7ru5tn01", "iloveyou1"),
        *("letmein123", "welcome1", "ADMIN123", "M1chael-85", "12345678!", "passwordpassword"),
        *("+r00p3r5", "8aseba11", "b@seb@ll", "9inger99", "6in6er99", "|loveyou", "!loveyou"),
        *("2xcvbnm", "prin(ess"),
    ],
)
def test_common_passwords_are_refused_in_every_spelling(password):
    assert judge(password, min_length=7).word == "common"


@pytest.mark.parametrize(
    "password",
    [
        *("abcdefgh", "ABCDEFGH", "zyxwvuts", "23456789", "98765432", "7890123456", "3210987654"),
        *("qwertyuiop", "asdfghjkl;", "poiuytrewq", "!@#$%^&*", "1qaz2wsx", "!QAZ2wsx", "zaq1xsw2"),
        *("1q2w3e4r", "lkjhgfdsa!9", "abcd4321", "aaaa1111", "qwertyqwerty"),
        *("\u03b1\u03b2\u03b3\u03b4\u03b5\u03b6\u03b7\u03b8", "0123456789" * 12),
    ],
)
def test_sequences_are_refused_in_both_directions(password):
    assert judge(password).word == "sequence"


@pytest.mark.parametrize("password", ["AaAaAaAa", "        ", "\U0001f422" * 8, "asdasdas"])
def test_one_thing_repeated_is_refused(password):
    assert judge(password).word == "repeated"


@pytest.mark.parametrize(
    "password",
    [
        "JohnSmith1990",
        "j0hn5m1th!",
        USERNAME,
        *("falcon-2026", "r2d2-2026", "smith-john", "smith 24.12.1990", "smithqwerty", "htimsnhoj"),
        EMAIL,
        *("riverbank1", "example.org1", "Riverbank.Example"),
    ],
)
def test_the_users_own_names_are_refused(password):
    assert judge(password).word == "personal"
    other = judge(password, personal=())
    assert other is None or other.word != "personal"


def test_accents_hide_no_name():
    assert judge("muller1990", ("M\u00fcller",)).word == "personal"
    assert judge("M\u00dcLLER1990", ("muller",)).word == "personal"


def test_short_names_forbid_nothing():
    assert judge("bo-kettle", ("bo", "b@o.example")) is None
    assert judge("4857201936", ("", "  ", "@", "4")) is None


def test_the_shortest_length_counts_characters():
    assert judge("\u00e97Kq0vT").word == "too_short"
    assert "8 or more characters" in judge("x7Kq0vT")
    assert judge("\u00e97Kq0vTz") is None
    assert "12 or more" in judge("x7Kq0vTzab3", min_length=12)


def test_an_answer_never_repeats_the_password():
    for password in ("sunshine", "JohnSmith1990", "asdfghjkl", "zzzzzzzz", "x7Kq"):
        assert password not in judge(password)


@pytest.mark.parametrize(
    "password",
    [
        *("4@8(3" * 25, "1" * 60 + "!" * 66, "01234567890" * 11 + "x1"),
        *("x" + "0123456789" * 12 + "5", "sm" * 60 + "ith", "a" * 127 + "b", "\ufdfa" * 128),
    ],
)
def test_judging_crafted_passwords_does_not_take_long(password):
    personal = ("x" * 32, "a." * 32 + "b@" + "abc." * 45 + "org", "Ann " * 16, "Mary " * 12)
    judge("to load the list")
    start = time.thread_time()
    judge(password, personal)
    assert time.thread_time() - start < 0.1  # of CPU, so that other programs do not count


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=128), st.lists(st.text(max_size=64), max_size=4))
def test_any_text_gets_a_judgement(password, personal):
    assert judge(password, personal) is None or len(judge(password, personal)) > 20


@settings(max_examples=50, deadline=None)
@given(st.text("0123456789!#.- ", max_size=6))
def test_a_few_digits_or_signs_save_no_common_password(suffix):
    assert judge("Sun5h1ne" + suffix)


def test_short_names_count_together():
    personal = ("wanderer", "w@example.org", "Al", "Ng")
    for password in ("alngalng", "AlNg2024", "NgAl!!!!"):
        assert judge(password, personal).word == "personal"


def test_common_numbers_with_a_few_more_digits_are_refused():
    for password in ("1234562024!", "111111123", "65432112", "123123!7"):
        assert judge(password)
