"""Lists of people are read as offices have them, and as programs of schools write them."""

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.addresses import MAX_USERNAME, suggested
from core.people_columns import FIELDS, is_class
from core.people_files import MOST_LINES, BadList, read

CLASS = "Nr.;Name;Vorname;Klasse;Geb.\r\n1;Müller;Jörg;6b;3.4.2014\r\n2;Öz;Élif;7a;1.2.2014\r\n"
OF_CLASS, LEFT = "2 Jörg/Müller, group 6b | 3 Élif/Öz, group 7a", "Nr. | Geb."
TWO = "2 Jule/Ahrens, group 5e | 3 Tim/Becker, group 5e"
ROSTER = (
    "sourcedId,status,dateLastModified,enabledUser,orgSourcedIds,role,username,userIds,givenName,"
    "familyName,middleName,identifier,email,sms,phone,agentSourcedIds,grades,password\n"
)
ROSTER_2 = (
    "sourcedId,status,dateLastModified,enabledUser,username,userIds,givenName,familyName,"
    "middleName,identifier,email,sms,phone,agentSourcedIds,grades,password,userMasterIdentifier,"
    "resourceSourcedIds,preferredGivenName,preferredMiddleName,preferredFamilyName,"
    "primaryOrgSourcedId,pronouns\n"
)
GOOGLE = (
    "First Name [Required],Last Name [Required],Email Address [Required],Password [Required],"
    "Org Unit Path [Required],New Primary Email [UPLOAD ONLY],Recovery Email,Employee ID\n"
)
ENTRA = (
    "version:v1.0,,,\nName [displayName] Required,User name [userPrincipalName] Required,"
    "First name [givenName],Last name [surname]\n"
)
M365 = "Display name,User principal name,First name,Last name,Licenses\n"


def quoted(text):
    """Return CSV as LibreOffice saves it when it quotes all texts."""
    file = io.StringIO()
    csv.writer(file, quoting=csv.QUOTE_ALL).writerows(csv.reader(text.splitlines(), delimiter=";"))
    return file.getvalue()


OTHER_FORMATS = [
    b"PK\x03\x04\x14\x00\x06\xff",
    b"PK\x03\x04 without a NUL",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0\0\0>\0\3\0",
    b"%PDF-1.7\n1 0 obj",
    b"{\\rtf1\\ansi Ann;Lee}",
    b"<html><table><tr><td>Ann</td></tr></table>",
    b'<?xml version="1.0"?><Workbook>',
    b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1",
    b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0",
    b"GIF89a\1\0\1\0\x80\0\0",
    "Ann;Lee\n".encode("utf-16-le"),  # without its mark
    "Name;Vorname\nLê;Ann".encode("mac-roman"),
    "Źróbek;Anna".encode("cp1250"),
]

