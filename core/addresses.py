"""E-mail addresses: how they are read, stored, and, like names, compared."""

import re
import unicodedata
from collections.abc import Sequence
from contextlib import suppress
from email.headerregistry import Address
from functools import lru_cache

import email_validator

MAX_USERNAME = 32
MAX_EMAIL = 254
MAX_ADDRESS = 1024  # beyond it, nothing is parsed; e-mail addresses have 254 characters at most
# Unicode's white space, without four control characters that Python counts too.
_SPACES = r"[\t-\r \u0085\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]"
# Marks of direction come with what is copied from Hebrew and Arabic, from Windows and from phones.
# Not U+202E, which turns letters round and is typed on purpose.
_MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069\ufeff"
WHITE_SPACE = "".join(re.findall(_SPACES, "".join(map(chr, range(0x3001))))) + _MARKS
# One dot-atom at one host. No second address, comment, quoted string, encoded word or line end: the
# `email` package of some Python versions turns those into additional headers.
PLAIN_ADDRESS = re.compile(r"(?!.*=\?)[\w.!#$%&'*+/=?^`{|}~-]{1,64}@[A-Za-z0-9.-]{1,253}", re.ASCII)
# Nobody has a mailbox there (RFC 6761), so accounts without one get such addresses.
NO_MAILBOX = ".invalid"
_PLAIN_LOCAL = re.compile(r"(?=.{1,64}\Z)[A-Za-z0-9]+(?:[._-][A-Za-z0-9]+)*")
_USERNAME = re.compile("[a-z0-9][a-z0-9_.-]{2,31}")
_NAMED = re.compile(r'"?([^"<>\\]*?)"?\s*<([^<>]*)>')

# How the letters are named that are none of A to Z with a mark, and how people write them.
_LATIN = re.compile("LATIN (?:SMALL LETTER|SMALL LIGATURE|LETTER SMALL CAPITAL) (.+)")
_BY_NAME = {
    **{"DOTLESS I": "i", "DOTLESS J": "j", "ETH": "d", "THORN": "th", "ENG": "n", "KRA": "q"},
    **{"SCHWA": "e", "TURNED E": "e", "OPEN E": "e", "OPEN O": "o", "EZH": "z", "GAMMA": "g"},
}
_GERMAN = {"ä": "ae", "ö": "oe", "ü": "ue"}
_GERMAN_UMLAUTS = str.maketrans(_GERMAN)
_UMLAUTS = str.maketrans(_GERMAN | {"å": "aa", "ø": "oe"})
_APOSTROPHE = re.compile("['`\u02b9\u02bb-\u02bf\u02c8\u055a\u05f3\u2018-\u201b\u2032\u2035\ua78c]")
# Drawn as nothing, and not of the category for that: joiners, fillers and selectors.
_UNSEEN = re.compile("[\u034f\u115f\u1160\u180b-\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]")

# The documented way to accept reserved domains such as school.test, which private networks use.
email_validator.SPECIAL_USE_DOMAIN_NAMES.clear()


def normalise_email(raw: str) -> str | None:
    """Return the stored form of an address, in lower case and ASCII (IDNA 2008), or None."""
    local, _, domain = raw.strip(WHITE_SPACE).rpartition("@")
    if _PLAIN_LOCAL.fullmatch(local):  # then the domain decides, and a list has few of them
        ascii_domain = _ascii_domain(domain[:MAX_ADDRESS])
        email = f"{local.lower()}@{ascii_domain}"
        return email if ascii_domain and len(email) <= MAX_EMAIL else None
    return _ascii_of(raw)


def _ascii_of(raw: str) -> str | None:
    found = _validated(raw)
    return (found.ascii_email or "").lower() or None if found else None


@lru_cache(1000)
def _ascii_domain(domain: str) -> str | None:
    email = _ascii_of(f"a@{domain}")
    return email and email.removeprefix("a@")


def is_plainly_written(raw: str) -> bool:
    """Return whether the domain of an address is in its own letters, in ASCII or Unicode, and not
    in others that IDNA maps to them. The case of ASCII letters does not matter.
    """
    found = _validated(raw)
    # In bytes, because U+212A is no k.
    written = raw.strip(WHITE_SPACE).rpartition("@")[2].encode().lower().decode()
    return found is not None and written in (str(found.ascii_domain).lower(), found.domain)


def _validated(raw: str) -> email_validator.ValidatedEmail | None:
    if len(raw) > MAX_ADDRESS:
        return None
    try:
        return email_validator.validate_email(
            raw.strip(WHITE_SPACE), check_deliverability=False, allow_smtputf8=False, strict=True
        )
    except email_validator.EmailNotValidError:
        return None


def has_mailbox(email: str) -> bool:
    """Return whether a normalised address may receive mail."""
    return not email.endswith(NO_MAILBOX)


