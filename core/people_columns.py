"""The columns of a list of people, named by headings or told by what is in them, and its rows."""

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

FIRST, LAST = "firstName", "lastName"
# Both names in one cell: the first name before the last one, or behind it.
_FULL, _LAST_FIRST = "fullName", "lastFirst"
# What is only "name" is that of the two which has no other column, else both in one.
_EITHER = "either"
# The names that somebody goes by, and those that they replace.
_PREFERRED = {"preferredFirst": FIRST, "preferredLast": LAST}
# Whether somebody still has an account. It counts in OneRoster alone, where its words are known.
_STATES = {"status", "enabledUser"}
_BESIDE = {"role", "language", "groupId", "group", *_STATES}
FIELDS = {FIRST, LAST, "username", "email", "externalId", *_BESIDE} - _STATES

# How lists in four languages, OneRoster, Google Admin, Microsoft 365, Entra, Moodle and programs of
# schools head these columns, as `_keys` writes it. A mere number or id is none: it counts lines.
_WORDS = {
    FIRST: "firstname forename givenname vorname vornamen rufname prenom prenoms nombres",
    LAST: """lastname surname familyname nachname familienname zuname nomdefamille apellido
        apellidos primerapellido""",
    _EITHER: "name schulername nom nombre",
    _FULL: """fullname displayname studentname anzeigename vornamename vornamenachname nomcomplet
        vorundnachname prenomnom prenometnom nombrecompleto nombreapellidos nombreyapellidos""",
    _LAST_FIRST: """lastnamefirstname surnamefirstname surnameforename nachnamevorname namevorname
        familiennamevorname nomprenom nometprenom apellidosnombre apellidosynombre""",
    "preferredFirst": "preferredgivenname",
    "preferredLast": "preferredfamilyname",
    "username": """username userprincipalname samaccountname login account accountname benutzername
        nutzername anmeldename nomdutilisateur identifiant nombredeusuario usuario""",
    "email": """email mail emailaddress primaryemail emailadresse mailadresse adresseemail courriel
        adressedecourriel correo correoelectronico direcciondecorreo""",
    "externalId": """externalid sourcedid idnumber studentid studentnumber employeeid employeenumber
        externalnumber externeid externenummer importid idnummer schulerid schulernummer
        matrikelnummer personalnummer mitgliedsnummer matricule numeroexterne numerodidentification
        numeroexterno numerodematricula numerodealumno numerodeid""",
    "role": "role rolle rol",
    "language": "language lang sprache langue idioma",
    "groupId": "groupid classid classsourcedid gruppenid klassenid",
    "group": """group class classname cohort gruppe klasse klassenname klasseinformation kl
        lerngruppe groupe classe grupo clase""",
    "status": "status",
    "enabledUser": "enableduser",
}
_HEADINGS = {word.encode(): name for name, words in _WORDS.items() for word in words.split()}
_WHO = {word for word, name in _HEADINGS.items() if name not in _BESIDE}
_BRACKETS = re.compile(r"[(\[][^\t]*")
_SIGNS = bytes({*range(128)} - {*b"abcdefghijklmnopqrstuvwxyz\t"})
# Rows that tell what columns without headings are.
_SAMPLE = 500
_CLASS = re.compile(r"\d{1,2}\W*[^\W\d_]{0,4}\W*\w{0,2}|[ejkq] ?\d", re.IGNORECASE)
_USERNAME = re.compile(r"(?=.*[a-z])[a-z0-9][a-z0-9_.-]{2,}", re.IGNORECASE)
_NO_NAME = re.compile(r"[\d@]")
_NOTE = re.compile(r"[\d:]")
# Unlike a person of that name, it has at most numbers beside it.
_SUM = re.compile(r"(?:sum|summe|total|gesamt|insgesamt|anzahl|somme|suma)[\W\d_]*", re.IGNORECASE)


class Columns(NamedTuple):
    """What the cells of a row are, by their place; None for what is not used."""

    names: list[str | None]
    headings: list[str]
    is_roster: bool = False  # OneRoster's users.csv

    @property
    def say_names(self) -> bool:
        """Whether both names have a column; of a person, no cells would read like that."""
        return {FIRST, LAST} <= {*self.names} or not {_FULL, _LAST_FIRST}.isdisjoint(self.names)


def is_class(text: str) -> bool:
    """Return whether a text is what schools call a class (5e, 10 B, 5/2, Q1), or a number."""
    return len(text) < 20 and bool(_CLASS.fullmatch(text))


