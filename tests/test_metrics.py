"""What monitoring reads at /metrics."""

import re
import shutil
import subprocess
from datetime import timedelta

import pytest
import yaml
from helpers import (
    Log,
    bearer,
    execute,
    failure,
    forgot,
    login,
    on_both,
    register,
    statements_of,
    success,
)
from real_service import ROOT
from sqlalchemy import delete, insert

from core import clock as core_clock
from database import schema, transaction
from models import Counter, DeniedSession
from services import outbox
from web.openapi import VERSION


@pytest.fixture
def scrape(client, make_key):
    """Read the metrics as Prometheus does; return the values by name."""
    key = make_key("metrics:read")

    def scrape():
        response = client.get("/metrics", headers=bearer(key))
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        form = r"# HELP accounts_\w+ .+\.\n"
        form += r"# TYPE (accounts_\w+) (gauge|counter)\n(accounts_\w+)({.+})? (\d+)\n"
        assert re.fullmatch(f"({form})+", response.text)
        found = re.findall(form, response.text)
        assert all(kind == ("counter" if "_total" in name else "gauge") for name, kind, *_ in found)
        assert all(name == same for name, _, same, *_ in found)
        info = f'{{version="{VERSION}",schema="{schema.NEWEST}"}}'
        assert [labels for *_, labels, _ in found] == [info, *[""] * 6]
        assert found[0][-1] == "1"  # one can multiply by it
        return {name.removeprefix("accounts_"): int(value) for name, *_, value in found[1:]}

    return scrape


@on_both
def test_figures_are_what_the_database_knows(app, client, scrape, make_user, clock):
    nothing = {"mails_waiting": 0, "mails_oldest_seconds": 0, "sessions": 0, "changes_total": 0}
    nothing |= {"mails_dropped_total": 0, "pruning_late_seconds": 0}
    assert scrape() == nothing
    user = make_user()
    success(login(client, user))
    success(forgot(client, user.email))
    clock.move(seconds=90)
    success(register(client), 201)
    figures = {"mails_waiting": 2, "mails_oldest_seconds": 90, "sessions": 1, "changes_total": 1}
    with statements_of(app) as sent:
        assert scrape() == nothing | figures
    assert len([each for each in sent if "SELECT" in each]) == 3  # with the guard's
    assert not any("count(sessions." in each for each in sent)  # which reads all rows
    now = core_clock.utcnow()
    for model, key in ((Counter, "key"), (DeniedSession, "session_id")):
        late = {key: "late", "expires_at": now - timedelta(seconds=601)}
        rows = [late, {key: "live", "expires_at": now + timedelta(days=9)}]
        hits = {"hits": 1} if model is Counter else {}
        execute(app, insert(model).values([row | hits for row in rows]))
        assert scrape()["pruning_late_seconds"] in (601, 602)
        execute(app, delete(model))
    clock.move(days=31)
    assert scrape()["sessions"] == 0


def test_a_mail_that_is_dropped_is_counted_and_hides_no_counter_that_is_late(app, scrape, clock):
    for number in (1, 2):
        with app.app_context():
            with transaction():
                outbox.queue(outbox.MailKind.PASSWORD_CHANGED, "two@example.org, a@example.org")
            outbox.deliver_due()
        clock.move(days=1000)
        figures = scrape()
        assert (figures["mails_dropped_total"], figures["pruning_late_seconds"]) == (number, 0)
    late = {"key": "late", "hits": 1, "expires_at": core_clock.utcnow() - timedelta(seconds=601)}
    execute(app, insert(Counter).values(**late))
    assert scrape()["pruning_late_seconds"] in (601, 602)


def test_errors_are_json_also_for_a_browser(client, auth):
    for headers, status, code in (({}, 401, "token_missing"), (auth.headers, 403, "forbidden")):
        response = client.get("/metrics", headers={**headers, "Accept": "text/html"})
        failure(response, status, code)


@pytest.mark.skipif(not shutil.which("mtail"), reason="needs mtail")
def test_mtail_counts_durations_in_seconds(client, tmp_path):
    log, lines = Log(), tmp_path / "lines"
    client.get("/healthz")
    lines.write_text(re.sub(r" ms=\S+", " ms=1250.3", "\n".join(log.lines()) + "\n"))
    options = [f"--logs={lines}", "--one_shot", "--one_shot_format=prometheus"]
    counted = subprocess.check_output(["mtail", f"--progs={ROOT}/deploy", *options], text=True)
    assert re.search(r"\naccounts_request_duration_seconds_sum.* 1.2503\n", counted)


def test_examples_name_what_there_is(client, scrape):
    rules = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"accounts_(\w+)", rule["expr"])}
    ours = {"mails_oldest_seconds", "mails_dropped_total", "pruning_late_seconds"}
    counted = (ROOT / "deploy/accounts.mtail").read_text()
    assert named & scrape().keys() == ours
    assert all(f"counter accounts_{name} by" in counted for name in named - ours)
    (pattern,) = re.findall(r"^/(.+)/ {$", (ROOT / "deploy/accounts.mtail").read_text(), re.M)
    for path, route in (
        ("/api/certificates/x", "/api/certificates/<id:code>"),
        ("/own.css", """"/<any('own.css', 'logo.svg', 'logo-dark.svg'):name>\""""),
        ("/x route=/y status=200 ms=1 user=z", "-"),
    ):
        # A word that HTTP does not name is no series of its own.
        for method, counted in (("GET", "GET"), ("MADEUP", "-")):
            log = Log()
            status = client.open(path, method=method).status_code
            (found,) = [found for line in log.lines() if (found := re.search(pattern, line))]
            shown = route if method == "GET" else "-"
            assert found.group("method", "route", "status") == (counted, shown, str(status))