def login_name(raw: str) -> str | None:
    """Return the one form of what names an account at login, or None if nothing can.

    That is a normalised e-mail address, or a username in lower case; only the first has an "@".
    """
    if "@" in raw:
        return normalise_email(raw)
    name = raw.strip(WHITE_SPACE).lower()
    return name if _USERNAME.fullmatch(name) else None


def username_from(email: str, number: int = 1) -> str:
    """Return a valid username made from a normalised address, the later ones with their number."""
    name = re.sub(r"[^a-z0-9_.-]+", "-", email.rpartition("@")[0]).lstrip("_.-")
    name = name if len(name) > 2 else f"{name}-user".lstrip("-")
    digits = str(number) if number > 1 else ""
    return name[: MAX_USERNAME - len(digits)] + digits


def suggested(*names: str, language: str = "") -> str:
    """Return a username made of names, with room for four digits behind it; "" if fewer than three
    characters of ASCII remain. Of several, the first are given names, of which the first counts.
    """
    given = names[0].split() if len(names) > 1 else names[:1]
    parts = [_in_username(word, language) for word in given]
    parts = [*[*filter(None, parts)][:1], *(_in_username(name, language) for name in names[1:])]
    name = ".".join(filter(None, parts))[: MAX_USERNAME - 4].rstrip(".-")
    return name if len(name) > 2 else ""


def _in_username(name: str, language: str) -> str:
    text = unicodedata.normalize("NFC", name).lower()
    text = fold(text.translate(_GERMAN_UMLAUTS) if language.startswith("de") else text)
    return re.sub(r"[\s._-]+", "-", re.sub(r"[^a-z0-9\s._-]", "", text)).strip("-")


def parse_domain(raw: str) -> str:
    """Return a domain, or `*.` and a domain, in its ASCII form. Raises ValueError."""
    star = "*." if raw.startswith("*.") else ""
    address = normalise_email(f"a@{raw.removeprefix(star)}")
    if address is None:
        raise ValueError("not a domain")
    return star + address.removeprefix("a@")


def has_domain(email: str, domains: Sequence[str]) -> bool:
    """Return whether a normalised address has one of these domains; `*.` stands for its parts."""
    domain = email.rpartition("@")[2]
    return any(
        domain.endswith(each[1:]) if each.startswith("*.") else domain == each for each in domains
    )


def parse_sender(raw: str) -> Address:
    """Return the sender of `a@example.org` or `Accounts <a@example.org>`, a type of setting."""
    named = _NAMED.fullmatch(raw)
    name, address = named.groups() if named else ("", raw)
    if not PLAIN_ADDRESS.fullmatch(address) or not name.isprintable() or "=?" in name:
        raise ValueError("must be one address, such as accounts@example.org")
    username, _, domain = address.partition("@")
    return Address(display_name=name, username=username, domain=domain)


def fold(text: str) -> str:
    """Return the form of a text in which searches compare it: without case, accents and what cannot
    be seen, with one kind of apostrophe and of hyphen, and Latin letters in ASCII.
    """
    # An acute accent that stands for an apostrophe would become a space.
    plain = unicodedata.normalize("NFKC", text.replace("\u00b4", "'")).casefold()
    # casefold can undo the normal form.
    return unicodedata.normalize("NFKC", "".join(map(_plain, unicodedata.normalize("NFKD", plain))))


@lru_cache(10_000)
def _plain(char: str) -> str:
    """Return what stands for a character of a decomposed text in lower case.

    Unicode's names say which letter has a mark that does not come off: "WITH STROKE" and the like.
    """
    category, name = unicodedata.category(char), unicodedata.name(char, "").partition(" WITH ")[0]
    if unicodedata.combining(char) or category == "Cf" or _UNSEEN.match(char):
        return ""
    if _APOSTROPHE.match(char):
        return "'"
    if category == "Pd":
        return "-"
    if latin := _LATIN.fullmatch(name):
        return latin[1].lower() if len(latin[1]) < 3 else _BY_NAME.get(latin[1], char)
    with suppress(KeyError):  # of marks alone, there is no letter
        return unicodedata.lookup(name) if char.isalpha() and name else char
    return char


def spellings(text: str) -> list[str]:
    """Return a text as it is folded, and where they differ, also without its apostrophes, and with
    its umlauts in two letters: what people type for the same name.
    """
    in_two_letters = unicodedata.normalize("NFC", text).lower().translate(_UMLAUTS)
    folded = fold(text)
    others = (each.replace("'", "") for each in (folded, fold(in_two_letters)))
    return [*dict.fromkeys((folded, *others))]


def search_key(username: str, email: str, first_name: str, last_name: str) -> str:
    """Return the text that searches for an account look in, and by which lists are ordered.

    The ends of its lines come before all letters and spaces, so last names are compared first.
    """
    names, *others = spellings(f"{last_name}\n{first_name}")
    return "\n".join((names, fold(f"{username}\n{email}"), *others))
