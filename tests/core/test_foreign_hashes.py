"""Password hashes that other software made: verified here, and bounded."""

import base64
import hashlib
import threading
import unicodedata
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import argon2
import bcrypt
import pytest
from django.contrib.auth import hashers as django
from helpers import soon
from passlib.hash import pbkdf2_sha1, pbkdf2_sha256, pbkdf2_sha512, sha256_crypt, sha512_crypt
from werkzeug.security import generate_password_hash as werkzeug

from core import foreign_hashes, passwords
from core.passwords import MAX_LENGTH, Hasher, HasherBusy, is_known, problem_of

# base64(HMAC-SHA-384("wp-sha384", "x"))
WORDPRESS_KEY = b"kHfLrJI3VtQytAMxDhcSnvD0Gme5v9xlkrMqpbcNfpObQ1cowpvwZAVoq6sOJue3"
SALT, BCRYPT_SALT = "NaClNaCl", b"$2b$04$" + b"." * 22


class CheapArgon2(django.Argon2PasswordHasher):
    time_cost, memory_cost, parallelism = 1, 32, 4


ARGON2 = {"time_cost": 2, "memory_cost": 64, "parallelism": 2}
MAKERS = {
    "Django pbkdf2_sha256": lambda raw: django.PBKDF2PasswordHasher().encode(raw, SALT, 10),
    "Django pbkdf2_sha1": lambda raw: django.PBKDF2SHA1PasswordHasher().encode(raw, SALT, 10),
    "Django argon2": lambda raw: CheapArgon2().encode(raw, SALT),
    "Django argon2i": lambda raw: "argon2" + MAKERS["argon2i"](raw),  # until Django 3.1
    "Django scrypt": lambda raw: django.ScryptPasswordHasher().encode(raw, SALT, 16, 4, 3),
    "Django bcrypt": lambda raw: django.BCryptPasswordHasher().encode(raw, BCRYPT_SALT),
    "Django bcrypt_sha256": lambda raw: django.BCryptSHA256PasswordHasher().encode(
        raw, BCRYPT_SALT
    ),
    "Werkzeug scrypt": lambda raw: werkzeug(raw, "scrypt:1024:8:1"),
    "Werkzeug sha1": lambda raw: werkzeug(raw, "pbkdf2:sha1:10"),
    "Werkzeug sha256": lambda raw: werkzeug(raw, "pbkdf2:sha256:10", salt_length=1),
    "Werkzeug sha512": lambda raw: werkzeug(raw, "pbkdf2:sha512:10"),
    "argon2id": argon2.PasswordHasher(**ARGON2).hash,
    "argon2i": argon2.PasswordHasher(**ARGON2, type=argon2.Type.I, hash_len=16, salt_len=8).hash,
    "argon2d": argon2.PasswordHasher(**ARGON2, type=argon2.Type.D, hash_len=64).hash,
    "Passlib sha256": pbkdf2_sha256.using(rounds=10).hash,
    "SHA-512 crypt": sha512_crypt.using(rounds=1000).hash,
    "Passlib sha512": pbkdf2_sha512.using(rounds=10, salt_size=9).hash,
}
TYPED = [
    "Tr4vel-Mug-Blue-42",
    "short",
    "",
    " spaces at both ends ",
    "\ufb01ance\u0301 \u2460 \U0001f98a",  # NFKC is another text
    "with\x00zero",
    "a" * 100,
    "\u00e9" * 200,
]
# php -r 'echo password_hash("F\u{fc}chse 42", PASSWORD_BCRYPT, ["cost" => 5]);'
# With PASSWORD_ARGON2I and ..ID: ["memory_cost" => 64, "time_cost" => 1, "threads" => 1]. PHP 8.2.
PHP = [
    "$2y$05$cBK3CbzEAgN4AcBzbOQmjeGSEkkg27oxvrZeVgu1ygzNNKdz0qhYC",
    "$argon2i$v=19$m=64,t=1,p=1$UGxZQkJST1JCemthb2ZwMA$0PVYcK8Qnwpgq3ABEGV9b6wJrOlTy2X97oPqLZRKVJg",
    "$argon2id$v=19$m=64,t=1,p=1$M1VoMlZodHRDU0Y5bDRIag$A1BE0+gWZEKJb3Gggkl72QxB/zLqmlswK/rC9AK/bO4",
]
# php -r 'echo password_hash(str_repeat("\u{e9}", 50), PASSWORD_BCRYPT, ["cost" => 5]);'
PHP_LONG = "$2y$05$sRPaHbt6CGQi7zDvqPUSyu5aPBykc3xp/1zW8LSl6AmdGw2dvDE.."

