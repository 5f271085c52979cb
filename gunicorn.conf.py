"""gunicorn's settings. It reads this file by itself when it starts in this folder."""

import os
import resource
import sys
from typing import Any

from config import ROOT, THREADS, ConfigError, load
from web.logs import formatter

try:
    settings = load()
except ConfigError as problem:
    # Here, and not in a worker: a worker that ends is started again, and again.
    sys.exit(str(problem))

wsgi_app = "wsgi:app"
# On hosts that set PORT, their router comes from outside.
bind = f"0.0.0.0:{settings.port}" if settings.port else "127.0.0.1:5000"

# gunicorn's own, with a bound on how long a client may keep a thread waiting.
worker_class = "web.worker.Worker"
workers = settings.web_concurrency
# A login holds its thread while it waits for its turn at the hasher. There are more threads than
# logins that may wait, or they would shut out the requests that take a millisecond. A thread is
# cheap; connections to the database are pooled apart from them.
threads = THREADS
# Idle connections cost a file each and no thread.
worker_connections = 1000
# Many systems allow a process 1024 open files unless it asks for more. A worker that may not
# accept a connection ends with all that it holds. Beside connections it opens the database, files
# that it sends, and uploads.
_FILES = worker_connections + 4 * threads
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
_allowed = _FILES if _hard == resource.RLIM_INFINITY else min(_FILES, _hard)
if _soft != resource.RLIM_INFINITY and _soft < _allowed:
    resource.setrlimit(resource.RLIMIT_NOFILE, (_allowed, _hard))
# Written in pieces, each within the bounds of web/worker.py; sendfile() would know none of them.
sendfile = False
# Preloading works, but saves no memory (measured), and a reload would not load new code.
preload_app = False

# A heartbeat of the worker as a whole; it ends no single request.
timeout = 60
# Heroku kills what is still there 30 seconds after SIGTERM.
graceful_timeout = 25
# Longer than routers keep idle connections (60 to 90 seconds), so that it is they who close one,
# and never we while a request is on its way. An idle connection costs no thread.
keepalive = 95
# A bound on memory that grows unseen, in an extension in C for instance. Far apart, because a
# restart costs a second of CPU; the jitter keeps the workers from restarting together.
max_requests = 50_000
max_requests_jitter = 10_000
# The heartbeat is a file, and a busy disk would hold it up. macOS has no such folder.
_MEMORY = "/dev/shm"  # noqa: S108
worker_tmp_dir = _MEMORY if os.path.isdir(_MEMORY) else None
# Nobody uses the socket for remote control, and it would lie in the home folder.
control_socket_disable = True

# The application logs a line for each request, without the query; gunicorn's would show it.
accesslog = None
errorlog = "-"
loglevel = settings.log_level.lower()
# gunicorn's own lines look like the application's.
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"accounts": {"()": formatter, "log_format": settings.log_format}},
    "handlers": {"accounts": {"class": "logging.StreamHandler", "formatter": "accounts"}},
    "root": {"level": settings.log_level, "handlers": ["accounts"]},
    "loggers": {
        "gunicorn.error": {
            "level": settings.log_level,
            "handlers": ["accounts"],
            "propagate": False,
        }
    },
}

limit_request_line = 8190
limit_request_field_size = 16380
# Nobody sets the scheme or the path by a header. Links begin with PUBLIC_URL, and the
# application itself finds the client's address, by TRUSTED_PROXIES.
forwarded_allow_ips = ""


def on_starting(server: Any) -> None:
    """Refuse TLS, which the worker's socket cannot do, before anything starts."""
    if server.cfg.is_ssl:
        sys.exit("TLS ends at a proxy: start gunicorn without a certificate.")


def post_worker_init(worker: Any) -> None:
    """Start the background thread; tell a person who runs the default what to do next."""
    # Imported here, because the master process reads this file too and needs no database.
    from services import background  # noqa: PLC0415

    background.start(worker.app.wsgi())
    if worker.age == 1 and settings.embedded and settings.log_format == "text":
        print(FIRST_SCREEN, file=sys.stderr, flush=True)


_ADDRESS = f"http://127.0.0.1:{settings.port or 5000}"
_MAILS = "" if settings.mail_url else "\n  Mails are not sent but printed here.\n"
FIRST_SCREEN = f"""
  The service is at {_ADDRESS}, its documentation at {_ADDRESS}/docs

  Register an account:

    curl {_ADDRESS}/api/auth/register \\
      -H 'Content-Type: application/json' \\
      -d '{{"username": "newcomer", "email": "newcomer@example.org",
           "password": "try something new", "firstName": "First", "lastName": "Last"}}'
{_MAILS}
  The database and its secret are in {ROOT / "instance"}. Ctrl-C ends the service.
"""
