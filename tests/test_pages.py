"""The built-in pages as a client without scripts sees them: headers, addresses, content."""

import gzip
import re
from dataclasses import replace
from datetime import timedelta
from html.parser import HTMLParser

import pytest
from helpers import DeclaredClient

from config import ROOT
from core.look import BLUE, FOLDER, contrast, look_of, shades
from core.look import shape as shape_of
from core.templates import Templates, problems
from extensions import components

APP, IMPRINT = "https://app.school.example/start?from=accounts", "Ann & Jo's School, 1 Mill Road"

PAGES = ["/reset-password", "/verify-email", "/account", "/admin", "/docs"]
PAGES_OF_LINKS = PAGES[:2]
ACCOUNT_PAGES = PAGES[2:4]
VERSIONED = r"(static/[0-9a-f]{12}/[^\"]+)"


class Visitor(DeclaredClient):
    """Reads every answer to its end, so that no file stays open."""

    def open(self, *args, **kwargs):
        return super().open(*args, **{"buffered": True, **kwargs})


@pytest.fixture
def visitor(app):
    return Visitor(app)


@pytest.fixture
def visit(app, visitor):
    """Open a path of a service with these settings."""
    usual = components(app).settings

    def visit(path, **changed):
        components(app).settings = replace(usual, **changed)
        return visitor.get(path)

    return visit


class Reader(HTMLParser):
    """Collects what the promises below are about."""

    def __init__(self, html):
        super().__init__()
        self.addresses = []
        self.inline = []
        self.metas = {}
        self.feed(html)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.addresses += [found[name] or "" for name in ("src", "href", "action") if name in found]
        if tag == "style" or (tag == "script" and "src" not in found):
            self.inline.append(tag)
        self.inline += [name for name in found if name == "style" or name.startswith("on")]
        if tag == "meta":
            self.metas[found.get("name")] = found.get("content")


def policy(visitor, path):
    header = visitor.get(path).headers["Content-Security-Policy"]
    return dict(rule.split(" ", 1) for rule in header.split("; "))


def test_the_root_leads_to_the_account_below_any_prefix(visit):
    answer = visit("/", public_url="https://school.test/accounts")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/accounts/account")


def test_the_root_leads_to_the_platform(visit):
    for docs in (True, False):
        response = visit("/", app_url=APP, docs=docs, account_pages=docs)
        assert (response.status_code, response.headers["Location"]) == (302, APP)
    assert visit("/").headers["Location"] == "/account"
    assert visit("/", account_pages=False).headers["Location"] == "/docs"
    assert visit("/", account_pages=False, docs=False).status_code == 404


@pytest.mark.parametrize(
    ("typed", "page"),
    [
        *(("account/", "account"), ("admin/", "admin"), ("code", "reset-password")),
        *(("Account", "account"), ("Admin", "admin"), ("Reset-Password", "reset-password")),
        ("reset-password/", "reset-password"),
    ],
)
def test_what_people_type_leads_to_the_page(visit, typed, page):
    answer = visit(f"/{typed}", public_url="https://school.test/accounts")
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/accounts/{page}")


@pytest.mark.parametrize("path", ["/nowhere", "/certificates/ZZZZZZZZZZZZZZZZ"])
def test_a_page_that_has_nothing_shows_a_way_on(app, visitor, path):
    components(app).settings = replace(components(app).settings, app_url=APP)
    page = visitor.get(path, headers={"Accept": "text/html"})
    assert page.status_code == 404
    ways = [way.lstrip("./") for way in Reader(page.text).addresses]
    assert {APP, "account", "reset-password"} <= {*ways}
    components(app).settings = replace(components(app).settings, account_pages=False)
    page = visitor.get(path, headers={"Accept": "text/html"}).text
    assert "account" not in [way.lstrip("./") for way in Reader(page).addresses]


def test_the_account_pages_can_be_turned_off(visit):
    for path in ("/account", "/admin"):
        assert visit(path).status_code == 200
        assert visit(path, account_pages=False).status_code == 404
    for path in PAGES_OF_LINKS:
        assert 'href="account#sign-in"' in visit(path).text
        assert 'href="account' not in visit(path, account_pages=False).text


