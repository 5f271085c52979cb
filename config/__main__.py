"""`python -m config` checks the settings; gunicorn could not read a bad WEB_CONCURRENCY."""

import sys

from config import ConfigError, load

try:
    load()
except ConfigError as problem:
    sys.exit(str(problem))
