"""The applications that users sign in to with this service, as APPLICATIONS lists them."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from config import types
from config.tables import REQUIRED, setting

if TYPE_CHECKING:
    from config import Settings


@dataclass(frozen=True, kw_only=True, repr=False)
class ApplicationSettings:
    """The settings of one application: `APPLICATION_WIKI_SECRET` is the `secret` of `wiki`."""

    name: str
    redirect_uris: tuple[str, ...] = setting(types.several(types.redirect_uri), REQUIRED)
    """Where the application `wiki` takes users back, letter for letter, comma separated. http is
    for loopback: codes are readable on the way.
    """
    secret: str = setting(types.client_secret, "")
    """What its server proves itself with, unlike any other secret. Unset: it runs in the browser,
    and must use PKCE.
    """
    label: str = setting(types.short_name, "")
    """What pages call it. Unset: the name, with a capital."""
    logout_uris: tuple[str, ...] = setting(types.several(types.redirect_uri), ())
    """Where a sign-out that began there may end, letter for letter, comma separated."""
    role: str = setting(types.one_of("student", "instructor", "admin"), "student")
    """Lowest role that may enter."""
    placeholder_email: bool = setting(types.switch, False)
    """1: who has no confirmed e-mail address gets `{user id}@users.invalid`, as a confirmed one."""


def prefix_of(name: str) -> str:
    """Return how the variables of an application begin."""
    return f"APPLICATION_{name.upper()}_"


def contradictions(settings: "Settings") -> Iterator[str]:
    """Yield a sentence for each rule that settings of applications break together."""
    if not settings.applications:
        return
    if not settings.applications_keys:
        yield "APPLICATIONS_KEYS is missing; with APPLICATIONS it is required."
    if not settings.account_pages:
        yield "APPLICATIONS needs ACCOUNT_PAGES=1."
    uses = Counter((*settings.secret_keys, *(each.secret for each in settings.applications)))
    for each in settings.applications:
        if each.secret and uses[each.secret] > 1:
            yield f"{prefix_of(each.name)}SECRET must be a secret that nothing else has."


def warnings(settings: "Settings") -> Iterator[str]:
    """Yield a sentence for each risk that settings of applications take."""
    if settings.applications and settings.registration == "open" and not settings.embedded:
        yield "REGISTRATION is open: whoever registers may enter the APPLICATIONS."
    for each in settings.applications:
        for name, urls in {"REDIRECT": each.redirect_uris, "LOGOUT": each.logout_uris}.items():
            if any(map(types.is_readable, urls)):
                yield f"{prefix_of(each.name)}{name}_URIS has a URL with http: others can read it."
