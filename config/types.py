"""The types of settings. Their ValueErrors continue the name of the setting, without its value."""

import re
import socket
from base64 import b64decode
from collections.abc import Callable
from contextlib import suppress
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.serialization import load_der_private_key
from jwt import InvalidKeyError
from jwt.algorithms import HMACAlgorithm
from sqlalchemy.engine import URL, make_url

from core import breaches, locales, look, templates
from core.addresses import parse_domain
from core.smtp import MailServer

MIN_SECRET_BYTES = 32
_NAME = re.compile("[a-z][a-z0-9]{0,19}")
RSA_BITS = range(2048, 4097)
EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 - all network interfaces, in IPv4 and IPv6
_LOOPBACK = ("127.0.0.1", "::1", "localhost")
# How placeholders in templates and tutorials begin, in lower case and without signs.
PLACEHOLDERS = ("changeme", "changethis", "replaceme", "replacethis", "yoursecretkey")
MAIL_PORTS = {"smtp": 587, "smtps": 465}
# `db1:5432,db2:5432` or `%2Frun%2Fpostgresql` where a host stands, which SQLAlchemy cannot read.
_ONLY_LIBPQ = re.compile(r"postgres[a-z+]*://([^/?@]*@)?[^/?@]*[,%][^/?@]*([/?][^@]*)?$")
_HMAC = HMACAlgorithm(HMACAlgorithm.SHA256)


def switch(raw: str) -> bool:
    on, off = ("1", "true", "yes", "on"), ("0", "false", "no", "off")
    if raw.lower() not in on + off:
        raise ValueError("must be 1 or 0")
    return raw.lower() in on


def whole(low: int, high: int) -> Callable[[str], int]:
    def parse(raw: str) -> int:
        if not re.fullmatch(r"[0-9]{1,10}", raw) or not low <= int(raw) <= high:
            raise ValueError(f"must be a whole number from {low} to {high}")
        return int(raw)

    return parse


def _parts(raw: str) -> list[str]:
    return [part.strip() for part in raw.split(",") if part.strip()]


def several(parse: Callable[[str], str]) -> Callable[[str], tuple[str, ...]]:
    """Return how to read a list, comma separated, which keeps each part once."""
    return lambda raw: tuple(dict.fromkeys(map(parse, _parts(raw))))