def test_the_docs_can_be_turned_off(visit):
    for path in ("/docs", "/docs/assets/swagger-ui.css"):
        assert visit(path, docs=False).status_code == 404
        with visit(path, docs=True) as response:
            assert response.status_code == 200


@pytest.mark.parametrize("path", PAGES_OF_LINKS)
def test_a_page_leads_to_the_platform_and_names_who_runs_it(visit, path):
    page = visit(path, app_url=APP, imprint=IMPRINT, site_name="The School").text
    assert f'<a class="button" href="{APP}">Go to the learning platform</a>' in page
    look, name = ("button plain", "My account")
    if path == "/reset-password":
        look, name = ("to-sign-in", "Back to the sign-in")
    assert f'<a class="{look}" id="way-on" href="account">{name}</a>' in page
    assert "Ann &amp; Jo&#39;s School, 1 Mill Road" in page
    page = visit(path, imprint="https://school.example/imprint").text
    assert '<a href="https://school.example/imprint">Legal notice</a>' in page
    assert f'<a class="{look.removesuffix(" plain")}" id="way-on" href="account">' in page
    page = visit(path, account_pages=False).text
    assert "You can close this page." in page


@pytest.mark.asvs("3.4.3", "3.4.4", "3.4.5", "3.4.6")
@pytest.mark.parametrize("path", PAGES)
def test_a_page_allows_nothing_but_its_own_files(visitor, path):
    rules = policy(visitor, path)
    assert rules["default-src"] == "'none'"
    assert rules["script-src"] == rules["style-src"] == rules["connect-src"] == "'self'"
    assert rules["form-action"] == rules["base-uri"] == rules["frame-ancestors"] == "'none'"
    assert "unsafe" not in str(rules)


@pytest.mark.parametrize("path", PAGES_OF_LINKS + ACCOUNT_PAGES)
def test_a_page_forbids_markup_from_script_and_only_an_account_page_shows_qr_codes(visitor, path):
    rules = policy(visitor, path)
    assert rules["require-trusted-types-for"] == "'script'"
    assert rules["img-src"] == ("'self'" if path in PAGES_OF_LINKS else "'self' data:")


@pytest.mark.parametrize("path", ACCOUNT_PAGES)
@pytest.mark.parametrize(
    ("asked", "language"), [("de-AT", "de"), ("fr", "fr"), ("ja", "es"), ("../x", "es"), ("", "es")]
)
def test_an_account_page_can_be_asked_for_in_a_language(visitor, path, asked, language):
    headers = {"Accept-Language": "es"}
    response = visitor.get(path, query_string={"language": asked}, headers=headers)
    assert f'<html lang="{language}">' in response.text


@pytest.mark.parametrize(
    ("path", "most"),
    [
        *(("/account", 104_500), ("/admin", 123_500)),
        *(("/reset-password", 71_700), ("/verify-email", 71_100)),
    ],
)
@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_a_page_is_light(app, visitor, path, most, language):
    """Before compression; calls of the API follow, and the modules of other sections. What comes
    with settings, such as the words for APPLICATIONS, is not weighed.
    """
    usual = components(app).settings
    components(app).settings = replace(usual, applications=())

    def imported(modules):
        texts = [visitor.get(f"/{module}").text for module in modules]
        names = re.findall(r'(?:from|import) "\./([^"]+)"', "\n".join(texts))
        return {f"{folder}/{name}" for name in names}

    page = visitor.get(path, headers={"Accept-Language": language})
    first = set(re.findall(f'(?:src|href)="{VERSIONED}"', page.text))
    (folder,) = {name.rpartition("/")[0] for name in first}
    assert len(first) < 15
    size_of_files = sum(len(visitor.get(f"/{name}").data) for name in first)
    assert size_of_files + len(page.data) <= most
    assert imported(name for name in first if name.endswith(".js")) <= first
    for name in set(re.findall(r'data-module="([^"]+)"', page.text)):
        direct = imported([f"{folder}/{name}.js"])
        # What a module imports is asked for at once, and brings nothing that comes later still.
        assert imported(direct) <= first | direct


