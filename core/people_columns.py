"""The columns of a list of people: what headings name, or else what the cells look like."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

FIRST, LAST = "firstName", "lastName"
# Both names in one cell: the first name before the last one, or behind it.
FULL, LAST_FIRST = "fullName", "lastFirst"
# What is only "name" is that of the two which has no other column, else both in one.
_EITHER = "either"
# OneRoster's name that somebody goes by, and the one that it replaces.
PREFERRED = {"preferredFirst": FIRST, "preferredLast": LAST}
# Who a line is about.
WHO = {FIRST, LAST, "username", "email", "externalId"}
FIELDS = {*WHO, "role", "language", "groupId", "group"}
_NOT_WHO = {*FIELDS - WHO, "status", "enabledUser"}

# How lists in four languages, OneRoster, Google Admin, Microsoft 365, Entra, Moodle and programs of
# schools head these columns, as `_keys` writes it. A mere number or id is none: it counts the lines.
_WORDS = {
    FIRST: "firstname forename givenname vorname vornamen rufname prenom prenoms nombres",
    LAST: """lastname surname familyname nachname familienname zuname nomdefamille apellido
        apellidos primerapellido""",
    _EITHER: "name schulername nom nombre",
    FULL: """fullname displayname studentname anzeigename vornamename vornamenachname vorundnachname
        nomcomplet prenomnom prenometnom nombrecompleto nombreapellidos nombreyapellidos""",
    LAST_FIRST: """lastnamefirstname surnamefirstname surnameforename nachnamevorname namevorname
        familiennamevorname nomprenom nometprenom apellidosnombre apellidosynombre""",
    "preferredFirst": "preferredgivenname",
    "preferredLast": "preferredfamilyname",
    "username": """username userprincipalname samaccountname login account accountname benutzername
        nutzername anmeldename nomdutilisateur identifiant nombredeusuario usuario""",
    "email": """email mail emailaddress primaryemail emailadresse mailadresse adresseemail courriel
        adressedecourriel correo correoelectronico direcciondecorreo""",
    "externalId": """externalid sourcedid idnumber studentid studentnumber employeeid employeenumber
        externeid importid idnummer schulerid schulernummer matrikelnummer personalnummer
        mitgliedsnummer matricule numerodidentification numerodematricula numerodealumno
        numerodeid""",
    "role": "role rolle rol",
    "language": "language lang sprache langue idioma",
    "groupId": "groupid classid classsourcedid gruppenid klassenid",
    "group": """group class classname cohort gruppe klasse klassenname klasseinformation kl
        lerngruppe groupe classe grupo clase""",
    "status": "status",
    "enabledUser": "enableduser",
}
_HEADINGS = {word.encode(): name for name, words in _WORDS.items() for word in words.split()}
_BRACKETS = re.compile(r"[(\[][^\t]*")
_SIGNS = bytes({*range(128)} - {*b"abcdefghijklmnopqrstuvwxyz\t"})
# Rows that tell what columns without headings are.
_SAMPLE = 500
_CLASS = re.compile(r"\d{1,2}\W*[^\W\d_]{0,4}\W*\w{0,2}|[ejkq] ?\d", re.IGNORECASE)
_USERNAME = re.compile(r"(?=.*[a-z])[a-z0-9][a-z0-9_.-]*", re.IGNORECASE)
_NO_NAME = re.compile(r"[\d@]")


class Columns(NamedTuple):
    """What the cells of a row are, by their place; None for what is not used."""

    names: list[str | None]
    headings: list[str]
    is_roster: bool = False  # OneRoster's users.csv


def is_class(text: str) -> bool:
    """Return whether a text is what schools call a class (5e, 10 B, 5/2, Q1), or a number."""
    return bool(_CLASS.fullmatch(text))


def named(cells: list[str], *, is_first: bool = False) -> Columns | None:
    """Return the columns that a row of headings names, or None if it is none.

    In the first row one is enough: a person of that name would lack the other name.
    """
    keys = _keys(cells)
    found = [_HEADINGS.get(key) for key in keys]
    known = [*filter(None, found)]
    enough = 1 if is_first else min(2, len([*filter(None, cells)]))
    if len(known) < enough or {*known} <= _NOT_WHO:
        return None
    is_roster = b"sourcedid" in keys
    return Columns(_once(found, is_roster), cells, is_roster)


def _keys(cells: list[str]) -> list[bytes]:
    """Return headings without accents, signs and what is in brackets: Apellido(s).

    All at once, because every row of a list may be one of headings.
    """
    row = _BRACKETS.sub("", "\t".join(cells).casefold())
    return (
        unicodedata.normalize("NFKD", row)
        .encode("ascii", "ignore")
        .translate(None, _SIGNS)
        .split(b"\t")
    )


def _once(found: list[str | None], is_roster: bool) -> list[str | None]:
    """Return columns of which each is one of its kind; others than the first of a kind are none."""
    missing = [name for name in (FIRST, LAST) if name not in found]
    either = missing[0] if len(missing) == 1 else FULL
    names = [either if name == _EITHER else name for name in found]
    none = {FULL, LAST_FIRST} if {FIRST, LAST} & {*names} else set()
    none |= set() if is_roster else {"status", "enabledUser"}
    return [
        name if name not in none and names.index(name) == at else None
        for at, name in enumerate(names)
    ]


def guessed(rows: Sequence[list[str]], *, last_first: bool) -> Columns:
    """Return the columns of rows without headings, by what most of their cells are."""
    rows = rows[:: len(rows) // _SAMPLE + 1]
    order = (LAST, FIRST) if last_first else (FIRST, LAST)
    left: list[str] = [*order, "username"]
    names: list[str | None] = []
    for at in range(max(map(len, rows), default=0)):
        kind = _kind([row[at] for row in rows if at < len(row) and row[at]], left[:1])
        names.append(None if kind in names else kind)
        left = ["username"] if kind == FULL else [name for name in left if name != kind]
    if not any(names):
        names = [*order, "username", "email"]
    if len({FIRST, LAST} & {*names}) == 1:  # it is all there is, so it is both
        names = [FULL if name in order and FULL not in names else name for name in names]
    return Columns(names, [])


def _kind(cells: list[str], following: list[str]) -> str | None:
    """Return what most of some cells are. Numbers, days and classes are no names, and what is the
    same in most rows is no username.
    """

    def most(fits: Callable[[str], object]) -> bool:
        return 2 * sum(bool(fits(cell)) for cell in cells) > len(cells)

    if most(lambda cell: "@" in cell):
        return "email"
    if following == ["username"]:
        fits = most(lambda cell: _USERNAME.fullmatch(cell) and not is_class(cell))
        return "username" if fits and 2 * len({*cells}) > len(cells) else None
    if not following or not cells or most(_NO_NAME.search):
        return None
    return FULL if most(lambda cell: cell.count(",") == 1) else following[0]
