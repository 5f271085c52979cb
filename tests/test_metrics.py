"""What monitoring reads at /metrics."""

import re
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
    on_one_database,
    register,
    statements_of,
    success,
)
from real_service import ROOT
from sqlalchemy import delete, insert

from database import SCHEMA_REVISION
from models import Counter, DeniedSession
from web.openapi import VERSION

LINE = re.compile(r'accounts_[a-z_]+(?:\{version="[^"]+",schema="[^"]+"\})? \d+')


@pytest.fixture
def scrape(client, make_key):
    """Read the metrics as Prometheus does; return the values by name."""
    key = make_key("metrics:read")

    def scrape():
        response = client.get("/metrics", headers=bearer(key))
        assert response.status_code == 200
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        lines = response.text.split("\n")
        assert lines.pop() == ""
        kinds = dict(line.split()[2:] for line in lines[::2])
        assert all(line.startswith("# TYPE accounts_") for line in lines[::2])
        assert all(LINE.fullmatch(line) for line in lines[1::2])
        values = {re.split(r"[{ ]", line)[0]: line for line in lines[1::2]}
        assert kinds.keys() == values.keys()
        assert {name for name, kind in kinds.items() if kind == "counter"} == {
            "accounts_changes_total"
        }
        info = f'accounts_info{{version="{VERSION}",schema="{SCHEMA_REVISION}"}} 1'
        assert values.pop("accounts_info") == info
        return {
            name.removeprefix("accounts_"): int(line.split()[1]) for name, line in values.items()
        }

    return scrape


def test_figures_are_what_the_database_knows(app, client, scrape, make_user, clock):
    nothing = {"mails_waiting": 0, "mails_oldest_seconds": 0, "sessions": 0, "changes_total": 0}
    nothing |= {"pruning_late_seconds": 0}
    assert scrape() == nothing
    user = make_user()
    success(login(client, user))
    success(forgot(client, user.email))
    clock.move(seconds=90)
    success(register(client), 201)
    assert scrape() == nothing | {
        **{"mails_waiting": 2, "mails_oldest_seconds": 90},
        **{"sessions": 1, "changes_total": 1},
    }
    now = clock.utcnow()
    late, later = now - timedelta(seconds=601), now + timedelta(days=9)
    for model, key in ((Counter, "key"), (DeniedSession, "session_id")):
        hits = {"hits": 1} if model is Counter else {}
        row = {key: "late", "expires_at": late, **hits}
        execute(app, insert(model).values([row, {**row, key: "live", "expires_at": later}]))
        assert scrape()["pruning_late_seconds"] in (601, 602)
        execute(app, delete(model))
        assert scrape()["pruning_late_seconds"] == 0
    clock.move(days=31)
    assert scrape()["sessions"] == 0


@on_one_database
def test_errors_are_json_also_for_a_browser(client, auth):
    for headers, status, code in (({}, 401, "token_missing"), (auth.headers, 403, "forbidden")):
        response = client.get("/metrics", headers={**headers, "Accept": "text/html"})
        failure(response, status, code)


def test_three_statements_read_them(app, scrape):
    with statements_of(app) as sent:
        scrape()
    assert len([each for each in sent if each.lstrip().startswith("SELECT")]) == 3, sent


def test_alerts_are_about_metrics_that_there_are(scrape):
    rules = yaml.safe_load((ROOT / "deploy/alerts.yml").read_text())["groups"][0]["rules"]
    named = {name for rule in rules for name in re.findall(r"accounts_(\w+)", rule["expr"])}
    assert named == {"mails_oldest_seconds", "pruning_late_seconds"}
    assert named <= scrape().keys()


@on_one_database
def test_program_for_mtail_reads_the_lines_of_the_log(client):
    text = (ROOT / "deploy/accounts.mtail").read_text()
    (pattern,) = re.findall(r"^/(.+)/ {$", text, re.M)
    for path, route in (
        ("/api/certificates/x", "/api/certificates/<id:code>"),
        ("/own.css", """"/<any('own.css', 'logo.svg'):name>\""""),
        ("/x route=/y status=200 ms=1 user=z", "-"),
    ):
        log = Log()
        status = client.get(path).status_code
        (found,) = [found for line in log.lines() if (found := re.search(pattern, line))]
        assert found.group("method", "route", "status") == ("GET", route, str(status))
