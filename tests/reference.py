"""`make reference`: docs/reference.md and `.env.example`, made from the declarations; and the sizes
in docs/design.md."""

import ast
import inspect
import itertools
import re
import textwrap
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any, TypeAlias, cast

import click
from flask import current_app
from sqlalchemy import make_url

import cli
import config
import errors
from app import create_app
from config.applications import ApplicationSettings
from config.custom_fields import CustomField
from config.providers import ProviderSettings
from core import audit, reasons
from database.columns import EpochSeconds, UTCDateTime
from extensions import Base, components
from services import outbox, users
from services.letters import MailKind
from web import openapi
from web.limits import GUESSES

PARTS = ("blueprints", "cli", "config", "core", "database", "services", "web")
Rows: TypeAlias = Iterator[tuple[object, ...]]


def files() -> dict[str, str]:
    """Return the text of each file that is made, by its path."""
    components().settings = config.Settings()  # limits show them, and those in use may differ
    chapters = (
        _chapter("Endpoints", "call, role, scope, limits, errors of its own", endpoints),
        _chapter("Limits", "at most, of these, of one, counts", limits),
        _chapter("Errors", "code, status, when, what the client does", kinds, errors.__doc__),
        _chapter("Reasons", "word, what is wrong", reasons.WORDS.items, reasons.__doc__),
        _chapter("Commands", "command or option, what", commands, cli.__doc__),
        _chapter("Settings", "name, default, allowed, what", settings, config.__doc__),
        _chapter("Events", "event, in the history, when", events, audit.__doc__),
        _chapter("Tables", "column, type, what", tables),
        _chapter("ASVS", "requirement, tests", requirements),
    )
    head = "# Reference\n\n`make reference` makes this file: change the code instead.\n"
    template = (
        "# Every setting with its default. Copy this file to .env and set what you need; the\n"
    )
    template += "# environment goes before that file. docs/reference.md says more.\n"
    for name, default, _, text in settings():
        template += f"\n# {text}\n#{name}={default}\n"
    made = {"docs/reference.md": head + "".join(chapters), ".env.example": template}
    return made | {"docs/design.md": design((config.ROOT / "docs/design.md").read_text())}


def _chapter(title: str, head: str, rows: Callable[[], Any], about: str | None = None) -> str:
    """Return a table below its text, by default the docstring of what yields the rows."""
    paragraphs = inspect.cleandoc(about or rows.__doc__ or "").split("\n\n")
    text = "\n\n".join(textwrap.fill(each, 100, break_on_hyphens=False) for each in paragraphs)
    names = head.split(", ")
    table = f"\n## {title}\n\n{text}\n\n"
    for row in (names, ["---"] * len(names), *rows()):
        cells = (" ".join(str(cell).split()).replace("|", "\\|") for cell in row)
        table += f"| {' | '.join(cells)} |\n"
    return table


def endpoints() -> Rows:
    """The role is the lowest that may call it; *teachers* are instructors, with
    `INSTRUCTOR_RIGHTS`. The scope lets service keys in. Besides its own errors, a call may be a 400
    `invalid_request`, 413, 415, 429, 500 or 503, and with a role a 401 or 403.
    """
    for _, path, call in sorted(openapi.declared(current_app), key=lambda found: found[1]):
        role = f"{call.role or 'nobody'}{', teachers' if call.for_teachers else ''}"
        codes = ", ".join(dict.fromkeys(kind.code for kind in call.errors))
        names = "; ".join(limit.name for limit in call.limits)
        yield f"{call.method} `{path}`", role, ", ".join(call.scopes), names, codes


def limits() -> Rows:
    """Each client IP (`ip`; of IPv6, the first 64 bits), account (the e-mail address or username
    that was typed, else the caller's address), new address, caller and session has a count of
    its own. A window begins with its first call. Beyond a limit the response is a 429; beyond one
    of mails to an address, it is the usual one and nothing is sent. The window of reset mails is an
    hour where `RESET_TOKEN_MINUTES` is longer.
    """
    calls = openapi.declared(current_app)
    for limit in dict.fromkeys(limit for *_, call in calls for limit in call.limits):
        of, counts = f"{limit.by.name}".lower(), "wrong guesses" if limit in GUESSES else "calls"
        yield limit.rate, limit.name, of, counts
    for kind, name in outbox.LIMITED.items():
        is_reset = kind is MailKind.PASSWORD_RESET
        window = "`RESET_TOKEN_MINUTES`" if is_reset else "hour"
        yield f"{outbox.MAX_MAILS} per {window}", name, "address", "mails"
    yield f"{outbox.MAX_BY_STAFF} per hour", outbox.BY_STAFF, "account", "mails"
    yield f"{users.MAX_RENAMES} per day", users.RENAMES, "account", "changes"


def kinds() -> Rows:
    for kind in errors.all_errors():
        when, _, answer = inspect.cleandoc(kind.__doc__ or "").partition("\n\n")
        yield f"`{kind.code}`", kind.status, when, answer