# printf 'Füchse 42' | openssl passwd -6 -salt Fuchs.42 -stdin; then perl's `crypt`, with the
# salts '$6$rounds=1000$a' and, for 250 é, '$6$rounds=1234$0123456789./abcd'.
CRYPT = [
    "$6$Fuchs.42$byBiFmkeFzrcw4RzS9wpf6dIMYMUhVS8c2jdeS4OpVEnCceIlmdB18etIR38uX7VSmfvKVtJX9tDE4FFUqfn"
    "1/",
    "$6$rounds=1000$a$M4VXw0LyQIYFDvXVi.ihHhIqbsFco9Hc2zheMpzoXM0tc3EwoX/8ySV1AJvQ8c6XscuM0N92kpWcgVW"
    "bNgPmt1",
]
CRYPT_LONG = (
    "$6$rounds=1234$0123456789./abcd$6ne8qRQchXR0tkbsDRolaqHXJhtxYTlwUN9KrzmGgsDa2d.g4yPtqqi9hr"
    "qgPgia8eCdM8yX5I8EnQiVte7n80"
)
WORDPRESS = "$wp$2y$04$3PC7I3keFHFhRy30zMmLaebWDY5Sd4f3qBCKMiX/PGhkeGf3dSTt2"


@pytest.fixture
def hasher():
    return Hasher(rounds=4, parallel=2, waiting=9)


@pytest.mark.parametrize("maker", MAKERS)
def test_what_other_software_hashed_is_verified_as_it_was_typed(hasher, maker):
    for raw in TYPED:
        if maker == "Django bcrypt" and (len(raw.encode()) > 72 or "\x00" in raw):
            continue  # bcrypt 5 makes none of the first, and cannot tell what the second was
        if maker == "SHA-512 crypt" and "\x00" in raw:
            continue  # where a text ends, for a function in C
        stored = MAKERS[maker](raw)
        assert problem_of(stored) is None, stored
        assert is_known(stored)
        # Our own form cannot hold the longest, so the hash stays as it is.
        assert hasher.verify(raw, stored) == (True, len(raw) <= MAX_LENGTH)
        wrong = {raw + " ", raw.upper(), raw.strip(), unicodedata.normalize("NFKC", raw), "wrong"}
        for other in wrong - {raw}:
            assert hasher.verify(other, stored) == (False, False)


def test_what_php_hashed_is_verified(hasher):
    for stored in PHP:
        assert problem_of(stored) is None
        assert hasher.verify("F\u00fcchse 42", stored) == (True, True)
        # Only bcrypt is also tried in the form that we store.
        assert hasher.verify("Fu\u0308chse 42", stored).matches == stored.startswith("$2y$")
    assert hasher.verify("\u00e9" * 50, PHP_LONG) == (True, True)
    assert hasher.verify("\u00e9" * 200, PHP_LONG) == (True, False)
    assert not hasher.verify("\u00e9" * 35, PHP_LONG)


def test_what_the_crypt_of_linux_hashed_is_verified(hasher):
    for stored in CRYPT:
        assert problem_of(stored) is None
        assert hasher.verify("F\u00fcchse 42", stored) == (True, True)
        assert not hasher.verify("Fu\u0308chse 42", stored)
    assert hasher.verify("\u00e9" * 250, CRYPT_LONG)
    assert not hasher.verify("\u00e9" * 249, CRYPT_LONG)


def test_what_wordpress_hashed_is_verified_with_the_ends_that_it_cuts_off(hasher):
    assert problem_of(WORDPRESS) is None
    for typed in ("p\u00e4ssword 1", " \t\n\0p\u00e4ssword 1\r\v"):
        assert hasher.verify(typed, WORDPRESS) == (True, True)
    for wrong in ("p\u00e4ssword 2", "pa\u0308ssword 1", "\u00a0p\u00e4ssword 1", "\ud800"):
        assert hasher.verify(wrong, WORDPRESS) == (False, False)


def b64(size):
    return base64.b64encode(b"d" * size).decode()


def pbkdf2(rounds, digest=f"{'d' * 43}=", salt="salt", form="pbkdf2_sha256"):
    return f"{form}${rounds}${salt}${digest}"


def scrypt(n, r, p, size=64):
    return f"scrypt${n}$salt${r}${p}${b64(size)}"


def phc(m, t, p, kind="argon2id", version="v=19$", salt="c2FsdHNhbHQ", digest="d" * 43):
    return f"${kind}${version}m={m},t={t},p={p}${salt}${digest}"


def shacrypt(rounds, salt="salt", size=86):
    return f"$6$rounds={rounds}${salt}${'d' * size}"


def plain_bcrypt(cost):
    return f"$2b${cost}${'.' * 53}"


