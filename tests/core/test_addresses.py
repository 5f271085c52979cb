"""E-mail addresses: those whose first part is plain are judged by their domain alone."""

import email_validator
from hypothesis import example, given
from hypothesis import strategies as st

from core.addresses import normalise_email

DOMAINS = ["example.org", "EXAMPLE.Org", "münchen.de", "x-.org", "localhost", ".org", "a..org"]
DOMAINS += ["a" * 63 + ".org", ".".join(["a" * 60] * 4) + ".org", "\u212a.org", "1.2.3.4", "a.b "]


@given(st.text("abZ09._-+' é@", max_size=70), st.sampled_from(DOMAINS))
@example("a" * 64, "example.org")
@example("a" * 65, "example.org")
def test_an_address_is_what_the_library_says(local, domain):
    try:
        raw = f"{local}@{domain}".strip()
        options = {"check_deliverability": False, "allow_smtputf8": False, "strict": True}
        expected = email_validator.validate_email(raw, **options).ascii_email.lower()
    except email_validator.EmailNotValidError:
        expected = None
    assert normalise_email(f" {local}@{domain}") == expected
