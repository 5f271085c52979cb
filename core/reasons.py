"""Why a field of a request is refused: a sentence for people and a word for programs."""

from typing import Literal, Self, get_args

_OfForm = Literal["required", "unknown", "type", "invalid"]
_OfBounds = Literal["too_short", "too_long", "too_small", "too_large", "future"]
_OfState = Literal["taken", "wrong"]
_OfPasswords = Literal["common", "personal", "sequence", "repeated"]
# docs/errors.md explains them. They are stable: clients translate them.
Word = Literal[_OfForm, _OfBounds, _OfState, _OfPasswords]
WORDS: tuple[Word, ...] = get_args(Word)


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
