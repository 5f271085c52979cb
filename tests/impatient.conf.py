"""The settings of gunicorn.conf.py, with a worker whose bounds the tests can wait for."""

from runpy import run_path

from config import ROOT
from web import worker

worker.PATIENCE = 0.7  # seconds
worker.LINGER = 0.5

globals().update(run_path(str(ROOT / "gunicorn.conf.py")))