def one_of(*choices: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        for choice in choices:
            if raw.lower() == choice.lower():
                return choice
        raise ValueError(f"must be one of {', '.join(choices)}")

    return parse


def database_url(raw: str) -> URL:
    try:
        url = _from_libpq(raw) if _ONLY_LIBPQ.match(raw) else make_url(raw)
        if not unquote(raw).isprintable():
            raise ValueError("a control character")
    except Exception:  # of SQLAlchemy, or of the driver, whose words may repeat the password
        raise ValueError("must be a URL such as postgresql://user:password@host/name") from None
    if url.drivername in ("postgres", "postgresql", "postgresql+psycopg"):
        if raw.count("@") > 1:  # messages would show what follows the first as the host
            raise ValueError("has a second @: write %40 for one in the user or the password")
        return _postgres(url.set(drivername="postgresql+psycopg"))
    # Each worker would have its own database in memory; an option can ask for one too.
    memory = url.database in (None, "", ":memory:") or (url.database or "").startswith("file:")
    # A file's name ends at a ?, and SQLite would open, or make, another one.
    if url.drivername in ("sqlite", "sqlite+pysqlite") and not (memory or url.host or "?" in raw):
        return url
    raise ValueError(
        "must begin with postgresql:// or postgres://, or name a file: sqlite:////path, without ?"
    )


def _from_libpq(raw: str) -> URL:
    driver = make_url("postgresql+psycopg://").get_dialect().import_dbapi()
    found = driver.conninfo.conninfo_to_dict(raw.replace("+psycopg://", "://", 1))
    user, password, name = (found.pop(key, None) for key in ("user", "password", "dbname"))
    return URL.create("postgresql", user, password, database=name, query=found)


def _postgres(url: URL) -> URL:
    dialect = url.get_dialect()
    driver = dialect.import_dbapi()
    known = {option.keyword.decode() for option in driver.pq.Conninfo.get_defaults()}
    if unknown := sorted(url.query.keys() - known):
        raise ValueError(f"has an option that Postgres does not know: {', '.join(unknown)}")
    try:
        arguments = dialect().create_connect_args(url)[1]
        driver.conninfo.make_conninfo(**arguments)
        for host in str(arguments.get("host", "")).lower().split(","):
            if host and not host.startswith("/"):  # the folder of a socket
                _check_host(host)
        ports = [int(port) for port in str(arguments.get("port", "")).split(",") if port]
    except Exception:  # the driver's own message may repeat the password
        raise ValueError("has a part that Postgres does not know") from None
    if url.port == 0 or not all(1 <= port <= 65535 for port in ports):
        raise ValueError("has a port that is not from 1 to 65535")
    return url


def secret(raw: str) -> str:
    if len(raw.encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"must have {MIN_SECRET_BYTES} bytes or more")
    # Everybody who has read the same template could sign tokens.
    if re.sub(r"[\W_]", "", raw).lower().startswith(PLACEHOLDERS):
        raise ValueError("is a placeholder; it must be a random text of your own")
    try:
        _HMAC.prepare_key(raw)
    except InvalidKeyError:  # PyJWT refuses to sign with what looks like a public key
        raise ValueError("looks like a public key; it must be a random text of your own") from None
    return raw


def _check_host(host: str) -> None:
    if ":" in host:
        IPv6Address(host)
    elif not re.fullmatch(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*\.?", host):
        raise ValueError("no host")


def _split_url(raw: str, *schemes: str) -> SplitResult:
    parts = urlsplit(raw)
    _check_host(parts.hostname or "")
    if parts.scheme not in schemes or parts.port == 0 or parts.netloc.endswith(":"):
        raise ValueError("another scheme, or no port")
    return parts


def host(raw: str) -> str:
    with suppress(ValueError):
        return str(ip_address(raw))
    # A system may read a name of digits and dots as an IP, such as 0 for all of its own.
    if not re.fullmatch(r"[\w.-]*[a-z_][\w-]*", raw, re.A | re.I):
        raise ValueError("must be an IP or a host name, without port or brackets")
    return raw


def is_here(host: str) -> bool:
    """Return whether this machine can listen there."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError), socket.socket(family) as probe:  # another machine's, or no name
        probe.bind((host, 0))
        return True
    return False


def is_readable(url: str) -> bool:
    """Return whether others can read what goes there: http to another machine."""
    parts = urlsplit(url)
    return parts.scheme == "http" and parts.hostname not in _LOOPBACK


def web_url(raw: str) -> str:
    try:
        parts = _split_url(raw, "http", "https")
        # Only what RFC 3986 allows, because e-mails and pages show the URL.
        plain = re.fullmatch(r"[\w.~:/?\[\]@!$&'()*+,;=%-]+", raw, re.A)
        if parts.username is not None or not plain:
            raise ValueError("not a plain URL")
    except ValueError:
        raise ValueError("must be an http or https URL, in ASCII, without user or #") from None
    return parts.scheme + raw[len(parts.scheme) :]  # templates ask for the lower case


def base_url(raw: str) -> str:
    if "?" in web_url(raw):
        raise ValueError("must be an http or https URL without query or fragment")
    return raw.rstrip("/")


def range_service(raw: str) -> str:
    with suppress(ValueError):
        url = breaches.HIBP if raw == "hibp" else base_url(raw).removesuffix("/range")
        if not is_readable(url):
            return url
    raise ValueError("must be hibp, or an https URL without query")


def names(most: int) -> Callable[[str], tuple[str, ...]]:
    def parse(raw: str) -> tuple[str, ...]:
        found = _parts(raw)
        if len(found) > most or not all(map(_NAME.fullmatch, found)):
            raise ValueError(f"must be at most {most} names of a to z and 0 to 9, comma separated")
        if len(found) > len({*found}):
            raise ValueError("must not list a name twice")
        return tuple(found)

    return parse


def field_names(raw: str) -> tuple[str, ...]:
    names = _parts(raw)
    if len(names) > 20 or not all(re.fullmatch("[a-z][a-zA-Z0-9]{0,29}", name) for name in names):
        raise ValueError(
            "must be at most 20 names of letters and digits such as birthYear, comma separated"
        )
    if len(names) > len({name.lower() for name in names}):
        raise ValueError("must not list a name twice, nor two that differ in capitals alone")
    return tuple(names)


def choices(raw: str) -> tuple[str, ...]:
    found = tuple(dict.fromkeys(_parts(raw)))
    if len(found) > 50 or any(len(each) > 64 for each in found):
        raise ValueError("must be at most 50 texts of at most 64 characters, comma separated")
    return found


def issuer(raw: str) -> str:
    # Compared with what the provider writes, so not a letter of it may change.
    parts = urlsplit(raw)
    is_web = web_url(raw) == raw and "?" not in raw and len(raw) <= 300
    if not is_web or (parts.scheme == "http" and parts.hostname not in ("127.0.0.1", "localhost")):
        raise ValueError(
            "must be the provider's https URL as it writes it: at most 300 characters, no query"
        )
    if re.match(r"https://login\.microsoftonline\.com/(common|organizations|consumers)\b", raw):
        raise ValueError("must be the URL of one tenant: ID tokens of this one name other issuers")
    return raw


def redirect_uri(raw: str) -> str:
    # Compared byte for byte, so not a letter of it may change.
    names = {name for name, _ in parse_qsl(urlsplit(web_url(raw)).query, keep_blank_values=True)}
    if "*" in raw or names & {"code", "state", "iss", "error"}:  # an answer would have it twice
        raise ValueError("must have no *, and no code, state, iss or error in its query")
    return raw


def client_secret(raw: str) -> str:
    # Clients that do not encode it for a form, as they must, send the same.
    if not re.fullmatch(r"[\w.~-]{32,128}", raw, re.A):
        raise ValueError("must have 32 to 128 letters, digits, or signs among . _ ~ -")
    return raw


def rsa_keys(raw: str) -> tuple[RSAPrivateKey, ...]:
    keys = tuple(map(_rsa_key, _parts(raw)))
    if len(keys) > len({key.public_key().public_numbers() for key in keys}):
        raise ValueError("must not list a key twice")
    return keys


def _rsa_key(raw: str) -> RSAPrivateKey:
    with suppress(ValueError, TypeError, UnsupportedAlgorithm):
        key = load_der_private_key(b64decode(raw, validate=True), None)
        if isinstance(key, RSAPrivateKey) and key.key_size in RSA_BITS:
            return key
    raise ValueError("must be private RSA keys of 2048 to 4096 bits: DER in base64")


def origin(raw: str) -> str:
    origin = raw.rstrip("/").lower()
    try:
        parts = urlsplit(web_url(origin))
        if f"{parts.scheme}://{parts.netloc}" != origin:
            raise ValueError("more than an origin")
    except ValueError:
        raise ValueError(
            "must be origins such as https://app.example.org, comma separated"
        ) from None
    # Browsers omit the default port.
    return origin.removesuffix({"http": ":80", "https": ":443"}[parts.scheme])


def registrable(raw: str) -> str:
    try:
        return parse_domain(raw)
    except ValueError:
        raise ValueError(
            "must be domains such as school.example or *.school.example, comma separated"
        ) from None


def domain(raw: str) -> str:
    label = "[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
    if not re.fullmatch(rf"{label}(\.{label})*", raw.lower()):
        raise ValueError("must be a domain such as school.example, in ASCII")
    return raw.lower()


def is_within(host: str, domain: str) -> bool:
    """Return whether a host is this domain, or below it."""
    return host == domain or host.endswith(f".{domain}")


def is_ip(host: str) -> bool:
    return ":" in host or re.fullmatch(r"[0-9.]+", host) is not None


def mail_url(raw: str) -> MailServer | None:
    if raw.lower() == "console:":
        return None
    try:
        parts = _split_url(raw, *MAIL_PORTS)
        user = unquote(parts.username or "", errors="strict")
        password = unquote(parts.password or "", errors="strict")
        if bool(user) != bool(password) or parts.path not in ("", "/") or set("?# ") & set(raw):
            raise ValueError("half a login, or more than a server")
    except ValueError:
        raise ValueError("must be smtp://user:password@host:587, smtps://… or console:") from None
    # smtplib can send nothing else, and would only fail when the first e-mail is sent.
    if not re.fullmatch(r"[ -~]*", user + password):
        raise ValueError("must have a user and a password in printable ASCII")
    port = parts.port or MAIL_PORTS[parts.scheme]
    return MailServer(parts.hostname or "", port, parts.scheme == "smtps", user, password)


def name(raw: str, most: int = 64) -> str:
    if len(raw) > most or "://" in raw or not re.search(r"\w", raw):
        raise ValueError(f"must be a name of at most {most} characters, not a URL")
    return raw


def color(raw: str) -> str:
    if not re.fullmatch("#[0-9a-f]{6}", raw.lower()):
        raise ValueError(f"must be a colour such as {look.BLUE}")
    if look.contrast(raw, look.WHITE) < look.LEAST:
        raise ValueError(f"must be darker: its contrast with white must be {look.LEAST} or more")
    return raw.lower()


def line_or_url(raw: str) -> str:
    with suppress(ValueError):
        if len(raw) <= 200 and re.search(r"\w", raw):
            return web_url(raw) if re.match(r"\S+://", raw) else raw
    raise ValueError("must be a line of at most 200 characters, or an http, https or mailto URL")


def language(raw: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9]+(-[A-Za-z0-9]+)*", raw):
        raise ValueError("must be a language tag such as de or pt-BR")
    return raw


def time_zone(raw: str) -> str:
    if raw not in locales.time_zones():
        raise ValueError("must be an IANA time zone such as Europe/Berlin")
    return raw


def templates_dir(raw: str) -> Path:
    folder = Path(__file__).parent.parent / raw
    if problems := templates.problems(folder):
        raise ValueError(*problems)
    return folder


def netloc(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def local_url(host: str, port: int) -> str:
    """Return the URL, on this machine, of a service that listens on that host."""
    return "http://" + netloc("127.0.0.1" if host in EVERYWHERE else host, port)
