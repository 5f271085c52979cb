"""The forms in which e-mail addresses and names are compared."""

import unicodedata


def fold(text: str) -> str:
    """Return the form of a text in which searches compare it, without differences of case."""
    # casefold can undo the normal form, and it keeps the two kinds of i that Turkish has.
    folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
    return folded.replace("i\u0307", "i").replace("\u0131", "i")


def search_key(username: str, email: str, first_name: str, last_name: str) -> str:
    """Return the text that a search for an account looks in. No match spans two of its lines."""
    return fold(f"{username}\n{email}\n{first_name} {last_name}")
