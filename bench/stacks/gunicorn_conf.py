"""gunicorn's settings for the other stacks: those of the service, without its hooks."""

import runpy

_ours = runpy.run_path("gunicorn.conf.py")
globals().update({name: value for name, value in _ours.items() if not callable(value)})
