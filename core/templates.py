"""The words of the e-mails and pages in every language; an operator's own files come first.

A language is a folder of templates that is named like its tag. A file that a language does not have
is looked up in the more general one, then in the default language, then in English.
"""

import glob
import itertools
import re
import traceback
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jinja2
from jinja2 import Template, meta, nodes
from jinja2.sandbox import SandboxedEnvironment
from markupsafe import Markup, escape

from core.locales import ranges, standard_language
from core.look import BLUE, look_of, shape

SHIPPED = Path(__file__).parent.parent / "templates"
ENGLISH = "en"
# What the pages use of an operator's folder besides templates.
OWN_LOOK = frozenset({"own.css", "logo.svg", "logo-dark.svg"})
# The words that scripts say; every page has those of its files for its scripts.
_SAID = ("say_", "error_", "field_")
_parse = SandboxedEnvironment().parse
_SIZES = {"day": 1440, "hour": 60, "minute": 1}  # minutes
# An example of each fact that mails state.
_SAMPLE: dict[str, Any] = {
    "link": "x",
    "code": "x",
    "happened_at": datetime(2026, 1, 1, tzinfo=UTC),
    "registration_open": True,
    "event": "added",
    "left": "9",
    "device": "Firefox, Windows",
    "ip_address": "203.0.113.9",
    "deleted_at": datetime(2026, 1, 31, tzinfo=UTC),
    "unlinked": True,
    "had_passkeys": True,
    **dict.fromkeys(("first_name", "last_name", "username"), "x"),
}


class Mail(NamedTuple):
    """The content of an e-mail."""

    subject: str
    text: str
    html: str


