"""Hides a package that only the development tools install, so that memory is that of production.

PyJWT imports `cryptography` where it finds it: 10 MB a process, never used here.
"""

import sys

sys.modules["cryptography"] = None  # type: ignore[assignment]
