"""`python -m config` checks the settings.

gunicorn fails on a bad WEB_CONCURRENCY before it reads gunicorn.conf.py, so this runs first.
"""

import sys

from config import ConfigError, load

try:
    load()
except ConfigError as problem:
    sys.exit(str(problem))
