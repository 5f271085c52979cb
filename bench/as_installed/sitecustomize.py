"""Hides what only the tools have brought along: a subject runs as `requirements.txt` has it.

PyJWT imports `cryptography` where it is found, which costs 10 MB a process and is never used.
"""

import sys

sys.modules["cryptography"] = None  # type: ignore[assignment]
