"""Password hashes: made, verified, renewed, and always the same work for a failure."""

import base64
import hmac
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
LONG = "$bcrypt-sha256$v=2,t=2b,r=4$"
GARBAGE = ["", "x", "!", "pbkdf2:sha256:1$a$b", "$2b$04$short", PASSLIB + "\n", "\x00", "\ud800"]


@pytest.fixture
def hasher():
    return Hasher(rounds=4, parallel=1, waiting=9)


@pytest.fixture
def work(monkeypatch):
    """The rounds of bcrypt so far, 2**cost for each hash; each is done with the lowest cost."""
    done = []

    def counted(password, salt, hashpw=bcrypt.hashpw):
        form, cost, text = salt[:4], salt[4:6], salt[6:]
        done.append(2 ** int(cost))
        return form + cost + hashpw(password, form + b"04" + text)[6:]

    monkeypatch.setattr("bcrypt.hashpw", counted)
    return done


def plain(password, salt=b"$2b$04$" + b"." * 22):
    return bcrypt.hashpw(password, salt).decode()


def long(password):
    """What the releases before stored, whatever the length."""
    key = base64.b64encode(hmac.digest(b"." * 22, password.encode(), "sha256"))
    return f"{LONG}{'.' * 22}${plain(key)[-31:]}"


@pytest.mark.asvs("11.2.1", "11.3.1", "11.3.2", "11.4.1")
def test_a_hash_made_by_passlib_verifies(hasher):
    assert hasher.verify("password", PASSLIB) == (True, True)
    assert not hasher.verify("Password", PASSLIB).matches


# The last of each has 71 bytes in its form NFKC, and 72.
@pytest.mark.parametrize(
    "typed", [PASSWORD, "", "a" * 71, "\u00e9" * 35 + "a", "\ufb01" * 35 + "a"]
)
def test_what_bcrypt_takes_whole_is_stored_as_others_read_it(hasher, typed):
    stored = hasher.hash(typed)
    assert stored.startswith("$2b$04$")
    assert bcrypt.checkpw(unicodedata.normalize("NFKC", typed).encode(), stored.encode())
    assert hasher.verify(typed, stored) == (True, False)


@pytest.mark.parametrize("typed", ["a" * 72, "\u00e9" * 36, "\u2460" * 128, "with\x00zero", "\x00"])
def test_what_bcrypt_cuts_off_or_repeats_is_hashed_first(hasher, typed):
    stored = hasher.hash(typed)
    assert stored.startswith(LONG)
    salt, digest = stored.removeprefix(LONG).split("$")
    text = unicodedata.normalize("NFKC", typed).encode()
    key = base64.b64encode(hmac.digest(salt.encode(), text, "sha256"))
    assert plain(key, f"$2b$04${salt}".encode()).endswith(digest)
    assert hasher.verify(typed, stored) == (True, False)


def test_a_hash_that_would_not_be_stored_now_is_outdated(hasher):
    cases = {
        plain(b"caf\xc3\xa9"): ("caf\u00e9", False),
        plain(b"cafe\xcc\x81"): ("cafe\u0301", True),  # matches only as it was typed
        plain(b"caf\xc3\xa9").replace("$2b$", "$2y$"): ("cafe\u0301", True),
        plain(b"x", b"$2b$05$" + b"." * 22): ("x", True),
        f"bcrypt${plain(b'x')}": ("x", True),
        long("x"): ("x", True),
        plain(b"a" * 72): ("a" * 72, True),
        plain(b"b" * 71): ("b" * 71, False),
        long("c" * 72): ("c" * 72, False),
        long("d" * 71): ("d" * 71, True),
    }
    for stored, (typed, outdated) in cases.items():
        assert hasher.verify(typed, stored) == (True, outdated), stored
    # A hash of ours is of the normal form, however it is typed.
    assert hasher.verify("cafe\u0301", plain(b"caf\xc3\xa9")) == (True, False)
    assert not hasher.verify("caf\u00e9", plain(b"cafe\xcc\x81"))


def test_no_longer_password_matches_one_that_bcrypt_takes_whole(hasher):
    for other in ("a" * 72, "a" * 71 + "\x00", "a" * 71 + "\x00a", "a" * 70):
        assert not hasher.verify(other, hasher.hash("a" * 71)), other


def test_a_nul_matches_no_plain_hash(hasher):
    stored = plain(b"a")
    assert bcrypt.checkpw(b"a\x00a", stored.encode()), "bcrypt repeats a short password"
    for typed in ("a\x00a", "a\x00", "\x00", "\x00a"):
        for same in (stored, f"bcrypt${stored}", plain(typed.encode())):
            assert not hasher.verify(typed, same)


@pytest.mark.asvs("11.4.2", "11.4.3")
def test_a_password_matches_its_own_hash_only(hasher):
    stored = hasher.hash(PASSWORD)
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