# The file, each person by the number of the line, and what is left out.
FILES = {
    # How they are saved
    "Excel": (CLASS.encode("cp1252"), OF_CLASS, LEFT),
    "Excel, CSV UTF-8": (CLASS.encode("utf-8-sig"), OF_CLASS, LEFT),
    "Excel, Unicode text": (CLASS.replace(";", "\t").encode("utf-16"), OF_CLASS, LEFT),
    "UTF-16, big end first": (f"\ufeff{CLASS}".encode("utf-16-be"), OF_CLASS, LEFT),
    "Excel on an old Mac": (CLASS.replace("\r\n", "\r").encode(), OF_CLASS, LEFT),
    "Google Sheets, TSV": (CLASS.replace(";", "\t").replace("\r", ""), OF_CLASS, LEFT),
    "LibreOffice, all quoted": (quoted(CLASS), OF_CLASS, LEFT),
    "said to Excel": ("sep=;\r\nName;Vorname\r\nLee, A;Ann\r\n", "3 Ann/Lee, A", ""),
    "bars, said to Excel": ("sep=|\nName|Vorname\nLee|Ann", "3 Ann/Lee", ""),
    "semicolons in quotes": (
        'Vorname,Name\n"Ann; B","Lee"\nJo,"Oh; C"', "2 Ann; B/Lee | 3 Jo/Oh; C", ""),
    "lines in a cell": ('Vorname;Name\n"Ann\nM.";Lee\nJo;Oh', "2 Ann M./Lee | 4 Jo/Oh", ""),
    "stray quotes": (
        '"Lee; A";"say ""x"""\r\n\r\n"5" foot;B\n', '1 Lee; A/say "x" | 3 "5" foot/B', ""),
    "no end of a quote": (
        '"Vorname";"Name"\n"Ann;Lee\n"Jo";"Oh"\n"Al";"Li', '2 "Ann/Lee | 3 Jo/Oh | 4 "Al"/"Li', "",
    ),
    "a title with commas": (
        "Klasse 6b, Stand: 1.9., Frau Oh\nName;Vorname\nLee;Ann\nOh;Jo", "3 Ann/Lee | 4 Jo/Oh", "",
    ),
    "typed below what was pasted": (
        "Ann\tLee\nJo\tOh;jon;jo@b.example",
        "1 Ann/Lee | 2 Jo/Oh, username jon, email jo@b.example", ""),
    "semicolons in a copied cell": (
        "Name\tEltern\tVorname\nLee\ta@b; c@d\tAnn", "2 Ann/Lee", "Eltern"),
    "trailing commas": (
        "email,firstName,lastName,,\na@b.example,Z,M,,\n", "2 Z/M, email a@b.example", ""),
    "empty rows": (";;\nName;Vorname;\n\n;;\nLee;Ann;\n;;\n;;\n", "5 Ann/Lee", ""),
    "an empty first column": (";Name;Vorname\n;Lee;Ann\n", "2 Ann/Lee", ""),
    "a cell too many": ("Name;Vorname\nLee;Ann;x\nOh;Jo\n", "2 Ann/Lee | 3 Jo/Oh", "x…"),
    "a cut-off line": (
        "Name;Vorname;E-Mail\nLee;Ann;a@b.example\nOh;J", "2 Ann/Lee, email a@b.example | 3 J/Oh",
        ""),
    "what nobody sees": (
        "\ufeffName;Vor\u00adname\n\u200eLee\u00a0 \0;\u202aAn\u200cna\u202c\u200b\n\x1a",
        "2 An\u200cna/Lee", ""),
    "two files in one": (
        'Name;Vorname\nLee;Ann\n\ufeff"Name";"Vorname"\nOh;Jo', "2 Ann/Lee | 4 Jo/Oh", ""),
    "numbers that Excel must keep": (
        'Student ID,Name,First name\n="0012",Lee,Ann\n"=""0013""",Oh,Jo',
        "2 Ann/Lee, externalId 0012 | 3 Jo/Oh, externalId 0013", ""),
    # Headings
    "title rows": (
        f"Klassenliste 2026/27;;\nKlasse:;6b;\n\n{CLASS}",
        "5 Jörg/Müller, group 6b | 6 Élif/Öz, group 7a", LEFT),
    "two tables": (
        "Name;Geb.;Vorname\nLee;1.2.14;Ann\n\nKlasse 6;\nVorname;Name;Geb.\nJo;Oh;1.2.14",
        "2 Ann/Lee | 6 Jo/Oh", "Geb."),
    "headings on each page": (
        "Name,Vorname\nLee,Ann\nSeite 1,\nName,Vorname\nOh,Jo\nSeite 2 von 2,",
        "2 Ann/Lee | 5 Jo/Oh", ""),
    "what is above headings": ("Ann;Lee\nVorname;Name\nJo;Oh", "3 Jo/Oh", ""),
    "a name and a first name": ("Name\tVorname\nLee\tAnn", "2 Ann/Lee", ""),
    "a name and a surname": ("Name;Surname\nAnn;Lee", "2 Ann/Lee", ""),
    "a third name": ("Name;Vorname;Nachname\nAnn Lee;Ann;Lee", "2 Ann/Lee", "Name"),
    "German": (
        "Familienname;Rufname;Mailadresse;Lerngruppe\nLee;Ann;a@b.example;6b",
        "2 Ann/Lee, email a@b.example, group 6b", ""),
    "English": ("Forename,Surname,,DOB,E-mail\nAnn,Lee,x,1/2/14,", "2 Ann/Lee", "x… | DOB"),
    "French": ("NOM;Prénom;Classe;Adresse de courriel\nLee;Ann;6e;", "2 Ann/Lee, group 6e", ""),
    "French, in brackets": ("Nom de famille;PRENOM(S)\nLee;Ann", "2 Ann/Lee", ""),
    "Spanish": (
        "Apellido 1;Apellido 2;Nombre;Correo electrónico\nLee;Oh;Ann;", "2 Ann/Lee", "Apellido 2",
    ),
    "SchILD": (
        "Nachname;Vorname;Klasse;Geburtsdatum\nLee;Ann;05A;01.02.2014", "2 Ann/Lee, group 05A",
        "Geburtsdatum"),
    "IServ": (
        "Import-ID;Account;Vorname;Nachname;Klasse/Information\n7;ann.lee;Ann;Lee;5e",
        "2 Ann/Lee, username ann.lee, externalId 7, group 5e", ""),
    "Schülername, Klassenname": (
        "Schülername;Klassenname\nAhrens, Jule;5e\nBecker, Tim;5e", TWO, ""),
    "numbers of lines": ("ID;No.;First name;Last name\n7;1;Ann;Lee", "2 Ann/Lee", "ID | No."),
    "External ID": (
        "External ID\tFirst name\tLast name\nS-1\tAnn\tLee", "2 Ann/Lee, externalId S-1", ""),
    "as the API names them": (
        "externalId;username;email;firstName;lastName;role;language;groupId;group\n"
        "S-1;al;a@b.example;Ann;Lee;Lehrkraft;de;g1;6b",
        "2 Ann/Lee, username al, email a@b.example, externalId S-1, role Lehrkraft, language de,"
        " groupId g1, group 6b", ""),
    "a username like a heading": (
        "Login;First name;Last name\nname;Ann;Lee", "2 Ann/Lee, username name", ""),
    "one heading": (
        "E-mail\nann@b.example\njo@b.example",
        "2 ?/?, email ann@b.example | 3 ?/?, email jo@b.example", ""),
    "one heading among others": ("Hobby;E-mail\nx;a@b.example", "2 ?/?, email a@b.example", "Hobby",
    ),
    "an address as the username": (
        "Username;First name;Last name\nann@b.example;Ann;Lee\njo;Jo;Oh",
        "2 Ann/Lee, email ann@b.example | 3 Jo/Oh, username jo", ""),
    # Programs
    "Moodle, upload": (
        "username,firstname,lastname,email,cohort1,lang,idnumber,password\n"
        "al, Ann, Lee, a@b.example, 6b, de, 7, x",
        "2 Ann/Lee, username al, email a@b.example, externalId 7, language de, group 6b",
        "password"),
    "Moodle, Spanish": (
        "Nombre,Apellido(s),Número de ID,Dirección de correo,Grupos\n"
        "Ann,Lee,7,a@b.example,No hay grupos", "2 Ann/Lee, email a@b.example, externalId 7",
        "Grupos"),
    "Google Admin": (
        f"{GOOGLE}Ann,Lee,a@b.example,****,/6b,,ma@c.example,7",
        "2 Ann/Lee, email a@b.example, externalId 7",
        "Password [Required] | Org Unit Path [Required] | Recovery Email"),
    "Microsoft 365": (
        f"{M365}Ann Lee,a@b.example,Ann,Lee,A3\n", "2 Ann/Lee, email a@b.example",
        "Display name | Licenses"),
    "Entra": (
        f"{ENTRA}Ann Lee,a@b.example,Ann,Lee\n", "3 Ann/Lee, email a@b.example",
        "Name [displayName] Required"),
    "Entra, export": (
        "userPrincipalName,displayName,surname,mail,givenName,id\n"
        "al@b.example,Ann Lee,Lee,ann@b.example,Ann,1-2",
        "2 Ann/Lee, username al@b.example, email ann@b.example", "displayName | id"),
    "OneRoster 1.1": (
        f"{ROSTER}s1,active,,true,o,student,al,,Ann,Lee,,,a@b.example,,,,06,\n"
        "s2,tobedeleted,,true,o,student,,,B,B,,,,,,,,\ns3,active,,false,o,student,,,C,C,,,,,,,,\n"
        "t1,,,TRUE,o,teacher,山田.太郎,,,Oh,,,,,,,,\np1,active,,true,o,parent,,,D,D,,,,,,,,\n",
        "2 Ann/Lee, username al, email a@b.example, externalId s1, role student"
        " | 5 ?/Oh, username 山田.太郎, externalId t1, role teacher", "orgSourcedIds | grades"),
    "OneRoster 1.2": (
        f"{ROSTER_2.replace('pronouns', 'role')}"
        "s1,active,,true,al,,Annabel,Lee,,,,,,,,,,,Ann,,,o,student\n"
        "s2,active,,false,x,,B,B,,,,,,,,,,,,,,,student\n"
        "s3,active,,true,jo,,Jo,Oh,,,,,,,,,,,,,Ox,,teacher\n"
        "s4,active,,true,ev,,Eve,Oh,,,,,,,,,,,,,Ox,,parent\n",
        "2 Ann/Lee, username al, externalId s1, role student"
        " | 4 Jo/Ox, username jo, externalId s3, role teacher",
        "primaryOrgSourcedId"),
    "a row like headings": (
        "Name;Vorname;Login;Klasse\nGast;PC;login1;Klasse 5\nLee;Ann;al;5",
        "2 PC/Gast, username login1, group Klasse 5 | 3 Ann/Lee, username al, group 5", ""),
    "quotes in many rows": ('First name;Last name\n' + 'A"n";L"e\n' * 30, " | ".join(
        f'{number} A"n"/L"e' for number in range(2, 32)), ""),
    "a status of others": ("Name,First name,Status\nLee,Ann,Suspended", "2 Ann/Lee", "Status"),
    # Both names in one cell
    "Nachname, Vorname": ("Nachname, Vorname;Kl.\nAhrens, Jule;5e\nBecker, Tim;5e", TWO, ""),
    "Nachname, Vorname without commas": (
        "Nachname Vorname;Kl.\nAhrens Jule;5e\nBecker Tim;5e", TWO, ""),
    "Name with commas": ("Name;Klasse\nAhrens, Jule;5e\nBecker,Tim;5e", TWO, ""),
    "Last name with commas": ("Last name;Class\nAhrens, Jule;5e\nBecker, Tim;5e", TWO, ""),
    "quoted, no headings": ('"Lee, Ann"\n"Oh, Jo"', "1 Ann/Lee | 2 Jo/Oh", ""),
    "commas, no headings": (
        "Lee, Ann;Frau Oh;6b\nOh, Jo;Frau Oh;6b", "1 Ann/Lee | 2 Jo/Oh", "Frau Oh… | 6b…"),
    "words, no headings": (
        "Jule Ahrens\t5e\nTim Becker\t5e", "1 Jule/Ahrens | 2 Tim/Becker", "5e…"),
    "words": (
        "Name;E-Mail\nAnna Maria van der Oh;\nAnn B. Lee;\nMadonna;m@b.example\nLee, Ann, Dr.;\n"
        "de la Oh Ann;",
        "2 Anna Maria/van der Oh | 3 Ann B. Lee/? | 4 Madonna/?, email m@b.example | 5 Lee, Ann,"
        " Dr./? | 6 de la Oh Ann/?", ""),
    # Who is nobody
    "sums": (
        "Nr;Name;Vorname\n1;Lee;Ann\n2;Oh;Jo\n;Summe: 2;\n;Total;2\nGesamt 2;;\n;Anzahl;",
        "2 Ann/Lee | 3 Jo/Oh", "Nr"),
    "lines to be filled in": (
        "Nr;Name;Vorname;Klasse\n1;Lee;Ann;6b\n2;;;6b\n3;;;\n", "2 Ann/Lee, group 6b", "Nr"),
    "a class in joined cells": (
        "Klasse;Name;Vorname\n6b;Lee;Ann\n;Oh;Jo", "2 Ann/Lee, group 6b | 3 Jo/Oh", ""),
    "one name": ("First name,Last name\nAnn,\n,Oh\n", "2 Ann/? | 3 ?/Oh", ""),
    "a number alone": (
        "Student ID,First name,Last name\n1042,,\nS:7,Ann,Lee",
        "2 ?/?, externalId 1042 | 3 Ann/Lee, externalId S:7", ""),
    # No headings
    "all columns": ("Ann,Lee,ann,a@b.example", "1 Ann/Lee, username ann, email a@b.example", ""),
    "no usernames": ("Ann,Lee,a@b.example", "1 Ann/Lee, email a@b.example", ""),
    "too many columns": (
        "Ann,Lee,ann,a@b.example,more", "1 Ann/Lee, username ann, email a@b.example", "more…"),
    "a name like a class": ("R2;D2;r2d2", "1 R2/D2, username r2d2", ""),
    "an index and a class": ("1;Lee;Ann;6b\n2;Oh;Jo;7a", "1 Lee/Ann | 2 Oh/Jo", "1… | 6b…"),
    "days": (
        "6b;Lee;Ann;1.2.2014;x@b.example\n6a;Oh;Jo;2.2.2014;",
        "1 Lee/Ann, email x@b.example | 2 Oh/Jo", "6b… | 1.2.2014…"),
    "words that are no usernames": (
        "Ann;Lee;f;Oslo\nEva;Oh;m;Oslo\nBea;Li;f;Oslo", "1 Ann/Lee | 2 Eva/Oh | 3 Bea/Li",
        "f… | Oslo…"),
    "only addresses": (
        "ann@b.example\njo@b.example", "1 ?/?, email ann@b.example | 2 ?/?, email jo@b.example", "",
    ),
    "only first names": ("Ann\nJo", "1 Ann/? | 2 Jo/?", ""),
    "a gap": ("\n\tOh\nAnn\tLee\n", "2 ?/Oh | 3 Ann/Lee", ""),
    "a title": ("Klasse 6b\nAnn;Lee\nJo;Oh", "2 Ann/Lee | 3 Jo/Oh", ""),
    "other names": ("Frau Oh;Lee, Ann\nFrau Oh;Oh, Jo", "1 Ann/Lee | 2 Jo/Oh", "Frau Oh…"),
    "classes": ("Ann;Lee;10a\nJo;Oh;10b", "1 Ann/Lee | 2 Jo/Oh", "10a…"),
    "an empty column": (";Ann;Lee\n;Jo;Oh", "1 Ann/Lee | 2 Jo/Oh", ""),
    "two addresses": (
        "Ann;Lee;;\nJo;Oh;jo@b.example;pa@b.example\nEva;Li;;\n",
        "1 Ann/Lee | 2 Jo/Oh, email jo@b.example | 3 Eva/Li", "pa@b.example…"),
    "numbered lines": ("1. Ann Lee\n2. Jo Oh", "1 1. Ann Lee/? | 2 2. Jo Oh/?", ""),
    "one letter": ("A;B\nC;D", "1 A/B | 2 C/D", ""),
    "Hebrew and Persian": (
        "\u200fשרה;כהן\u200f\nمریم;حسن\u200cپور", "1 שרה/כהן | 2 مریم/حسن\u200cپور", ""),
    "Japanese": ("太郎,山田\n花子,佐藤", "1 太郎/山田 | 2 花子/佐藤", ""),
}  # fmt: skip


