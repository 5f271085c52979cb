"""Where the service leads its users: to the platform, and to who runs it."""

import re
from datetime import timedelta

import pytest

from config import ConfigError, Settings, load
from core import clock
from core.templates import Templates
from extensions import components
from services.letters import MailKind

APP, IMPRINT = "https://app.school.example/start?from=accounts", "Ann & Jo's School, 1 Mill Road"
PAGES_OF_LINKS = ["/reset-password", "/verify-email"]
FACTS = {"site": "school.example", "link": "https://school.example/page#token=a.b_c", "code": "A-B"}
FACTS |= {
    "life": timedelta(days=1),
    "happened_at": clock.utcnow(),
    "registration_open": True,
    "event": "code_used",
    "left": 9,
    "unlinked": True,
}


@pytest.fixture
def visit(site_app):
    """Open a path of a service with these settings."""

    def visit(path, **changed):
        components(site_app).settings = Settings(**changed)
        return site_app.test_client().get(path)

    return visit


def write(kind, language, **changes):
    return Templates(None, "en").mail(kind, language, **{**FACTS, **changes})


def test_settings_take_a_url_and_a_line():
    settings = load({"APP_URL": APP, "IMPRINT": IMPRINT, "DOCS": "0"})
    assert (settings.app_url, settings.imprint, settings.docs) == (APP, IMPRINT, False)
    for name, value in (
        *(("APP_URL", "app.example"), ("APP_URL", "javascript://x/"), ("DOCS", "2")),
        *(("IMPRINT", "x" * 201), ("IMPRINT", "javascript://x/"), ("IMPRINT", "https://a b")),
    ):
        with pytest.raises(ConfigError, match=f"{name} must be"):
            load({name: value})


def test_the_root_leads_to_the_platform(visit):
    for docs in (True, False):
        response = visit("/", app_url=APP, docs=docs, account_pages=docs)
        assert (response.status_code, response.headers["Location"]) == (302, APP)
    assert visit("/").headers["Location"] == "/account"
    assert visit("/", account_pages=False).headers["Location"] == "/docs"
    assert visit("/", account_pages=False, docs=False).status_code == 404


def test_the_account_pages_can_be_turned_off(visit):
    for path in ("/account", "/admin"):
        assert visit(path).status_code == 200
        assert visit(path, account_pages=False).status_code == 404
    assert 'href="account"' not in visit("/verify-email", account_pages=False).text


def test_the_docs_can_be_turned_off(visit):
    for path in ("/docs", "/docs/assets/swagger-ui.css"):
        assert visit(path, docs=False).status_code == 404
        with visit(path, docs=True) as response:
            assert response.status_code == 200


@pytest.mark.parametrize("path", PAGES_OF_LINKS)
def test_a_page_leads_to_the_platform_and_names_who_runs_it(visit, path):
    page = visit(path, app_url=APP, imprint=IMPRINT, site_name="The School").text
    assert f'<a class="button" href="{APP}">Go to The School</a>' in page
    name = "Sign in" if path == "/reset-password" else "My account"
    assert f'<a class="button plain" id="way-on" href="account">{name}</a>' in page
    assert "Ann &amp; Jo&#39;s School, 1 Mill Road" in page
    page = visit(path, imprint="https://school.example/imprint").text
    assert '<a href="https://school.example/imprint">Legal notice</a>' in page
    assert '<a class="button" id="way-on" href="account">' in page
    page = visit(path, account_pages=False).text
    assert "You can close this page." in page
    assert "<footer>" not in page


@pytest.mark.parametrize("language", ["en", "de", "fr", "es"])
@pytest.mark.parametrize("kind", MailKind)
def test_a_mail_leads_to_the_platform_once_and_ends_with_who_runs_it(kind, language):
    mail = write(kind, language, app_url=APP, imprint=IMPRINT)
    assert mail.text.splitlines().count(APP) == 1
    assert mail.text.endswith(f"\n{IMPRINT}\n")
    assert mail.html.count(f'href="{APP}"') == 1
    assert "Ann &amp; Jo&#39;s School, 1 Mill Road" in mail.html
    assert (f"{FACTS['link']}</a>" in mail.html) == (FACTS["link"] in mail.text)
    plain = write(kind, language)
    assert len(plain.text.split("\n\n")) == len(re.split(r"\n\n+", plain.text))
    assert plain.html.count("href=") == 2 * plain.text.count(FACTS["link"])


def test_own_templates_of_an_earlier_release_go_on_working(tmp_path):
    (tmp_path / "en/mail").mkdir(parents=True)
    (tmp_path / "en/mail/invitation.txt").write_text("Hello\n\nChoose:\n{{ link }}\n")
    (tmp_path / "mail.html").write_text("{{ paragraphs | join }}{{ words.automatic }}")
    (tmp_path / "base.html").write_text("<i>{{ site }}</i>{% block main %}{% endblock %}")
    settings = load({"TEMPLATES_DIR": str(tmp_path)})
    own = Templates(settings.templates_dir, "en")
    mail = own.mail("invitation", "en", **FACTS, app_url=APP, imprint=IMPRINT)
    assert mail.text.endswith(f" by school.example.\n{APP}\n{IMPRINT}\n")
