"""`python -m config` checks the settings; gunicorn could not read a bad WEB_CONCURRENCY."""

import sys

from config import ConfigError, environment, load, misspelt

try:
    environ = environment()
    settings = load(environ)
except ConfigError as problem:
    sys.exit(str(problem))
for sentence in misspelt(environ, settings.oidc_providers):
    print(sentence, file=sys.stderr)