ORDER = ["username", "email", "externalId", "role", "language", "groupId", "group"]


def said(people):
    """Return each person in one text; `?` is a name that the list does not have."""
    lines = []
    for number, person in people.lines:
        names = [person.pop(name, "?") for name in ("firstName", "lastName")]
        others = [f"{name} {person[name]}" for name in ORDER if name in person]
        lines.append(f"{number} {', '.join(['/'.join(names), *others])}")
    return " | ".join(lines)


@pytest.mark.parametrize(("content", "lines", "left_out"), FILES.values(), ids=FILES.keys())
def test_lists_are_read_as_people_have_them(content, lines, left_out):
    people = read(content if isinstance(content, bytes) else content.encode())
    assert (said(people), " | ".join(people.left_out)) == (lines, left_out)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        *((content, "Copy the cells") for content in OTHER_FORMATS),
        *(
            (content, "nobody")
            for content in ("", "\ufeff\r\n", ";;;\n" * 9, "Vorname;Name\n", "\0" * 9)
        ),
        (f"{ROSTER}p1,active,,true,o,parent,,,D,D,,,,,,,,", "nobody"),
        ("Name,Vorname\nLee,Zoë\nOh,Chloë".encode()[:-1], "its end is missing"),
        ("Name,Vorname\nLee,Zoë\n".encode() + "Oh,Chloë".encode("cp1252"), "damaged"),
        ("Lee,Zoë".encode("utf-16")[:-1], "its end is missing"),
        (f"{ROSTER_2}s1,active,,true,al,,Ann,Lee,,,,,,,,,,,,,,,", "have no roles"),
        ("Ann;Lee\n" * (MOST_LINES + 1), "at most 5000 lines"),
        # Long before there are no minutes left.
        ('a";"x\n' * 300_000, "at most 5000 lines"),
        ("\n" * 200_000 + "Ann;Lee", "at most 5000 lines"),
    ],
)
def test_what_cannot_be_read_is_told_with_what_to_do(content, says):
    with pytest.raises(BadList, match=says):
        read(content if isinstance(content, bytes) else content.encode())


