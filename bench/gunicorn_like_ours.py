"""gunicorn's settings for the other subjects: those of the service, without its logs."""

import json
import os

# Handed over as values, since the optional subjects cannot import what the service's file does.
globals().update(json.loads(os.environ["BENCH_GUNICORN"]))
