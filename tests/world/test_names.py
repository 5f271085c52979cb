"""Names and codes as people everywhere write them: found, ordered, trimmed, and no passwords."""

import pytest
from helpers import success
from marshmallow import ValidationError

from core import codes
from core.addresses import WHITE_SPACE, fold, login_name, search_key
from core.guessable import why_guessable
from fields import Name, Prose, Username

# Last and first name, and what people type to find them.
FOUND = {
    "Wałęsa\nŁukasz": "lukasz walesa wałęsa ŁUKASZ",
    "Ørsted\nSøren": "soren orsted soeren oersted",
    "Nguyễn\nĐặng": "dang nguyen",
    "Þór\nÆsa": "aesa thor æsa",
    "Ħamrun\nŒuvre": "hamrun oeuvre",
    "Guðrún\nŊandi": "gudrun nandi",
    "Əliyev\nIş\u0131k": "eliyev isik \u0131ş\u0131k IŞIK",
    "İpek\nD\u0131\u0307": "ipek IPEK di",
    "Groß\nJürgen": "gross groß GROẞ jurgen juergen",
    "Ödegård\nÅse": "odegard oedegaard ase aase",
    "Ƙano\nƁala": "kano bala",
    "\u049a\u043e\u0448\n\u0492\u0438": "\u043a\u043e\u0448 \u0433\u0438",
    "D\u2019Arcy\nZoë": "d'arcy d\u02bcarcy d`arcy d\u00b4arcy darcy zoe",
    "Ka\u02bbiulani\nNo\u02bbeau": "kaiulani ka'iulani ka\u2019iulani noeau",
    "O\uff07Neil\nQur\u02bean": "o'neil oneil quran",
    "King\u2011Noël\nAn\u00adna": "king-noel king\u2013noel anna",
    "\u0639\u0644\u06cc\u200c\u0631\u0636\u0627\nA\u034f\ufe0fda\u3164": "علیرضا ada",
    "\uff2d\uff4f\uff52\uff49\nﬁona": "mori fiona",
}


@pytest.mark.parametrize("names", FOUND)
def test_a_name_is_found_as_people_type_it(names):
    last, first = names.split("\n")
    key = search_key("somebody", "x@y.example", first, last)
    for typed in (*FOUND[names].split(), *names.split("\n")):
        assert fold(typed) in key, typed
    assert key.split("\n")[2:4] == ["somebody", "x@y.example"]


def test_lists_and_searches_of_the_database_fold_alike(client, make_user, log_in):
    names = "Æsop \u0141ab\u0119d\u017a Oban O\u2019Connor O'Brien Ost Øst Zebra"
    for number, last in enumerate(names.split()):
        make_user(f"user-{number}", first_name="A", last_name=last)
    admin = log_in(make_user("admin", role="admin", last_name="Zz"))
    listed = success(client.get("/api/users?sort=name", headers=admin.headers))["users"]
    ordered = ["Æsop", "Łabędź", "O'Brien", "O\u2019Connor", "Oban", "Ost", "Øst", "Zebra", "Zz"]
    assert [user["lastName"] for user in listed] == ordered
    typed_for = {"labedz": "Łabędź", "o\u2019brien": "O'Brien", "oconnor": "O\u2019Connor"}
    for typed, last in typed_for.items():
        found = success(client.get(f"/api/users?search={typed}", headers=admin.headers))["users"]
        assert [user["lastName"] for user in found] == [last]


# A name, and the passwords that are made of it.
PERSONAL = {
    "Łukasz Wałęsa": "lukaszwalesa",
    "Đặng Nguyễn": "dangnguyen",
    "Jürgen Groß": "juergengross jurgengross Jürgen.Groß1",
    "Jörg Mueller": "joergmüller Jörg-Müller-7",
    "Søren Ørsted": "soerenoersted",
    "Léa D\u2019Arcy": "leadarcy lead'arcy12 D\u00b4Arcy1990",
    "Ka\u02bbiulani Li": "kaiulani99",
}


@pytest.mark.parametrize("name", PERSONAL)
def test_a_password_made_of_the_own_name_is_refused_in_each_spelling(name):
    for password in PERSONAL[name].split():
        assert why_guessable(password, ("r2d2", *name.split()), 8).word == "personal"
        other = why_guessable(password, ("r2d2", "Somebody", "Else"), 8)
        assert other is None or other.word != "personal"


MARKS = "\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u2066\u2067\u2068\u2069\ufeff"


@pytest.mark.parametrize("mark", MARKS, ids=ascii)
def test_marks_of_direction_are_cut_off_at_both_ends(mark):
    assert mark in WHITE_SPACE
    for field in (Name(), Prose(), Username()):
        assert field.deserialize(f"{mark} {mark}Noa{mark}\n{mark}") == "Noa"
    assert login_name(f"{mark}Noa@Example.org {mark}") == "noa@example.org"
    if mark != "\ufeff":
        with pytest.raises(ValidationError):
            Name().deserialize(f"a{mark}b")


@pytest.mark.parametrize(
    "typed",
    [
        "\uff11\uff12\uff13\uff21\uff22\uff23",  # in full width
        "\u0661\u0662\u0663abc",  # the digits of Arabic, Persian, Devanagari and Thai
        "\u06f1\u06f2\u06f3abc",
        "\u0967\u0968\u0969abc",
        "\u0e51\u0e52\u0e53abc",
        "\U0001d7cf\U0001d7d0\U0001d7d1abc",  # in bold
        "\u246023abc",
        "i23ABC",
        "\u20281\uff0d2\u30003\u200ba\u00adb\u2007c\ufeff",
        "\u200e1.2.3/a_b:c\u200f",
    ],
)
def test_a_code_is_read_in_the_digits_and_signs_of_every_keyboard(typed):
    assert codes.read(typed) == b"123ABC"