AT_THE_BOUNDS = [
    pbkdf2(1),
    scrypt(2, 1, 1),
    scrypt(2**16, 8, 2),
    scrypt(2**15, 1, 32),
    scrypt(2, 1, 2**13),
    scrypt(2, 2**13, 1),
    phc(8, 1, 1),
    phc(128, 1, 16, "argon2i"),
    phc(8, 1, 1, salt="s" * 64, digest="d" * 16),
    plain_bcrypt("04"),
    shacrypt(1_000, salt="s" * 16),
]
# Taken too, and not made here: these are seconds of work.
SLOW = [pbkdf2(2_000_000), phc(2**17, 8, 1), phc(2**13, 2**7, 16, "argon2d"), plain_bcrypt(14)]
SLOW += [f"$wp{plain_bcrypt(14)}", shacrypt(100_000)]
ROUNDS = "its PBKDF2 has more than 2,000,000 rounds"
COST = "its bcrypt is malformed, or has no cost from 4 to 14"
BEYOND = {
    pbkdf2(2_000_001): ROUNDS,
    f"pbkdf2:sha1:2000001$salt${'d' * 40}": ROUNDS,
    f"$pbkdf2-sha512$9999999999$c2FsdA${'d' * 86}": ROUNDS,
    scrypt(2**17, 8, 1): "its scrypt takes more than 64 MiB",
    scrypt(2**16, 8, 3): "its scrypt has an N\u00b7r\u00b7p above 2^20",
    scrypt(2, 1, 2**13 + 1): "its scrypt has an r\u00b7p above 8,192",
    phc(2**17 + 1, 1, 1): "its Argon2 takes more than 128 MiB",
    phc(2**17, 9, 1): "its Argon2 takes more than 1 GiB in all its passes",
    phc(2**10, 1, 17): "its Argon2 has more than 16 lanes",
    phc(128, 129, 16): "its Argon2 has a t\u00b7p above 2,048",
    phc(64, 1, 1, version=""): "its Argon2 is not of version 19",
    phc(64, 1, 1, version="v=16$"): "its Argon2 is not of version 19",
    plain_bcrypt("03"): COST,
    plain_bcrypt(15): COST,
    f"bcrypt_sha256${plain_bcrypt(15)}": COST,
    f"$wp{plain_bcrypt(15)}": COST,
    shacrypt(100_001): "its SHA-512 crypt has more than 100,000 rounds",
    pbkdf2(1, salt="s" * 256): "it has more than 255 characters",
}
MALFORMED = [
    *(pbkdf2(rounds) for rounds in (0, -1, "+1", "01", "", " 1", "1_0", "\u0661", "9" * 11)),
    *(pbkdf2(1, salt=salt) for salt in ("", "s$t", "\ud800", "caf\u00e9")),
    *(pbkdf2(1, b64(size)) for size in (31, 33)),
    *(pbkdf2(1, digest) for digest in ("", "*" * 44, "d" * 41, b64(32) + "\n")),
    pbkdf2(1, form="pbkdf2_sha1"),
    "pbkdf2:sha256:1$salt$" + "D" * 64,
    "pbkdf2:sha256:1$salt$" + "d" * 63,
    "$pbkdf2-sha256$1$s$" + "d" * 43,
    *(scrypt(n, 8, 1) for n in (0, 1, 3, 2**14 - 1, "0x10")),
    scrypt(2**16, 1, 1),  # not scrypt any more by RFC 7914, and refused by OpenSSL
    scrypt(2, 0, 1),
    scrypt(2, 1, 0),
    scrypt(2, 1, 1, size=32),
    *(shacrypt(rounds) for rounds in (999, 0, "05000", "")),
    shacrypt(1_000, salt="s" * 17),
    shacrypt(1_000, size=85),
    *(phc(*numbers) for numbers in ((7, 1, 1), (127, 1, 16), (64, 0, 1), (64, 1, 0))),
    *(phc(64, 1, 1, salt=salt) for salt in ("c2FsdHNhbA", "s" * 66)),
    *(phc(64, 1, 1, digest="d" * size) for size in (15, 41, 87)),
    "$argon2id$v=19$m=64,t=1,p=1,data=c2FsdA$c2FsdHNhbHQ$" + "d" * 43,
    "argon2" + phc(64, 1, 1)[:-40] + "$",
]
OTHERS = {
    sha256_crypt.using(rounds=1000).hash("x"): "the form $5$",
    pbkdf2_sha1.using(rounds=1).hash("x"): "the form $pbkdf2$",
    django.MD5PasswordHasher().encode("x", SALT): "the form md5$",
    "pbkdf2:md5:1$salt$" + "d" * 32: "the form pbkdf2:",
    "{SSHA}" + "d" * 31 + "=": "the form {SSHA}",
    # Ory and Passlib, LDAP, Dovecot, Spring and Postgres
    "$scrypt$ln=16,r=8,p=1$" + "d" * 86: "the form $scrypt$",
    **{
        f"{name}{'d' * 40}": f"the form {name}"
        for name in (
            *("{ssha}", "{ARGON2}", "{PBKDF2-SHA512}", "{PBKDF2_SHA256}", "{SHA512-CRYPT}"),
            *("{bcrypt}", "SCRAM-SHA-256$", "$wp$", "$P$", "$S$", "$B$", "pbkdf2_sha512$"),
        )
    },
    "MyPassw0rd:and$AnotherLongPasswordThatIUse1": "an unknown form",
    "ada:$apr1$" + "d" * 32: "an unknown form",
    hashlib.md5(b"x").hexdigest(): "an unknown form",
    **dict.fromkeys(["hunter2$content", "$ecret$password", "{ab}{cd}"], "an unknown form"),
    "hunter2$" + "x" * 20: "an unknown form",
    f"${'x' * 21}$salt${'d' * 20}": "an unknown form",
    f"$\u00e4$salt${'d' * 20}": "an unknown form",
    "": "an unknown form",
}


