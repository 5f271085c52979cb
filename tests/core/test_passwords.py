"""Password hashes: made, verified, renewed, and always the same work for a failure."""

import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor

import bcrypt
import pytest
from helpers import soon

from core.passwords import MAX_LENGTH, Hasher, HasherBusy, PasswordTooLong, normalise

PASSWORD = "Tr4vel-Mug-Blue-42"
# The example in Passlib's documentation of bcrypt_sha256.
PASSLIB = "$bcrypt-sha256$v=2,t=2b,r=12$n79VH.0Q2TMWmt3Oqt9uku$Kq4Noyk3094Y2QlB8NdRT8SvGiI4ft2"
WERKZEUG = "pbkdf2:sha256:1$salt$" + "d" * 64
GARBAGE = ["", "x", "!", "pbkdf2:sha256:1$a$b", "$2b$04$short", PASSLIB + "\n", "\x00", "\ud800"]


@pytest.fixture
def hasher():
    return Hasher(rounds=4, parallel=1, waiting=9)


@pytest.fixture
def work(monkeypatch):
    """The rounds of bcrypt done so far, 2**cost for each hash."""
    done = []

    def counted(password, salt, hashpw=bcrypt.hashpw):
        done.append(2 ** int(salt.split(b"$")[2]))
        return hashpw(password, salt)

    monkeypatch.setattr("bcrypt.hashpw", counted)
    return done


@pytest.mark.asvs("11.2.1", "11.3.1", "11.3.2", "11.4.1")
def test_a_hash_made_by_passlib_verifies(hasher):
    assert hasher.verify("password", PASSLIB) == (True, True)
    assert not hasher.verify("Password", PASSLIB).matches


@pytest.mark.asvs("11.4.2", "11.4.3")
def test_a_password_matches_its_own_hash_only(hasher):
    stored = hasher.hash(PASSWORD)
    assert stored.startswith("$bcrypt-sha256$v=2,t=2b,r=4$")
    assert hasher.verify(PASSWORD, stored) == (True, False)
    for wrong in (PASSWORD.lower(), PASSWORD + " ", " " + PASSWORD, PASSWORD + "\x00", ""):
        assert hasher.verify(wrong, stored) == (False, False)
    assert hasher.hash(PASSWORD) != stored


def test_passwords_that_differ_only_after_byte_72_are_two(hasher):
    stored = hasher.hash("a" * 80 + "b")
    assert hasher.verify("a" * 80 + "b", stored).matches
    assert not hasher.verify("a" * 80 + "c", stored).matches
    assert not hasher.verify("a" * 80, stored).matches


def test_forms_of_one_text_are_one_password(hasher):
    stored = hasher.hash("caf\u00e9 \ufb01ve \u2460")
    assert hasher.verify("cafe\u0301 five 1", stored).matches
    assert not hasher.verify("cafe five 1", stored).matches


def test_the_longest_password_is_counted_in_normal_form():
    longest = "\u1f82" * MAX_LENGTH  # decomposes into four characters each
    assert normalise(unicodedata.normalize("NFD", longest)) == longest
    for too_long in (longest + "a", "a" * (MAX_LENGTH + 1), "\ufdfa" * 8, "\u0301" * 513):
        with pytest.raises(PasswordTooLong):
            normalise(too_long)


def test_a_text_far_too_long_is_refused_unread(monkeypatch):
    read = []
    with monkeypatch.context() as patch:
        patch.setattr("core.passwords.unicodedata.normalize", lambda *text: read.append(text))
        with pytest.raises(PasswordTooLong):
            normalise("\u0301\u0316" * 500_000)
    assert read == []


def test_no_hash_is_made_of_an_impossible_password(hasher):
    with pytest.raises(PasswordTooLong):
        hasher.hash("a" * (MAX_LENGTH + 1))
    with pytest.raises(ValueError, match="surrogates"):
        hasher.hash("\ud800")


def test_a_hash_of_another_cost_is_outdated():
    stored = Hasher(rounds=5, parallel=1, waiting=9).hash(PASSWORD)
    for rounds in (4, 6):
        hasher = Hasher(rounds, parallel=1, waiting=9)
        assert hasher.verify(PASSWORD, stored) == (True, True)
        assert hasher.verify("other", stored) == (False, False)


def test_hashes_of_other_systems_verify_and_are_outdated(hasher):
    stored = bcrypt.hashpw(PASSWORD.encode(), bcrypt.gensalt(4)).decode()
    for kind in ("2a", "2b", "2y"):
        assert hasher.verify(PASSWORD, f"${kind}${stored[4:]}") == (True, True)
        assert not hasher.verify("other", f"${kind}${stored[4:]}").matches


def test_hashes_of_other_systems_verify_with_what_those_cut_off(hasher):
    stored = bcrypt.hashpw(b"a" * 71 + "\u00e9".encode()[:1], bcrypt.gensalt(4)).decode()
    assert hasher.verify("a" * 71 + "\u00e9" + "b" * 20, stored) == (True, True)
    assert not hasher.verify("a" * 71, stored).matches


def test_every_failure_costs_the_same(work):
    hasher = Hasher(rounds=7, parallel=1, waiting=9)
    current = hasher.hash(PASSWORD)
    old = Hasher(rounds=4, parallel=1, waiting=9).hash(PASSWORD)
    foreign = bcrypt.hashpw(PASSWORD.encode(), b"$2b$05$" + b"." * 22).decode()
    others = [foreign, f"bcrypt${foreign}", f"bcrypt_sha256${foreign}", WERKZEUG]
    too_long = "a" * (MAX_LENGTH + 1)
    for password in ("wrong", too_long, "a" * 10_000, "\ud800", "wrong" * 20):
        for stored in (None, *GARBAGE, current, old, *others):
            work.clear()
            assert not hasher.verify(password, stored)
            assert sum(work) == 2**7, (password[:9], stored)


def test_a_right_password_costs_one_hash(hasher, work):
    hasher.verify(PASSWORD, hasher.hash(PASSWORD))
    assert work == [2**4, 2**4]


def test_no_more_hashes_at_once_than_allowed_and_few_may_wait(monkeypatch):
    hasher = Hasher(rounds=4, parallel=2, waiting=2)
    stored = hasher.hash(PASSWORD)
    running, go_on = set(), threading.Event()

    def slow(password, salt, hashpw=bcrypt.hashpw):
        running.add(threading.get_ident())
        go_on.wait(timeout=30)
        return hashpw(password, salt)

    monkeypatch.setattr("bcrypt.hashpw", slow)
    calls = [
        lambda: hasher.verify(PASSWORD, stored),
        lambda: hasher.verify(PASSWORD, None),
        lambda: hasher.hash(PASSWORD),
        lambda: hasher.verify(PASSWORD, stored),
    ]
    with ThreadPoolExecutor(max_workers=4) as pool:
        futures = [pool.submit(call) for call in calls]
        soon(lambda: len(running) == 2 and not hasher._ours._places._value)
        for account in (stored, None):
            with pytest.raises(HasherBusy):
                hasher.verify(PASSWORD, account)
        assert len(running) == 2
        go_on.set()
    assert [bool(future.result()) for future in futures] == [True, False, True, True]
    assert hasher.verify(PASSWORD, stored).matches
