"""The benchmarks are started by hand; these tests keep them from breaking unseen."""

import json
import py_compile
import re
import shutil
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from types import SimpleNamespace

import pytest
from helpers import success

from bench import data, report, supply
from bench.load import Driver, pace
from bench.measure import Notes, Round
from bench.registry import BENCH, SUBJECTS, gunicorn_settings
from bench.servers import Failed
from config import THREADS

USERS = 10


@pytest.fixture
def filled(app, monkeypatch):
    """The test's database, filled as the benchmarks fill theirs."""
    url = app.config["SQLALCHEMY_DATABASE_URI"]
    monkeypatch.setattr(data, "_codec", app.extensions["tokens"])
    data.fill(url, USERS, rounds=4, spent=5)
    return data.callers(url, USERS)


def test_the_users_of_a_benchmark_can_do_all_that_is_measured(filled, client):
    assert {caller.username for caller in filled} == {data.username(n) for n in range(USERS)}
    lines = supply.of_service(filled, filled)
    for operation, call in SUBJECTS["service"].calls.items():
        (line,) = lines.take(operation, 1)
        if call.send == "token":
            response = client.get(call.path, headers={"Authorization": f"Bearer {line}"})
        else:
            body = call.before + line + call.after if call.send == "refresh" else line
            response = client.post(call.path, json=json.loads(body))
        success(response, call.status)
        # Lua's patterns are regular expressions here, but for the sign before a class.
        assert re.search(call.pattern.replace("%d", r"\d"), response.text), operation


def test_what_works_only_once_is_never_sent_twice(filled):
    lines = supply.of_service(filled, filled)
    for operation in ("refresh", "register"):
        assert not set(lines.take(operation, 3)) & set(lines.take(operation, 3))
    others = islice(supply.of_service(filled, filled).registrations, 3)
    assert not set(others) & set(lines.take("register", 3))


def test_the_other_subjects_get_the_same_settings_of_gunicorn():
    settings = json.loads(gunicorn_settings())
    assert (settings["worker_class"], settings["workers"]) == ("gthread", 2)
    assert settings["threads"] == THREADS


def test_every_subject_compiles(tmp_path):
    for path in BENCH.glob("**/*.py"):
        if ".venv-others" not in path.parts:
            py_compile.compile(str(path), cfile=str(tmp_path / "compiled"), doraise=True)


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is not installed")
@pytest.mark.parametrize("right", [True, False])
def test_one_wrong_answer_fails_the_subject(tmp_path, right):
    answers = 0

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self):
            nonlocal answers
            answers += 1
            name = "user0000001" if right or answers != 10 else "somebody else"
            body = f'{{"username":"{name}"}}'.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever).start()
        subject = SimpleNamespace(subject=SUBJECTS["thin"], port=server.server_port, failed=Failed)
        try:
            driver = Driver(subject, "verify", ["a", "b"], tmp_path, seconds=1, connections=2)
            if right:
                assert driver.finish().rate > 10
            else:
                with pytest.raises(Failed, match=r"1 wrong answers.*\n.*somebody else"):
                    driver.finish()
        finally:
            server.shutdown()


def test_the_pace_of_pairs_is_not_falsified_by_the_ends():
    assert pace([0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]) == pytest.approx(2, rel=0.1)
    assert pace([1.0]) == 0


def test_the_tables_tell_what_was_reached():
    notes = Notes("sqlite")
    for title, rate in (("thin floor", 100.0), ("this service", 90.0)):
        notes.note("verify", title, Round(rate=rate, median=1.0, p99=2.0, cpu=1 / rate))
        notes.note("profile", title, Round(rate=200 - rate, median=1.0, p99=2.0, cpu=1 / rate))
    notes.note("profile", "thin floor", Round(rate=200.0, median=1.0, p99=2.0, cpu=1.0))
    notes.note("profile", "this service", Round(rate=100.0, median=1.0, p99=2.0, cpu=1.0))
    assert "| verify | this service | 90 | 1 | 2 | 0.0111 | 0.90 |" in report.main_table(notes)
    reached = report.targets(notes)
    assert "| verify: rate ÷ thin floor | sqlite | 0.90 | ≥ 0.85 | yes |" in reached