def named(cells: list[str], more: Mapping[str, str], *, is_first: bool) -> Columns | None:
    """Return the columns that a row of headings names, or None if it is no such row.

    In the first row one is enough: a person of that name would lack the other name. `more` has
    columns by their headings in small letters.
    """
    keys = _keys(cells)
    if _WHO.isdisjoint(keys):
        return None
    both = zip(cells, keys, strict=True)
    found = [more.get(cell.casefold(), _HEADINGS.get(key)) for cell, key in both]
    if not is_first and len([*filter(None, found)]) == 1 < len([*filter(None, cells)]):
        return None
    is_roster = b"sourcedid" in keys
    return Columns(_once(found, is_roster), cells, is_roster)


def _keys(cells: list[str]) -> list[bytes]:
    """Return headings without accents, signs and what is in brackets: Apellido(s)."""
    # All at once, because every row may be one of headings.
    row = unicodedata.normalize("NFKD", _BRACKETS.sub("", "\t".join(cells)).casefold())
    return row.encode("ascii", "ignore").translate(None, _SIGNS).split(b"\t")


def _once(found: list[str | None], is_roster: bool) -> list[str | None]:
    """Return columns of which each is the only one of its kind."""
    missing = [name for name in (FIRST, LAST) if name not in found]
    either = missing[0] if len(missing) == 1 else _FULL
    names = [either if name == _EITHER else name for name in found]
    unused = set() if is_roster else {*_STATES}
    if {FIRST, LAST}.intersection(names):
        unused |= {_FULL, _LAST_FIRST}
    return [
        None if name in unused or names.index(name) < at else name for at, name in enumerate(names)
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
        left = ["username"] if kind == _FULL else [name for name in left if name != kind]
    if not any(names):
        names = [*order, "username", "email", *names][: len(names)]
    if _FULL in names:
        names = [None if name in order else name for name in names]
    elif len({FIRST, LAST}.intersection(names)) == 1:  # it is all there is, so it is both
        names = [_FULL if name in order else name for name in names]
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
    return _FULL if most(lambda cell: cell.count(",") == 1) else following[0]


def person_of(columns: Columns, cells: list[str], *, last_first: bool) -> dict[str, str]:
    """Return what a row says of somebody; {} if it is about nobody who has an account."""
    pairs = zip(columns.names, cells, strict=False)
    person = {name: cell for name, cell in pairs if name and cell}
    if _is_remark(person, columns, cells) or (columns.is_roster and not _has_account(person)):
        return {}
    for name in _PREFERRED.keys() & person.keys():
        person[_PREFERRED[name]] = person.pop(name)
    for name in {_FULL, _LAST_FIRST} & person.keys():
        person |= _two_names(person.pop(name), last_first or name == _LAST_FIRST)
    names = person.keys() & {FIRST, LAST}
    if len(names) == 1 and person[name := names.pop()].count(",") == 1:
        person |= _two_names(person.pop(name), True)
    if "@" in person.get("username", "") and "email" not in person:
        person["email"] = person.pop("username")
    return person


def _is_remark(person: dict[str, str], columns: Columns, cells: list[str]) -> bool:
    """Return whether a row is a sum, the title of a part, the number of a page, or about nobody."""
    said = [*filter(None, cells)]
    if person.keys() <= _BESIDE or _SUM.fullmatch(" ".join(said)):
        return True
    is_short = len(said) == 1 < len([*filter(None, columns.names)])
    return is_short and not person.keys() & {"email", "externalId"} and bool(_NOTE.search(said[0]))


def _has_account(user: dict[str, str]) -> bool:
    """Return whether somebody in OneRoster is an active pupil or teacher."""
    status, is_enabled = user.pop("status", "active"), user.pop("enabledUser", "true")
    is_active = status.lower() == "active" and is_enabled.lower() != "false"
    return is_active and user.get("role", "student").lower() in ("student", "teacher")


def _two_names(text: str, last_first: bool) -> dict[str, str]:
    """Return both names that are in one cell where it is plain which is which, else the text as one
    of them: a person must say what the other one is.
    """
    words, order = text.split(), (LAST, FIRST) if last_first else (FIRST, LAST)
    parts = [text]
    if text.count(",") == 1:
        parts, order = text.split(","), (LAST, FIRST)
    elif len(words) == 2:
        parts = words
    elif not (last_first or words[0].islower()):  # Ludwig van Beethoven
        at = next((at for at, word in enumerate(words) if word.islower()), len(words))
        parts = [" ".join(words[:at]), " ".join(words[at:])]
    names = zip(order, map(str.strip, parts), strict=False)
    return {name: part for name, part in names if part}