def test_prefixes_of_other_systems_verify_and_are_outdated(hasher):
    for kind in ("2a", "2b", "2y"):
        stored = plain(PASSWORD.encode()).replace("$2b$", f"${kind}$")
        assert hasher.verify(PASSWORD, stored) == (True, kind != "2b")
        assert not hasher.verify("other", stored).matches


def test_hashes_of_other_systems_verify_with_what_those_cut_off(hasher):
    stored = bcrypt.hashpw(b"a" * 71 + "\u00e9".encode()[:1], bcrypt.gensalt(4)).decode()
    assert hasher.verify("a" * 71 + "\u00e9" + "b" * 20, stored) == (True, True)
    assert not hasher.verify("a" * 71, stored).matches


@pytest.mark.parametrize(
    ("typed", "hashes"),
    [
        *((each, 1) for each in ("wrong", "a" * 129, "a" * 10_000, "\ud800", "\x00", "a" * 100)),
        *((each, 2) for each in ("\ufb01", "\ufb01\x00", "\u2460" * 129, "\ufb01\ud800")),
        ("\ufb01" * 200, 2),
        ("\ufb01" * 513, 1),  # too long to be read at all
    ],
)
def test_every_failure_costs_what_was_typed(work, typed, hashes):
    hasher = Hasher(rounds=7, parallel=1, waiting=9)
    current = [hasher.hash(PASSWORD), hasher.hash("a" * 99)]
    old = [Hasher(rounds=4, parallel=1, waiting=9).hash(PASSWORD), long(PASSWORD)]
    foreign = plain(PASSWORD.encode(), b"$2b$05$" + b"." * 22)
    others = [foreign, *(f"{form}{foreign}" for form in ("bcrypt$", "bcrypt_sha256$", "$wp"))]
    others += [WERKZEUG, "$6$rounds=1000$salt$" + "d" * 86]
    for stored in (None, *GARBAGE, *current, *old, *others):
        work.clear()
        assert not hasher.verify(typed, stored)
        assert sum(work) == hashes * 2**7, stored
    dearer = Hasher(rounds=6, parallel=1, waiting=9)
    for stored in current:
        work.clear()
        assert not dearer.verify(typed, stored)
        assert len(work) == hashes
        assert min(work) >= 2**6


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
        soon(lambda: len(running) == 2 and len(hasher._ours._line) == 2)
        for account in (stored, None):
            with pytest.raises(HasherBusy):
                hasher.verify(PASSWORD, account)
        assert len(running) == 2
        go_on.set()
    assert [bool(future.result()) for future in futures] == [True, False, True, True]
    assert hasher.verify(PASSWORD, stored).matches


def test_nobody_waits_longer_than_a_proxy(monkeypatch):
    monkeypatch.setattr("core.passwords.LONGEST_WAIT", 0.01)
    hasher = Hasher(rounds=4, parallel=1, waiting=2)
    with hasher._ours.turn(), pytest.raises(HasherBusy):
        hasher.hash(PASSWORD)
    assert hasher.hash(PASSWORD)


def test_names_with_wrong_passwords_wait_behind_others_and_make_room_for_them(monkeypatch):
    hasher = Hasher(rounds=4, parallel=1, waiting=4)
    stored, judged, go_on = hasher.hash(PASSWORD), [], threading.Semaphore(0)

    def slow(password, salt, hashpw=bcrypt.hashpw):
        assert go_on.acquire(timeout=30)
        judged.append(password.decode())
        return hashpw(password, salt)

    def waiting(count):
        soon(lambda: len(hasher._ours._line) == count)

    for _ in range(3):
        assert not hasher.verify("guess", stored, "flooded")
    assert not hasher.verify("typo", stored, "known")
    assert hasher.verify(PASSWORD, stored, "known")  # clears what was counted
    monkeypatch.setattr("bcrypt.hashpw", slow)
    with ThreadPoolExecutor(max_workers=9) as pool:
        flood = []
        for number in range(5):
            account, name = (None, "nobody") if number % 2 else (stored, "flooded")
            flood.append(pool.submit(hasher.verify, f"guess {number}", account, name))
            waiting(number)
        pupils = []
        for number, name in enumerate(["known", "fresh", "new"]):
            pupils.append(pool.submit(hasher.verify, PASSWORD, stored, name))
            soon(lambda: sum(call.done() for call in flood) == number + 1)  # noqa: B023
        with pytest.raises(HasherBusy):
            hasher.verify("guess", stored, "flooded")
        go_on.release(9)
    assert all(call.result() for call in pupils)
    assert [type(call.exception()) for call in flood[2:]] == [HasherBusy] * 3
    assert judged[0] == "guess 0"
    assert judged[1:] == ["", *[PASSWORD] * 3]
    # Who was refused is not further behind for it.
    assert hasher._tries == {"flooded": 4, "nobody": 1}


def test_few_names_are_remembered(hasher, monkeypatch):
    monkeypatch.setattr("core.passwords._NAMES_COUNTED", 2)
    for number in range(9):
        assert not hasher.verify("guess", None, str(number))
        assert len(hasher._tries) <= 2
