"""Where the service leads its users: to the platform, and to who runs it."""

import re
from datetime import timedelta

import pytest

from config import ConfigError, load
from core import clock
from core.templates import Templates
from services.letters import MailKind

APP, IMPRINT = "https://app.school.example/start?from=accounts", "Ann & Jo's School, 1 Mill Road"
FACTS = {"site": "school.example", "link": "https://school.example/page#token=a.b_c", "code": "A-B"}
FACTS |= {
    "life": timedelta(days=1),
    "happened_at": clock.utcnow(),
    "registration_open": True,
    "event": "code_used",
    "left": 9,
    "unlinked": True,
}


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
