"""The applications that users sign in to with this service, as APPLICATIONS lists them."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from config import types
from config.tables import REQUIRED, setting


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
    label: str = setting(lambda raw: types.name(raw, 40), "")
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


def shared_secrets(
    applications: Sequence[ApplicationSettings], keys: Sequence[str]
) -> Iterator[str]:
    """Yield a sentence for each secret that another application has too, or that is a key."""
    uses = Counter((*keys, *(each.secret for each in applications)))
    for each in applications:
        if each.secret and uses[each.secret] > 1:
            yield f"{prefix_of(each.name)}SECRET must be a secret that nothing else has."


def warnings(applications: Sequence[ApplicationSettings]) -> Iterator[str]:
    """Yield a sentence for each setting whose URLs others can read on the way."""
    for each in applications:
        for name, urls in {"REDIRECT": each.redirect_uris, "LOGOUT": each.logout_uris}.items():
            if any(map(types.is_readable, urls)):
                yield f"{prefix_of(each.name)}{name}_URIS has a URL with http: others can read it."
