"""The OpenID providers that users sign in with, as OIDC_PROVIDERS lists them."""

from dataclasses import dataclass

from config import types
from config.tables import REQUIRED, setting


@dataclass(frozen=True, kw_only=True, repr=False)
class ProviderSettings:
    """The settings of one OpenID provider: `OIDC_SCHOOL_ISSUER` is the `issuer` of `school`."""

    name: str
    issuer: str = setting(types.issuer, REQUIRED)
    """URL of the provider `school`, exactly as it writes it."""
    client_id: str = setting(str, REQUIRED)
    """Name under which the provider knows this service."""
    client_secret: str = setting(str, REQUIRED)
    """The secret that belongs to that name."""
    label: str = setting(types.name, "")
    """What the button says. Unset: the name, with a capital."""
    domains: tuple[str, ...] = setting(types.several(types.registrable), ())
    """Domains for whose e-mail addresses this provider's word counts."""
    prompt: str = setting(types.one_of("select_account", "login", "none"), "select_account")
    """Whether the provider asks which account, or for the password; `none`: as it likes."""