def test_every_attribute_for_scripts_is_listed_and_used():
    """The list is in docs/pages.md."""

    def text(pattern):
        return "\n".join(path.read_text() for path in sorted(ROOT.glob(pattern)))

    def attributes(pattern, text):
        names = ",".join(re.findall(pattern, text)).replace(" ", "").split(",")
        return {"data-" + re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", x) for x in names}

    named = r"\bdata-([a-z-]+)"
    templates = attributes(named, text("templates/*.html"))
    scripts = text("static/*.js")
    readers = attributes(named, scripts) | attributes(named, text("static/*.css"))
    for way in (r"dataset\.(\w+)", r'"(\w+)" in [\w.]+dataset', r"const {([\w ,]+)} = .*dataset"):
        readers |= attributes(way, scripts)
    docs = (ROOT / "docs/pages.md").read_text()
    rows = re.findall(r"^\| (`data-.*?) \|(.*)", docs, re.M)
    listed = [f"data-{name}" for names, _ in rows for name in re.findall(named, names)]
    set_by_scripts = {name.strip("`") for name, text in rows if "; from" in text}
    assert sorted(listed) == sorted(readers)
    assert readers - templates == set_by_scripts
    assert templates <= readers


@pytest.mark.asvs("1.2.1", "1.2.3")
@pytest.mark.parametrize("path", PAGES)
@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_a_page_has_no_inline_script_or_style_and_only_addresses_of_its_own(
    visitor, path, language
):
    page = visitor.get(path, headers={"Accept-Language": language}).text
    assert re.search(r"<noscript>.*JavaScript", page, re.S)
    found = Reader(page)
    assert found.inline == []
    assert len(found.addresses) >= 4
    for address in {*found.addresses} - {"data:,"}:  # of a picture that a script brings
        assert re.match(r"[a-z]+[^:]*$|#[a-z-]+$", address), address
        if address.startswith("#"):
            assert f'id="{address[1:]}"' in page, address
        else:
            assert visitor.get(f"/{address}").status_code == 200, address


@pytest.mark.parametrize("path", ACCOUNT_PAGES)
def test_tables_and_their_rows_have_names_and_facts_are_in_pairs(visitor, path):
    page = visitor.get(path).text
    for table in re.findall("<table.*?</table>", page, re.S):
        assert re.match(r"<table[^>]* aria-label|<table[^>]*>\s*<caption", table), table
        assert '<th scope="col"' in table, table
    for row in re.findall(r"<template[^>]*>\s*(<tr.*?</tr>)", page, re.S):
        assert '<th scope="row"' in row, row
    assert not re.findall("<th(?!ead| scope=).*|<img(?![^>]* src=).*", page)
    for facts in re.findall("<dl[^>]*>(.*?)</dl>", page, re.S):
        bare = re.sub("<div.*?</div>", "", facts, flags=re.S)
        assert bare == facts or not bare.strip(), facts


@pytest.mark.parametrize("path", PAGES_OF_LINKS)
def test_a_page_of_a_link_keeps_itself_out_of_referrers_and_search(visitor, path):
    metas = Reader(visitor.get(path).text).metas
    assert metas["referrer"] == "no-referrer"
    assert metas["robots"] == "noindex"
    assert metas["viewport"] == "width=device-width, initial-scale=1"


@pytest.mark.parametrize(
    ("path", "accepted", "language"),
    [
        *((path, "de-AT", "de") for path in PAGES_OF_LINKS),
        *(("/verify-email", accepted, "en") for accepted in ("pt, ja", "", "*")),
        ("/docs", "de", "de"),
    ],
)
def test_a_page_is_in_the_language_that_the_browser_asks_for(visitor, path, accepted, language):
    response = visitor.get(path, headers={"Accept-Language": accepted})
    assert response.headers["Content-Language"] == language
    assert "Accept-Language" in response.vary
    assert f'<html lang="{language}">' in response.text


@pytest.mark.parametrize("path", [*PAGES_OF_LINKS, "/docs"])
def test_a_page_names_the_service(visit, path):
    page = visit(path, site_name="Tom & Jo's School")
    assert re.search("<title>(.* · )?Tom &amp; Jo&#39;s School</title>", page.text)


def test_the_password_hint_follows_the_setting(visit):
    assert "At least 15 characters" in visit("/reset-password", password_min_length=15).text


@pytest.mark.asvs("1.3.2")
def test_the_scripts_never_write_markup_or_reach_elsewhere():
    for path in sorted((ROOT / "static").glob("*.js")):
        script = path.read_text()
        assert not re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|eval", script)
        assert "://" not in script


def test_swagger_ui_is_cached_for_a_year_under_its_version(visitor):
    (address,) = re.findall(r'src="(docs/assets/[^"]+)"', visitor.get("/docs").text)
    assert re.search(r"\.js\?v=5\.\d+\.\d+$", address)
    answer = visitor.get(f"/{address}")
    assert answer.cache_control.max_age == 31_536_000
    assert answer.cache_control.immutable
    assert "javascript" in answer.content_type
    again = visitor.get(f"/{address}", headers={"If-None-Match": answer.headers["ETag"]})
    assert again.status_code == 304


@pytest.mark.asvs("13.4.1", "13.4.2", "13.4.3", "13.4.4", "13.4.5")
@pytest.mark.parametrize(
    "name", ["swagger-ui.js", "oauth2-redirect.html", "..%2f__init__.py", "%2e%2e", "VERSION"]
)
def test_no_other_file_of_the_package_is_served(visitor, name):
    assert visitor.get(f"/docs/assets/{name}").status_code == 404


@pytest.mark.parametrize("path", ["/account", "/static/pages.css", "/docs/assets/swagger-ui.css"])
def test_what_browsers_read_is_compressed_for_those_that_say_so(visitor, path):
    plain = visitor.get(path)
    packed = visitor.get(path, headers={"Accept-Encoding": "br, gzip"})
    refused = visitor.get(path, headers={"Accept-Encoding": "br, gzip;q=0"})
    assert gzip.decompress(packed.data) == plain.data == refused.data
    assert (packed.content_encoding, refused.content_encoding) == ("gzip", None)
    assert len(packed.data) * 3 < len(plain.data)
    assert "Accept-Encoding" in plain.vary
    if path != "/account":
        assert packed.headers["ETag"] != plain.headers["ETag"]


@pytest.mark.parametrize("name", ["pages.css", "links.js", "docs.css", "docs.js", "icon.svg"])
def test_a_static_file_is_asked_for_anew_by_its_etag(visitor, name):
    answer = visitor.get(f"/static/{name}")
    again = visitor.get(f"/static/{name}", headers={"If-None-Match": answer.headers["ETag"]})
    assert (answer.status_code, again.status_code) == (200, 304)


def test_what_is_static_is_kept_for_a_year_under_its_version(visitor):
    """A file of another release, during an upgrade, is not."""
    addresses = re.findall(VERSIONED, visitor.get("/account").text)
    for address in addresses:
        answer = visitor.get(f"/{address}")
        assert (answer.cache_control.max_age, answer.cache_control.immutable) == (31_536_000, True)
        assert answer.cache_control.no_cache is None
    old = visitor.get(f"/static/0123456789ab/{addresses[0].rpartition('/')[2]}")
    assert (old.status_code, old.cache_control.max_age) == (200, None)
    assert look_of(BLUE).version != look_of("#aa2222").version
    for path in (
        "/static/0123456789ab/nothing.js",
        f"/{addresses[0]}/..%2fapp.py",
        "/static/a/b/c",
    ):
        assert visitor.get(path).status_code == 404


def test_pages_and_mails_are_in_the_colour_of_the_school(app, visitor):
    color = "#a11d4c"
    components(app).templates = colored = Templates(None, "en", color)
    page = visitor.get("/account").text
    for name in ("pages.css", "icon.svg"):
        (address,) = {each for each in re.findall(VERSIONED, page) if each.endswith(name)}
        text = visitor.get(f"/{address}").text
        assert color in text
        assert BLUE not in text
        answer = visitor.get(f"/static/{name}")
        again = visitor.get(f"/static/{name}", headers={"If-None-Match": answer.headers["ETag"]})
        assert (answer.text, again.status_code) == (text, 304)
    assert (
        color
        in colored.mail("email_verification", "en", site="x", link="x", life=timedelta(1)).html
    )
    assert color not in visitor.get(address.replace("icon.svg", "shell.js")).text


COLORS = ["#3451b2", "#000000", "#a11d4c", "#0b6e2e", "#0000ff", "#6a5500", "#273f93"]


@pytest.mark.parametrize(
    ("drawing", "shape"),
    [("viewBox='0 0 400 100'", 4), ('viewBox="0,0,90.5,30"', 3), ("", 1), ("viewBox='0 0 9 0'", 1)],
)
def test_the_width_of_a_logo_is_known_before_it_comes(drawing, shape):
    assert shape_of(f"<svg {drawing}/>") == shape


@pytest.mark.parametrize("color", COLORS)
def test_a_colour_is_readable_in_the_light_and_in_the_dark(color):
    made = shades(color)
    assert contrast(color, "#ffffff") >= 5.3
    assert contrast(made[BLUE], "#f3f4f6") >= 4.5
    for ground in ("#10131a", "#191e28", "#232b3d"):
        assert contrast(made["#a3b8ff"], ground) >= 4.5
        assert contrast(made["#c4d1ff"], ground) >= 4.5
    assert contrast(made["#a3b8ff"], made["#131b3a"]) >= 4.5
    assert all(shade in (FOLDER / "pages.css").read_text() for shade in made)


@pytest.mark.parametrize("color", [each for each in COLORS if each != BLUE])
def test_each_shade_of_ours_is_painted_once(color):
    made, pair = shades(color), r"(--[\w-]+): var\(--light, (#\w+)\) var\(--dark, (#\w+)\)"
    ours = re.findall(pair, (FOLDER / "pages.css").read_text())
    painted = re.findall(pair, look_of(color).files["pages.css"].decode())
    assert painted == [tuple(made.get(each, each) for each in found) for found in ours]
    assert ("--accent", color, made["#a3b8ff"]) in painted


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
def test_what_is_kept_and_who_sees_it_is_made_from_the_settings(app, visit, visitor, language):
    def shown(**changed):
        return visit(f"/privacy?language={language}", **changed).text

    for path in [*PAGES_OF_LINKS, *ACCOUNT_PAGES, "/nowhere"]:
        page = visitor.get(path, headers={"Accept": "text/html"}).text
        assert re.search(r'href="/?privacy"', page)
    assert visit("/privacy", account_pages=False).status_code == 200
    usual = shown()
    for changed in (
        *({"profiles": "private"}, {"student_rights": "profile"}, {"session_idle_days": 3}),
        *({"instructor_rights": "groups"}, {"session_days": 77}, {"event_days": 0}),
        {"contact": "the office, room 12"},
    ):
        page = shown(**changed)
        assert page != usual
        for value in changed.values():
            if value and value not in ("private", "profile", "groups"):
                assert str(value) in page
    # Without groups, teachers see everybody's learning; the setting says whose accounts.
    learning = [
        re.search(r"<h2>.*?<h2>.*?<p>(.*?)</p>", shown(instructor_rights=rights), re.S)[1]
        for rights in ("records", "students", "groups")
    ]
    assert learning[0] == learning[1] != learning[2]
    assert f'lang="{language}"' in usual
    assert " 90 " in usual


def test_an_operators_style_sheet_and_logo_are_on_all_pages(app, client, tmp_path):
    (tmp_path / "own.css").write_text(":root { --accent: #060 }")
    drawing = "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 400 100'/>"
    for name in ("logo.svg", "logo-dark.svg"):
        (tmp_path / name).write_text(drawing)
    assert problems(tmp_path) == []
    components(app).templates = Templates(tmp_path, "en")
    for path in PAGES:
        page = client.get(path).text
        ours = "/docs.css" if path == "/docs" else "/pages.css"
        assert page.index(ours) < page.index('<link rel="stylesheet" href="own.css">')
        assert 'class="in-dark" src="logo-dark.svg" alt="" width="144" height="36"' in page
        assert "icon.svg" not in page
    kinds = {"own.css": "text/css"} | dict.fromkeys(("logo.svg", "logo-dark.svg"), "image/svg+xml")
    for name, kind in kinds.items():
        answer = client.get(f"/{name}")
        assert (answer.status_code, answer.mimetype) == (200, kind)
        assert 0 < answer.cache_control.max_age <= 3600
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'; style-")


def test_without_an_own_look_there_is_none(visitor):
    assert "own.css" not in visitor.get("/account").text
    for path in ("/own.css", "/logo.svg", "/logo-dark.svg"):
        assert visitor.get(path).status_code == 404