def test_hashes_at_the_bounds_are_verified(hasher):
    for stored in AT_THE_BOUNDS + SLOW:
        assert problem_of(stored) is None, stored
    for stored in AT_THE_BOUNDS:
        assert hasher.verify("wrong", stored) == (False, False)


def test_hashes_beyond_a_bound_are_refused_by_its_name():
    for stored, problem in BEYOND.items():
        assert problem_of(stored) == problem, stored


def test_forms_that_are_not_taken_are_named_without_their_content():
    for stored, form in OTHERS.items():
        assert problem_of(stored) == f"a hash of {form} is not taken"


def test_malformed_hashes_are_refused_by_their_form():
    for stored in MALFORMED:
        problem = problem_of(stored) or ""
        assert problem.startswith("its form is "), stored
        assert problem.endswith(", but it is malformed"), stored
        assert "dd" not in problem
        assert "salt" not in problem


def test_what_cannot_be_read_costs_a_login_nothing_and_matches_nothing(hasher, monkeypatch):
    for name in ("pbkdf2_hmac", "scrypt"):
        monkeypatch.setattr(hashlib, name, Mock(side_effect=AssertionError))
    monkeypatch.setattr(foreign_hashes, "_ARGON2", {})
    for stored in (*MALFORMED, *OTHERS, *(hash for hash in BEYOND if "$2b$" not in hash)):
        assert not is_known(stored)
        assert hasher.verify("x", stored) == (False, False)
    for stored in AT_THE_BOUNDS:
        assert hasher.verify("\ud800", stored) == (False, False)


DEARER = django.BCryptPasswordHasher().encode("x", b"$2b$05$" + b"." * 22)


DEAR = {
    "Argon2": MAKERS["argon2id"]("x"),
    "Django's with SHA-256": MAKERS["Django bcrypt_sha256"]("x"),
    "WordPress": f"$wp{bcrypt.hashpw(WORDPRESS_KEY, BCRYPT_SALT).decode()}",
    "Django's of a higher cost": DEARER,
    "higher cost": DEARER.removeprefix("bcrypt$"),
    "our long": Hasher(rounds=5, parallel=1, waiting=1).hash("x" * 72),
}


@pytest.mark.parametrize("stored", DEAR.values(), ids=DEAR)
def test_dear_hashes_are_judged_one_at_a_time_beside_our_own(monkeypatch, stored):
    monkeypatch.setattr(passwords, "FOREIGN_WAITING", 2)
    hasher = Hasher(rounds=4, parallel=2, waiting=8)
    typed = "x" * 72 if stored.startswith("$bcrypt-sha256$") else "x"
    cheap = django.BCryptPasswordHasher().encode("x", b"$2b$04$" + b"u" * 22)
    ours = [hasher.hash("x"), cheap, cheap.removeprefix("bcrypt$")]
    judged, go_on = [], threading.Event()
    bcrypt, matches = passwords._bcrypt, foreign_hashes.ForeignHash.matches

    def wait():
        judged.append(stored)
        assert go_on.wait(timeout=30)

    def slow_bcrypt(key, cost, salt):
        if cost == 5 or (salt in stored and stored.startswith(("bcrypt_sha256$", "$wp"))):
            wait()
        return bcrypt(key, cost, salt)

    def slow_match(foreign, password):
        wait()
        return matches(foreign, password)

    monkeypatch.setattr(passwords, "_bcrypt", slow_bcrypt)
    monkeypatch.setattr(foreign_hashes.ForeignHash, "matches", slow_match)
    with ThreadPoolExecutor(max_workers=3) as pool:
        waiting = [pool.submit(hasher.verify, typed, stored) for _ in range(3)]
        soon(lambda: judged and len(hasher._foreign._line) == 2)
        with pytest.raises(HasherBusy):
            hasher.verify("x", stored)
        assert all(hasher.verify("x", each) for each in ours)
        assert len(judged) == 1
        go_on.set()
    assert all(call.result() for call in waiting)
