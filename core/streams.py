"""The three standard streams of a process."""

import os
import sys


def open_closed() -> None:
    """Open /dev/null for each standard stream that is closed, as by `2>&-` in a crontab.

    Call this before anything stays open: what is opened next, such as the connection to the
    database, would get the number of the stream, and then all that is written to that.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest number is free
            mode = "w" if number else "r"
            setattr(sys, name, open(number, mode, closefd=False))  # noqa: SIM115 - to the end
