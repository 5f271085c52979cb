"""The settings of gunicorn.conf.py, with a worker whose bounds the tests can wait for."""

import os
from runpy import run_path

from config import ROOT
from web import clients

clients.SILENCE, clients.LONGEST = float(os.environ.get("SILENCE", "1.5")), 4  # seconds

globals().update(run_path(str(ROOT / "gunicorn.conf.py")))
threads = 4  # so that few clients hold all of them
