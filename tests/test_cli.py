"""Commands for schedulers and operators."""

from helpers import execute, on_both, rows
from sqlalchemy import text

from database import schema
from models import DeniedSession, UserSession


@on_both
def test_prune_removes_what_is_spent_and_nothing_else(app, client, auth, clock, run, log_in):
    client.post("/api/auth/logout", headers=auth.headers)
    log_in(auth.user)
    left = (UserSession, DeniedSession)
    spent = "sessions: {} removed\ndenylist: {} removed\ncounters: 0 removed\n"
    spent += "pending_emails: 0 removed\nsecond_factors: 0 removed\ndeletions: 0 removed\n"
    spent += "events: 0 removed\n"
    spent += "second_factors: 0 sealed with the newest key\n"
    for time, removed in (({}, (0, 0)), ({"hours": 49}, (0, 1)), ({"days": 28}, (1, 0))):
        assert [len(rows(app, model)) for model in left] != [0, 0]
        clock.move(**time)
        assert run("prune") == (spent.format(*removed), 0)
    assert [len(rows(app, model)) for model in left] == [0, 0]


@on_both
def test_upgrade_leaves_a_newer_schema_to_the_release_that_made_it(app, run):
    pretend = text("UPDATE alembic_version SET version_num = :revision")
    execute(app, pretend.bindparams(revision="9999"))
    try:
        output, code = run("db", "upgrade")
    finally:
        execute(app, pretend.bindparams(revision=schema.NEWEST))
    assert (code, "Warning: the schema (9999) is newer than" in output) == (0, True)
