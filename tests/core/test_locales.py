"""Which languages and time zones are taken, in which form, and which language is chosen."""

import time
from zoneinfo import ZoneInfo

import pytest
from werkzeug.datastructures import LanguageAccept
from werkzeug.http import parse_accept_header

from core.locales import (
    MAX_LANGUAGE_LENGTH,
    choose,
    ranges,
    standard_language,
    time_zone,
    time_zones,
)


@pytest.mark.parametrize(
    ("tag", "standard"),
    [
        *(("en", "en"), ("en-us", "en-US"), ("PT-br", "pt-BR"), ("es-419", "es-419")),
        *(("ZH-HANT-TW", "zh-Hant-TW"), ("sr-latn", "sr-Latn"), ("yue", "yue")),
        *(("de-ch-1996", "de-CH-1996"), ("hy-latn-IT-arevela", "hy-Latn-IT-arevela")),
        # Extensions and private use
        *(("en-u-CA-buddhist", "en-u-ca-buddhist"), ("EN-us-X-Twain", "en-US-x-twain")),
        ("xx-yy", "xx-YY"),  # only the shape counts
    ],
)
def test_language_tag_gets_its_usual_case(tag, standard):
    assert standard_language(tag) == standard
    assert standard_language(standard) == standard


@pytest.mark.parametrize(
    "tag",
    [
        *("", "-", "a", "12", "english", "C", "en_US", "en_US.UTF-8", "en-", "-en", "en--US"),
        *("en-U", "en-5555-US", "en-u", "en-x", "en-US-x-", "en us", " en", "en\n", "en\x00"),
        *("en,de", "en;q=0.5", "*", "en-*", "../en", "\u00e9", "\uff45\uff4e"),
        *("\u0435n", "\u212ao"),  # Cyrillic, and a sign whose lower case is a letter
        *("en\u200b", "en-x-abcdefghi", "en-" * 50_000 + "US"),
    ],
    ids=lambda tag: ascii(tag[:12]),
)
def test_malformed_language_tag_is_refused(tag):
    assert standard_language(tag) is None


def test_longest_tag_is_as_long_as_the_standard_expects():
    longest = "en-x-abcdefgh-abcdefgh-abcdefgh-abc"
    assert len(longest) == MAX_LANGUAGE_LENGTH == 35
    assert standard_language(longest) == longest
    assert standard_language(longest + "d") is None


@pytest.mark.parametrize(
    "name",
    [
        *("", "Factory", "Mars/Olympus_Mons", "europe/berlin", "Europe/Berlin\n"),
        # Files and folders, beside the zones and elsewhere
        *("Europe", "zone.tab", "/etc/localtime", "../../../etc/passwd", "Europe//Berlin"),
    ],
    ids=lambda name: ascii(name[:20]),
)
def test_other_names_are_no_time_zones_and_open_no_files(name, monkeypatch):
    assert name not in time_zones()
    asked = []
    monkeypatch.setattr("core.locales.ZoneInfo", lambda key: asked.append(key) or ZoneInfo(key))
    assert time_zone(name).key == "UTC"
    assert asked == ["UTC"]


def test_every_time_zone_loads_and_fits_its_column():
    names = time_zones()
    assert len(names) > 400
    # Among them is an old name.
    assert names > {"UTC", "America/Port-au-Prince", "Etc/GMT+12", "Asia/Calcutta", "EST"}
    for name in names:
        assert time_zone(name).key == name
        assert len(name) <= 64


def test_a_tag_is_looked_up_from_special_to_general():
    assert list(ranges("de-AT")) == ["de-AT", "de"]
    assert list(ranges("x-klingon")) == ["x-klingon"]
    # The example of RFC 4647, section 3.4.
    assert list(ranges("zh-Hant-CN-x-private1-private2")) == [
        *("zh-Hant-CN-x-private1-private2", "zh-Hant-CN-x-private1"),
        *("zh-Hant-CN", "zh-Hant", "zh"),
    ]


def chosen(header, there=("en", "de", "fr", "es"), default="en"):
    return choose(parse_accept_header(header, LanguageAccept), there, default)


@pytest.mark.parametrize(
    ("header", "language"),
    [
        ("DE-at", "de"),
        ("de-AT,de;q=0.9,en;q=0.8", "de"),
        # An exact match of a lower quality does not win.
        ("fr-CH, en;q=0.9", "fr"),
        ("en;q=0.5, es;q=0.6", "es"),
        ("ja, pt;q=0.9, es;q=0.1", "es"),
        # RFC 9110, section 12.4.2: a quality of 0 is not acceptable.
        ("de;q=0, fr;q=0.1", "fr"),
        ("de-AT, de;q=0, fr;q=0.1", "fr"),
        ("de-AT;q=0", "en"),
        ("*;q=0.5, es;q=0.4", "en"),
        ("ja, *", "en"),
        ("", "en"),
        # Malformed
        ("de;q=abc", "en"),
        ("de;q=2, fr;q=0.1", "fr"),
        (";;,,=;q", "en"),
        ("de_AT", "en"),
        (f"de-{'a' * MAX_LANGUAGE_LENGTH}", "en"),  # no tag of a language is as long
        ("\u00e4\x00", "en"),
    ],
)
def test_the_wanted_language_is_chosen(header, language):
    assert chosen(header) == language


def test_a_further_language_is_chosen_in_its_own_form():
    assert chosen("PT-br, de", there=("de", "pt-BR")) == "pt-BR"


@pytest.mark.parametrize("part", ["a-", "aa,", "aa;q=0.1,", ";", "a-b,", "de-x-"])
def test_a_header_costs_no_more_than_its_length(part):
    def cost(length):
        header, spent = (part * length)[:length], []
        for _ in range(20):  # other programs only ever add
            start = time.thread_time()
            assert chosen(header) in ("en", "de")
            spent.append(time.thread_time() - start)
        return min(spent)

    # Of what grows with the square, it would be 64.
    assert cost(8192) < 24 * cost(1024)
