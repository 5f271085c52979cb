"""`python -m config` checks the settings; with a command behind it, it then becomes that.

The command gets no variable that is empty: gunicorn reads WEB_CONCURRENCY by itself, as a number,
before it reads gunicorn.conf.py.
"""

import os
import sys

from config import ConfigError, environment, load, misspelt
from core import streams

streams.open_closed()
try:
    environ = environment()
    settings = load(environ, serving=True)
except ConfigError as problem:
    sys.exit(str(problem))
for sentence in misspelt(environ, settings.oidc_providers):
    print(sentence, file=sys.stderr)
if command := sys.argv[1:]:
    given = {name: value for name, value in os.environ.items() if value.strip()}
    os.execvpe(command[0], command, given)  # noqa: S606 - no shell is needed