class Templates:
    """The templates of one application; read once, at the start."""

    def __init__(
        self,
        folder: Path | None,
        default: str,
        color: str = BLUE,
        *,
        compiled: jinja2.BytecodeCache | None = None,
    ) -> None:
        self._default = default
        self.look = look_of(color)
        self._sources = dict(_shipped())
        own = read(folder) if folder else {}
        self._sources |= {name: self._ours_before(name) + text for name, text in own.items()}
        self.languages = {name.partition("/")[0] for name in self._sources if "/" in name}
        self._environment = SandboxedEnvironment(
            # With the name a second time, tracebacks have it.
            loader=jinja2.FunctionLoader(lambda name: (self._sources[name], name, None)),
            autoescape=jinja2.select_autoescape(["html"]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            bytecode_cache=compiled,
        )
        self._environment.globals |= {
            "logo": (logo := self.own_look("logo.svg")),
            "logo_dark": self.own_look("logo-dark.svg"),
            "logo_width": round(36 * shape(logo or "")),
            "own_css": self.own_look("own.css"),
            "color": color,
            "static": f"static/{self.look.version}",
            "languages": [(tag, tag) for tag in sorted(self.languages)],
        }

    def mail(
        self,
        kind: str,
        language: str,
        *,
        site: str,
        app_url: str = "",
        imprint: str = "",
        contact: str = "",
        **facts: object,
    ) -> Mail:
        """Return an e-mail in the language that the look-up finds for its user's.

        A timedelta and a datetime among the facts are written in words. The first line of the
        template is the subject. A paragraph that ends with the `link` is a button in the HTML. The
        e-mail ends with who sent it, and with the `app_url` unless its text has that already.
        """
        tag, template = self._look_up(f"mail/{kind}.txt", language)
        words: Any = self._look_up("words.txt", tag)[1].make_module({"site": site})
        written = {"site": site, "app_url": app_url, "imprint": imprint, **facts}
        written["contact"] = _reached_at(contact) or str(words.contact)
        for name, value in facts.items():
            if isinstance(value, timedelta):
                written[name] = str(words.life(*_in_units(value))).strip()
            elif isinstance(value, datetime):
                written[name] = str(words.moment(value)).strip()
        subject, *lines = template.render(written).strip().splitlines()
        text = "\n".join(lines).strip()
        written = {"link": None, "code": None, **written, "words": words}
        written |= {"language": tag, "subject": subject, "paragraphs": re.split(r"\n\s*\n", text)}
        ends = [words.automatic, "" if app_url in lines else app_url, imprint]
        written["footer"] = footer = [str(line) for line in ends if line]
        html = self._environment.get_template("mail.html").render(written)
        return Mail(subject, "\n".join([text, "", *footer, ""]), html)

    def page(
        self, name: str, language: str, facts: Mapping[str, Any], **more: object
    ) -> tuple[str, str]:
        """Return a page, and the language that it is in.

        Each of the `facts` is a name in its template, `more` what only this page shows; a datetime
        is written as a day in words. A page may have a file of words, such as `account.txt`; then
        it has `app.txt` too. Its scripts say the `texts`.
        """
        words: dict[str, object] = {}
        tag = language
        known = {**facts, "contact": _reached_at(facts["contact"])}
        if not facts["contact"]:
            shared: Any = self._look_up("words.txt", tag)[1].make_module(known)
            known["contact"] = str(shared.contact)
        has_own = f"{ENGLISH}/{name}.txt" in self._sources
        for file in [f"{name}.txt", "app.txt", "pages.txt"] if has_own else ["pages.txt"]:
            tag, template = self._look_up(file, tag)
            words = vars(template.make_module(known)) | words
        dates: Any = self._look_up("words.txt", tag)[1].make_module(known)
        shown = known | {
            key: str(dates.day(value)).strip() if isinstance(value, datetime) else value
            for key, value in more.items()
        }
        shown["texts"] = {key: text for key, text in words.items() if key.startswith(_SAID)}
        if url := _url_of(facts["contact"]):
            contact = known["contact"]
            link = Markup('<a href="{}">{}</a>').format(url, contact)
            asking = {key: text for key, text in words.items() if contact in str(text)}
            for key, text in asking.items():
                words[key] = escape(text).replace(escape(contact), link)
        shown |= {"language": tag, "words": SimpleNamespace(**words)}
        html = self._environment.get_template(f"{name}.html").render(shown)
        return tag, re.sub(r"\n\s+", "\n", html)  # without what only indents the template

    def own_look(self, name: str) -> str | None:
        """Return the operator's own style sheet or logo, if there is one."""
        return self._sources.get(name) if name in OWN_LOOK else None

    def _ours_before(self, name: str) -> str:
        """Return our words if it is a file of words, because those that it lacks are ours."""
        language, _, file = name.partition("/")
        if file.startswith("mail/") or f"{ENGLISH}/{file}" not in self._sources:
            return ""
        return self._sources[f"{self._nearest(file, language)}/{file}"] + "\n"

    def _nearest(self, file: str, language: str) -> str:
        tags = (*ranges(language), *ranges(self._default), ENGLISH)
        return next(tag for tag in tags if f"{tag}/{file}" in self._sources)

    def _look_up(self, file: str, language: str) -> tuple[str, Template]:
        tag = self._nearest(file, language)
        return tag, self._environment.get_template(f"{tag}/{file}")


def read(folder: Path) -> dict[str, str]:
    """Return the texts of all files below a folder by their paths, except hidden ones.

    Raises ValueError, which names the first file that is no text.
    """
    texts = {}
    for name in sorted(glob.glob("**", root_dir=folder, recursive=True)):
        try:
            if not (folder / name).is_dir():
                texts[name] = (folder / name).read_text("utf-8-sig")
        except (OSError, UnicodeDecodeError):
            raise ValueError(f"has a file that cannot be read as UTF-8: {name}") from None
    return texts


@cache  # the settings are checked with them, before the application reads them
def _shipped() -> Mapping[str, str]:
    return read(SHIPPED)


def problems(folder: Path, *, compiled: jinja2.BytecodeCache | None = None) -> list[str]:
    """Return what is wrong with an operator's templates, a sentence for each file."""
    try:
        own = read(folder)
    except ValueError as error:
        return [str(error)]
    if not own:
        return ["must be a folder of UTF-8 texts that the service can read"]
    unlike = ((name, _unlike_ours(name, own)) for name in own.keys() - OWN_LOOK)
    found = {name: problem for name, problem in unlike if problem}
    # The files that were named already make mails fail too.
    found = dict(_failures(Templates(folder, ENGLISH, compiled=compiled), own)) | found
    return [found[name] for name in sorted(found)]


def _unlike_ours(name: str, own: Mapping[str, str]) -> str | None:
    """Return what is wrong with an operator's file in itself: its name, form or what it uses."""
    ours, (tag, _, file) = _shipped(), name.partition("/")
    like = name if name in ours or standard_language(tag) != tag else f"{ENGLISH}/{file}"
    if like not in ours:
        return f"has a file whose name is none of ours: {name}"
    try:
        tree = _parse(own[name])
        used = meta.find_undeclared_variables(tree)
    except jinja2.TemplateSyntaxError as error:
        return f"has a mistake in line {error.lineno} of {name}: {error.message}"
    used.update(filter(None, meta.find_referenced_templates(tree)))
    used |= {node.attr for node in tree.find_all(nodes.Getattr) if node.attr.startswith("_")}
    known = {node.name for node in _parse(ours[like]).find_all(nodes.Name)}
    # Blocks see what the file itself sets, which is undeclared there.
    known |= {node.name for node in tree.find_all(nodes.Name) if node.ctx == "store"}
    known |= {node.name for node in tree.find_all(nodes.Macro)}
    known |= {node.target for node in tree.find_all(nodes.Import)}
    used -= known | ours.keys() | own.keys() | {"site", "app_url", "imprint", "root", "contact"}
    return f"uses what ours does not, in {name}: {', '.join(sorted(used))}" if used else None


def _failures(templates: Templates, own: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Write each e-mail once, since one that fails later is lost; yield the files at fault."""
    mails = []
    for name, ours in _shipped().items():
        if name.startswith(f"{ENGLISH}/mail/"):
            used = meta.find_undeclared_variables(_parse(ours))
            # Each unit has its own words.
            for minutes in _SIZES.values() if "life" in used else [1]:
                sample = {**_SAMPLE, "life": timedelta(minutes=minutes)}
                facts = {fact: sample[fact] for fact in sample.keys() & used}
                mails.append((Path(name).stem, facts))
    for language, (kind, facts) in itertools.product(sorted(templates.languages), mails):
        try:
            templates.mail(kind, language, site="x", **facts)
        except Exception as error:  # templates can raise anything
            calls = [call.f_code.co_filename for call, _ in traceback.walk_tb(error.__traceback__)]
            tags = (*ranges(language), ENGLISH)
            files = [f"{tag}/{name}" for name in (f"mail/{kind}.txt", "words.txt") for tag in tags]
            file = next(name for name in (*reversed(calls), *files) if name in own)
            yield file, f"has a mistake in {file}: no {kind} in {language}, because {error}"


def _reached_at(contact: str) -> str:
    """Return whom to ask as people read it."""
    return contact.removeprefix("mailto:")


def _url_of(contact: str) -> str:
    """Return the URL of whom to ask; "" for a line that is none, and no e-mail address."""
    if re.match(r"(https?|mailto):", contact):
        return contact
    return f"mailto:{contact}" if re.fullmatch(r"[^\s@]+@[^\s@]+", contact) else ""


def _in_units(life: timedelta) -> tuple[int, str]:
    minutes = int(life.total_seconds()) // 60
    unit = next(unit for unit, size in _SIZES.items() if minutes % size == 0)
    return minutes // _SIZES[unit], unit
