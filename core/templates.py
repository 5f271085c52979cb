"""The words of the e-mails and pages in every language; an operator's own files come first.

A language is a folder of templates that is named like its tag. A file that a language does not have
is looked up in the more general one, then in the default language, then in English.
"""

import functools
import glob
import re
from collections.abc import Iterator, Set
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import jinja2
from jinja2 import Environment, Template, meta

from core.locales import ranges, standard_language

SHIPPED = Path(__file__).parent.parent / "templates"
ENGLISH = "en"
# What pages are made of; the other HTML templates are pages.
_PART = re.compile(
    r"(base|token_page|new_link|mail|app|fields|sign_in|(account|admin)_[a-z_]+)\.html"
)
# What the pages use of an operator's folder besides templates.
OWN_LOOK = frozenset({"own.css", "logo.svg"})
# The words that scripts say; every page has those of its files for its scripts.
_SAID = ("say_", "error_", "field_")
_STATES = ("valid", "expired", "revoked")
_SWITCHES = ("account_pages", "teachers", "is_limited")
_SIZES = {"day": 1440, "hour": 60, "minute": 1}  # minutes
_SAMPLE: dict[str, Any] = {
    **dict.fromkeys(("site", "app_url", "imprint", "link", "code", "swagger_version"), "x"),
    "happened_at": datetime(2026, 1, 1, tzinfo=UTC),
    "registration_open": True,
    "event": "added",
    "left": "9",
    **dict.fromkeys(("holder", "course_name", "credential_url", "verify_url"), "x"),
    **dict.fromkeys(("issued_at", "expires_at", "checked_at"), datetime(2026, 1, 1, tzinfo=UTC)),
}


class Mail(NamedTuple):
    """The content of an e-mail."""

    subject: str
    text: str
    html: str


class Templates:
    """The templates of one application; read once, at the start."""

    def __init__(self, folder: Path | None, default: str) -> None:
        self._sources = read(SHIPPED) | (read(folder) if folder else {})
        self._default = default
        self._environment = Environment(
            loader=jinja2.DictLoader(self._sources),
            autoescape=jinja2.select_autoescape(["html"]),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.languages = {name.partition("/")[0] for name in self._sources if "/" in name}

    def mail(
        self,
        kind: str,
        language: str,
        *,
        site: str,
        app_url: str = "",
        imprint: str = "",
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

    def page(self, name: str, language: str, **facts: object) -> tuple[str, str]:
        """Return a page, and the language that it is in. A datetime is written as a day in words.

        `root` is the way up from the page's URL to that of the service. A page may have a file of
        words beside `pages.txt`, such as `account.txt`. Its scripts say the `texts`.
        """
        facts = {"app_url": "", "imprint": "", "root": "", **facts}
        facts = {"account_pages": False, "teachers": False, **facts}
        facts |= {"logo": self.own_look("logo.svg"), "own_css": self.own_look("own.css")}
        facts["languages"] = [(tag, tag) for tag in sorted(self.languages)]
        words: dict[str, object] = {}
        tag = language
        for file in (f"{name}.txt", "pages.txt"):
            if f"{ENGLISH}/{file}" in self._sources:
                tag, template = self._look_up(file, tag)
                words = vars(template.make_module(facts)) | words
        dates: Any = self._look_up("words.txt", tag)[1].make_module({"site": facts["site"]})
        days = {key: value for key, value in facts.items() if isinstance(value, datetime)}
        facts |= {key: str(dates.day(value)).strip() for key, value in days.items()}
        texts = {key: text for key, text in words.items() if key.startswith(_SAID)}
        facts |= {"language": tag, "words": SimpleNamespace(**words), "texts": texts}
        html = self._environment.get_template(f"{name}.html").render(facts)
        return tag, re.sub(r"\n\s+", "\n", html)  # without what only indents the template

    def own_look(self, name: str) -> str | None:
        """Return the operator's own style sheet or logo, if there is one."""
        return self._sources.get(name) if name in OWN_LOOK else None

    def _look_up(self, name: str, language: str) -> tuple[str, Template]:
        tags = (*ranges(language), *ranges(self._default), ENGLISH)
        tag = next(tag for tag in tags if f"{tag}/{name}" in self._sources)
        return tag, self._environment.get_template(f"{tag}/{name}")

    def failures(self) -> Iterator[str]:
        """Write every e-mail and page in every language; yield a sentence for each that fails."""
        for language in sorted(self.languages):
            for name, shown in _facts_of_ours().items():
                try:
                    self._try(name, shown, language)
                except jinja2.TemplateSyntaxError as error:
                    yield f"has a mistake in line {error.lineno} of {error.name}: {error}"
                except Exception as error:  # templates can raise anything
                    file = name.removeprefix(f"{ENGLISH}/")
                    yield f"cannot write {file} in {language}: {error}"

    def _try(self, name: str, shown: Set[str], language: str) -> None:
        """Write an e-mail or a page with the facts that our own shows."""
        # Each unit, and each state of a certificate, has words of its own.
        for size, status in zip(_SIZES.values(), _STATES, strict=True):
            sample = {**_SAMPLE, "life": timedelta(minutes=size), "status": status}
            sample |= dict.fromkeys(_SWITCHES, status == "valid")  # once on, then off
            facts = {fact: sample[fact] for fact in shown & sample.keys()}
            if name.endswith(".html"):
                self.page(Path(name).stem, language, min_length=8, **facts)
            else:
                self.mail(Path(name).stem, language, **facts)


@functools.cache
def _facts_of_ours() -> dict[str, Set[str]]:
    """Return the facts that each of our e-mails and pages shows, by its file's name."""
    parse = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).parse
    return {
        name: meta.find_undeclared_variables(parse(text))
        | {"site", "app_url", "imprint", *_SWITCHES}  # where they are set
        for name, text in read(SHIPPED).items()
        if name.startswith(f"{ENGLISH}/mail/")
        or (name.endswith(".html") and not _PART.fullmatch(name))
    }


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


def problems(folder: Path) -> list[str]:
    """Return what is wrong with an operator's templates, a sentence for each problem."""
    try:
        own = read(folder)
    except ValueError as error:
        return [str(error)]
    if not own:
        return ["must be a folder of UTF-8 texts that the service can read"]
    ours = read(SHIPPED)
    unknown = [
        f"has a file whose name is none of ours: {name}"
        for name in own
        for tag, _, file in [name.partition("/")]
        if name not in ours.keys() | OWN_LOOK
        and not (f"{ENGLISH}/{file}" in ours and standard_language(tag) == tag)
    ]
    # A mistake in a file that others share is found once for each of them.
    return [*unknown, *dict.fromkeys(Templates(folder, ENGLISH).failures())]


def _in_units(life: timedelta) -> tuple[int, str]:
    minutes = int(life.total_seconds()) // 60
    unit = next(unit for unit, size in _SIZES.items() if minutes % size == 0)
    return minutes // _SIZES[unit], unit