def test_the_longest_list_is_read():
    """Headings on each page, and what a spreadsheet saves below it, are no lines."""
    page = "Vorname;Name\n" + "Ann;Lee\n" * 50 + ";\n" * 800
    people = read((page * (MOST_LINES // 50)).encode())
    assert len(people.lines) == MOST_LINES


@pytest.mark.parametrize(
    ("content", "columns"),
    [
        ("Name;Vorname;Klasse;Ort\nLee;Ann;;X", {"firstName", "lastName", "group"}),
        # Both names are in one cell, so neither of them has a column.
        ("Name;Klasse\nLee, Ann;\nAnn Lee;", {"group"}),
        ("Ann Lee\nJo Oh", set()),
        ("Ann;Lee", {"firstName", "lastName"}),
        ("Login;Name;Vorname\na@b.example;Lee;Ann", {"firstName", "lastName", "username", "email"}),
        (
            f"{ROSTER}s1,active,,true,,student,,,,,,,,,,,,",
            FIELDS - {"language", "groupId", "group"},
        ),
    ],
)
def test_the_columns_of_a_list_are_told(content, columns):
    assert read(content.encode()).columns == columns


@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("Lee;Ann;ann\nOh;Jo;jon", "1 Ann/Lee, username ann | 2 Jo/Oh, username jon"),
        ("Lee Ann;6b\nvan der Oh Jo;6b", "1 Ann/Lee | 2 ?/van der Oh Jo"),
        ("山田 太郎", "1 太郎/山田"),
        ("Lee, Ann", "1 Ann/Lee"),
        ("Vorname;Name\nAnn;Lee", "2 Ann/Lee"),
    ],
)
def test_names_can_be_read_the_other_way_round(content, lines):
    assert said(read(content.encode(), last_first=True)) == lines


PIECES = st.sampled_from(
    [
        *',;\t\n\r"|=@ ()',
        "sep=",
        '""',
        "Name",
        "Vorname",
        "E-Mail",
        "sourcedId",
        "status",
        "Ann",
        "6b",
    ]
)


@given(st.binary() | st.lists(PIECES | st.text()).map(lambda pieces: "".join(pieces).encode()))
@settings(max_examples=100, deadline=None, derandomize=True, database=None)
def test_whatever_comes_is_a_list_or_none(content):
    for last_first in (True, False):
        try:
            people = read(content, last_first=last_first)
        except BadList:
            continue
        numbers = [number for number, _ in people.lines]
        assert numbers == sorted({*numbers})
        for _, person in people.lines:
            assert person.keys() <= FIELDS
            assert all(cell == cell.strip() != "" for cell in person.values())


@pytest.mark.parametrize(
    "text", ["5e", "10 B", "5/2", "05A", "6ème", "3°B", "Q1", "11", "10-b", "2BHIF"]
)
def test_classes_are_told_from_names(text):
    assert is_class(text)


@pytest.mark.parametrize(
    "name", ["Lee", "D2", "", "Eva", "Q", "J. P.", "3.4.2014", "1042a", "von 6b"]
)
def test_names_are_no_classes(name):
    assert not is_class(name)


@pytest.mark.parametrize(
    ("names", "language", "username"),
    [
        (("Emma", "Becker"), "", "emma.becker"),
        (("Jörg", "Groß-Müller"), "de-AT", "joerg.gross-mueller"),
        (("Jörg", "Groß-Müller"), "sv", "jorg.gross-muller"),
        (("Łukasz", "Ōe"), "", "lukasz.oe"),
        (("Søren", "Ægir Þór"), "de", "soren.aegir-thor"),
        (("Maximilian Alexander", "von der Heide"), "", "maximilian.von-der-heide"),
        (("Anne-Sophie", "D\u2019Arcy"), "", "anne-sophie.darcy"),
        (('"JB" Jean', "de la Tour"), "", "jb.de-la-tour"),
        (("Maximilian-Alexander", "von der Heide"), "", "maximilian-alexander.von-der"),
        (("山田 Ken", "太郎"), "", "ken"),
        (("Ann", "-"), "", "ann"),
        (("emma_becker.2",), "", "emma-becker-2"),
        (("山田", "太郎"), "", ""),
        (("Л", "Oe"), "", ""),
        (("", ""), "", ""),
    ],
)
def test_usernames_are_made_of_names(names, language, username):
    assert suggested(*names, language=language) == username
    assert len(username) <= MAX_USERNAME - 4