def commands() -> Rows:
    for context in _commands(click.Context(current_app.cli, info_name="flask")):
        usage = " ".join((context.command_path, *context.command.collect_usage_pieces(context)))
        yield f"**`{usage}`**", context.command.help
        options = (each.get_help_record(context) for each in context.command.params)
        for name, text in filter(None, options):
            yield f"`{name}`", text


def _commands(context: click.Context) -> Iterator[click.Context]:
    group = context.command
    if not isinstance(group, click.Group):
        yield context
        return
    for name, command in sorted(group.commands.items()):
        yield from _commands(click.Context(command, context, name))


def settings() -> Rows:
    tables = {"": config.Settings, "OIDC_SCHOOL_": ProviderSettings}
    tables |= {"APPLICATION_WIKI_": ApplicationSettings, "FIELD_GRADE_": CustomField}
    for prefix, kind in tables.items():
        meanings = _meanings(kind)
        for row in fields(kind):
            if "parse" not in row.metadata:
                continue
            bounds, default = "any text", row.default
            try:
                row.metadata["parse"]("?")
            except ValueError as error:
                bounds = str(error).split(" ", 2)[2]  # after "must be" or "must have"
            default = int(default) if isinstance(default, bool) else default
            default = "" if default in (None, ()) else default
            yield prefix + row.name.upper(), default, bounds, meanings[row.name]


def events() -> Rows:
    for name, event in audit.EVENTS.items():
        kept = "no" if event.kept is None else ", ".join(("yes", *event.kept))
        yield name, kept, event.when


def tables() -> Rows:
    """A *time* is `timestamptz` on Postgres; on SQLite it is text in UTC without a zone. *Seconds*
    are those since 1970-01-01, 00:00 UTC. Booleans are 0 and 1 on SQLite. `user_id` is the user;
    deleting a user deletes these rows. [queries.md](queries.md) has examples.
    """
    types: dict[object, str] = {UTCDateTime: "time", EpochSeconds: "seconds"}
    for model in Base.__subclasses__():
        yield f"**{model.__table__.name}**", "", (model.__doc__ or "").partition("\n\n")[0]
        meanings = _meanings(model)
        for column in model.__table__.columns:
            kind = types.get(type(column.type), str(column.type).lower())
            null = ", or NULL" if column.nullable else ""
            yield f"`{column.name}`", kind + null, meanings.get(column.name, "")


def _meanings(kind: type[object]) -> dict[str, str]:
    """Return the docstrings below the attributes of a class."""
    (parsed,) = ast.parse(inspect.getsource(kind)).body
    meanings = {}
    for pair in itertools.pairwise(cast("ast.ClassDef", parsed).body):
        match pair:
            case ast.AnnAssign(target=ast.Name(name)), ast.Expr(value=ast.Constant(text)):
                meanings[name] = " ".join(str(text).split())
    return meanings


def requirements() -> Rows:
    """Requirements of the OWASP Application Security Verification Standard 5.0.0 that are met, with
    tests that fail where one is not met any more. [security.md](security.md) has the others.
    """
    found = defaultdict(list)
    for path in sorted(config.ROOT.glob("tests/**/test_*.py")):
        body = ast.parse(path.read_text()).body
        for test in (node for node in body if isinstance(node, ast.FunctionDef)):
            for mark in test.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.asvs":
                    for number in mark.args:
                        found[ast.literal_eval(number)].append(test.name)
    for number in sorted(found, key=lambda number: [*map(int, number.split("."))]):
        yield number, ", ".join(found[number])


def design(text: str) -> str:
    """Return docs/design.md with the sizes of its three parts, each to fifty lines."""
    parts = re.findall(r"^- \*\*(\w+)\*\*, about [0-9,]+ lines: (.*?\.)$", text, re.M | re.S)
    files = {part: re.findall(r"`([\w/]+\.py)`", listed) for part, listed in parts}
    named = [name for names in files.values() for name in names]
    if len(named) > len({*named}):
        raise ValueError("a file stands twice")
    paths = (path.relative_to(config.ROOT) for path in config.ROOT.glob("**/*.py"))
    ours = {str(path) for path in paths if len(path.parts) == 1 or path.parts[0] in PARTS}
    files["Capabilities"] = [*ours - {*named}]
    for part, names in files.items():
        lines = sum(len((config.ROOT / name).read_text().splitlines()) for name in names)
        text = re.sub(
            rf"(\*\*{part}\*\*, about )[0-9,]+", rf"\g<1>{round(lines / 50) * 50:,}", text
        )
    return text


if __name__ == "__main__":
    # Its database is not opened; the embedded one would be made.
    app = create_app(
        config.Settings(database_url=make_url("sqlite:////nowhere"), secret_key="x" * 32)
    )
    with app.app_context():
        for name, content in files().items():
            (config.ROOT / name).write_text(content)
