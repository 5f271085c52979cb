"""Files that are written once, by commands and for the embedded default."""

import errno
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO


@contextmanager
def new_file(path: Path) -> Iterator[IO[bytes]]:
    """Lend a file that only its owner can read; it gets its name when it is complete.

    Raises OSError, also if there is such a file, or a link.
    """
    if os.path.lexists(path):  # not only after an hour of writing
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST))
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=f"{path.name}.") as draft:
        yield draft
        draft.flush()
        os.fsync(draft.fileno())
        os.link(draft.name, path)
