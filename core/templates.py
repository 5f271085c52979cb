"""The words of the e-mails and pages in every language; an operator's own files come first.

A language is a folder of templates that is named like its tag. A file that a language does not have
is looked up in the more general one, then in the default language, then in English.
"""

import glob
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from jinja2 import Environment, Template, meta

from core.locales import ranges, standard_language

SHIPPED = Path(__file__).parent.parent / "templates"
ENGLISH = "en"
_SHARED = frozenset({"layout.html", "new_link.html", "mail.html"})  # by other templates
_SIZES = {"day": 1440, "hour": 60, "minute": 1}  # minutes
_SAMPLE: dict[str, Any] = {
    **dict.fromkeys(("site", "link", "code", "swagger_version"), "x"),
    "happened_at": datetime(2026, 1, 1, tzinfo=UTC),
    "min_length": 8,
    "registration_open": True,
}


class Mail(NamedTuple):
    """The content of an e-mail."""

    subject: str
    text: str
    html: str


class Templates:
    """The templates of one application; read once, at the start."""

    def __init__(self, folder: Path | None, default: str) -> None:
        """Read our templates, and before them those in the operator's `folder`."""
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

    def mail(self, kind: str, language: str, *, site: str, **facts: object) -> Mail:
        """Return an e-mail in the language that the look-up finds for its user's.

        A timedelta and a datetime among the facts are written in words. The first line of the
        template is the subject. A paragraph that ends with the `link` is a button in the HTML.
        """
        tag, template = self._look_up(f"mail/{kind}.txt", language)
        words: Any = self._look_up("words.txt", tag)[1].make_module({"site": site})
        written = {"site": site, "link": None, "code": None, **facts}
        for name, value in facts.items():
            if isinstance(value, timedelta):
                written[name] = str(words.life(*_in_units(value))).strip()
            elif isinstance(value, datetime):
                written[name] = str(words.moment(value)).strip()
        subject, *lines = template.render(written).strip().splitlines()
        text = "\n".join(lines).strip()
        written |= {"language": tag, "subject": subject, "words": words}
        written["paragraphs"] = re.split(r"\n\s*\n", text)
        html = self._environment.get_template("mail.html").render(written)
        return Mail(subject, f"{text}\n\n{words.automatic}\n", html)

    def page(self, name: str, language: str, **facts: object) -> tuple[str, str]:
        """Return a page, and the language that it is in."""
        tag, template = self._look_up("pages.txt", language)
        facts |= {"language": tag, "words": template.make_module(facts)}
        return tag, self._environment.get_template(f"{name}.html").render(facts)

    def _look_up(self, name: str, language: str) -> tuple[str, Template]:
        tags = (*ranges(language), *ranges(self._default), ENGLISH)
        tag = next(tag for tag in tags if f"{tag}/{name}" in self._sources)
        return tag, self._environment.get_template(f"{tag}/{name}")

    def failures(self) -> Iterator[str]:
        """Write every e-mail and page in every language; yield a sentence for each that fails."""
        for language in sorted(self.languages):
            for name in self._sources:
                try:
                    if name.startswith(f"{ENGLISH}/mail/"):
                        for size in _SIZES.values():  # each unit has words of its own
                            life = timedelta(minutes=size)
                            self.mail(Path(name).stem, language, **_SAMPLE, life=life)
                    elif "/" not in name and name not in _SHARED:
                        self.page(Path(name).stem, language, **_SAMPLE)
                except Exception as error:  # templates can raise anything
                    file = name.removeprefix(f"{ENGLISH}/")
                    yield f"cannot write {file} in {language}: {error}"


def read(folder: Path) -> dict[str, str]:
    """Return the texts of all files below a folder by their paths, except hidden ones.

    Raises OSError or UnicodeDecodeError.
    """
    names = sorted(glob.glob("**", root_dir=folder, recursive=True))
    paths = {name: folder / name for name in names}
    return {name: path.read_text("utf-8-sig") for name, path in paths.items() if not path.is_dir()}


def problems(folder: Path) -> list[str]:
    """Return what is wrong with an operator's templates, a sentence for each problem."""
    try:
        own = read(folder)
    except (OSError, UnicodeDecodeError):
        own = {}
    if not own:
        return ["must be a folder of UTF-8 texts that the service can read"]
    ours = read(SHIPPED)
    found = [sentence for name in own for sentence in _problems_in(name, own, ours)]
    return found or list(Templates(folder, ENGLISH).failures())


def _problems_in(name: str, own: dict[str, str], ours: dict[str, str]) -> Iterator[str]:
    tag, _, file = name.partition("/")
    model = ours.get(name) or ours.get(f"{ENGLISH}/{file}")
    if model is None or (name not in ours and standard_language(tag) != tag):
        yield f"has a file whose name is none of ours: {name}"
        return
    try:
        used, references = _placeholders(own[name])
    except jinja2.TemplateSyntaxError as error:
        yield f"has a mistake in line {error.lineno} of {name}: {error.message}"
        return
    # An own look may show in one shared file what ours shows in another.
    models = [text for name, text in ours.items() if name.endswith(".html")]
    models = models if name in ours and name.endswith(".html") else [model]
    if unknown := used.difference(*(_placeholders(text)[0] for text in models)):
        yield f"has placeholders in {name} that it cannot have: {', '.join(sorted(unknown))}"
    if not references <= ours.keys():
        yield f"has a reference in {name} to a template that is none of ours"


def _placeholders(source: str) -> tuple[set[str], set[str | None]]:
    """Return the variables of a template, and the templates that it refers to."""
    tree = Environment(autoescape=True).parse(source)
    return meta.find_undeclared_variables(tree), set(meta.find_referenced_templates(tree))


def _in_units(life: timedelta) -> tuple[int, str]:
    minutes = int(life.total_seconds()) // 60
    unit = next(unit for unit, size in _SIZES.items() if minutes % size == 0)
    return minutes // _SIZES[unit], unit
