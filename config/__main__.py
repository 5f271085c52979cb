"""`python -m config` checks the settings; with a command behind it, it then becomes that.

The command gets no empty WEB_CONCURRENCY, which gunicorn would read as a number, and before it
reads gunicorn.conf.py.
"""

import os
import sys

from config import ConfigError, environment, load, misspelt

try:
    environ = environment()
    settings = load(environ, serving=True)
except ConfigError as problem:
    sys.exit(str(problem))
for sentence in misspelt(environ, settings):
    print(sentence, file=sys.stderr)
if command := sys.argv[1:]:
    if "WEB_CONCURRENCY" in os.environ:
        os.environ["WEB_CONCURRENCY"] = str(settings.web_concurrency)
    os.execvp(command[0], command)  # noqa: S606 - no shell is needed
