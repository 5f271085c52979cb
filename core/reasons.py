"""Why a field of a request is refused: a sentence for people and a word for programs."""

from typing import Literal, Self

_OfForm = Literal["required", "unknown", "type", "invalid"]
_OfBounds = Literal["too_short", "too_long", "too_small", "too_large", "future"]
_OfState = Literal["taken", "unconfirmed", "wrong"]
_OfPasswords = Literal["common", "personal", "sequence", "repeated", "breached"]
Word = Literal[_OfForm, _OfBounds, _OfState, _OfPasswords]
# What is wrong with the field, by words that are stable: clients translate them.
WORDS: dict[Word, str] = {
    "required": "It is missing.",
    "unknown": "There is no field of this name.",
    "type": "It has the wrong JSON type, such as `null`; in a URL: no number, `true` or `false`.",
    "invalid": "It has the wrong form, a forbidden character, or is none of the possible values.",
    "too_short": "The text has too few characters; for a required one, this may be none.",
    "too_long": "The text has too many characters.",
    "too_small": "The number is below its bounds.",
    "too_large": "The number is above its bounds.",
    "future": "The time is in the future, of something that has happened.",
    "taken": "Somebody else has it.",
    "unconfirmed": "After `taken`, of a username: nobody has confirmed the account's address or "
    "logged in to it.",
    "wrong": "It is not the current password, or not a code that is valid now.",
    "common": "The password is one of the most common, or similar to one.",
    "personal": "The password consists of the user's own names or address, or the site's name.",
    "sequence": "The password follows the alphabet, the digits or the keyboard.",
    "repeated": "The password repeats the same characters.",
    "breached": "The password is in a known breach; see `BREACHED_PASSWORDS`.",
}


class Reason(str):
    """A sentence that carries its word."""

    word: Word

    def __new__(cls, word: Word, sentence: str) -> Self:
        reason = super().__new__(cls, sentence)
        reason.word = word
        return reason

    def format(self, *arguments: object, **values: object) -> "Reason":
        """Return the sentence with its placeholders filled in. marshmallow calls this."""
        return Reason(self.word, super().format(*arguments, **values))


REQUIRED = Reason("required", "This field is required.")
UNKNOWN = Reason("unknown", "Unknown field.")
UNCONFIRMED = Reason(
    "unconfirmed",
    "The e-mail address of that account was never confirmed. If it is yours, ask for a new link.",
)
