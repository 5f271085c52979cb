"""The settings of gunicorn, which reads this file when it starts in this folder."""

import gc
import os
import resource
import sys
from contextlib import suppress
from typing import Any

# Before the imports: looking for garbage among what they load takes 0.1 s, and there is none.
gc.disable()

# The master process loads all modules, once for all workers.
from flask import Flask

import app
import web.worker
from config import ROOT, ConfigError, load
from config.types import EVERYWHERE, local_url, netloc
from database import engines, schema
from services import background
from web.logs import FORMATTERS

try:
    settings = load(serving=True)
except ConfigError as problem:
    # Not in a worker, which gunicorn would start again and again.
    sys.exit(str(problem))
# A garbage collection in a worker would write to these objects, and so copy them: 25 MB in all.
gc.freeze()
gc.enable()

wsgi_app = "wsgi:app"
bind = netloc(*settings.listens)

worker_class = "web.worker.TurnsWorker"
workers = settings.web_concurrency
# Requests that hash, or wait for the hasher or a picture, leave 16 threads to those that take a
# millisecond.
threads = app.WAITING + settings.hashes_at_once + 16
# An idle or silent connection costs a file and no thread.
worker_connections = 2000
# A worker that cannot accept a connection ends, and many systems allow only 1024 open files by
# default. The database, uploads and files that are sent need some too.
_soft, _hard = resource.getrlimit(resource.RLIMIT_NOFILE)
with suppress(ValueError):  # the hard limit is lower
    _files = max(_soft, worker_connections + 4 * threads)
    resource.setrlimit(resource.RLIMIT_NOFILE, (_files, _hard))
# sendfile() would wait for a slow client without the limits of web/clients.py.
sendfile = False

# Seconds without a heartbeat until a whole worker is killed; it ends no single request.
timeout = 60
# Heroku kills every process 30 seconds after SIGTERM.
graceful_timeout = 25
# Routers keep idle connections for 60 to 90 seconds. If we closed one first, we could do so while
# a request is on its way.
keepalive = 95
# Restarts bound a memory leak, in a C extension for instance; the jitter keeps the workers from
# restarting together.
max_requests = 50_000
max_requests_jitter = 10_000
# The heartbeat is a file, which a busy disk would delay. macOS has no such folder.
_MEMORY = "/dev/shm"  # noqa: S108
worker_tmp_dir = _MEMORY if os.path.isdir(_MEMORY) else None
# The socket for remote control is unused, and it would be created in the home folder.
control_socket_disable = True

# gunicorn's own lines look like those of the application.
logconfig_dict = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {"accounts": {"()": FORMATTERS[settings.log_format]}},
    "handlers": {"accounts": {"class": "logging.StreamHandler", "formatter": "accounts"}},
    "root": {"level": settings.log_level, "handlers": ["accounts"]},
    "loggers": {
        "gunicorn.error": {"level": settings.log_level, "propagate": True},
        "database": {"level": "WARNING"},  # our pool, which says when it is emptied
    },
}

# Browsers and proxies stay far below. The time that gunicorn needs grows with the square of a head.
limit_request_line = 8190
limit_request_field_size = 8190
limit_request_fields = 50
# No header sets the scheme or the path: links begin with PUBLIC_URL, and the application finds the
# client IP by TRUSTED_PROXIES.
forwarded_allow_ips = ""


def on_starting(server: Any) -> None:
    """Refuse TLS, which the worker's socket does not support, and a database that is unfit.

    Not in a worker: gunicorn starts one whenever another ends.
    """
    if server.cfg.is_ssl:
        sys.exit("TLS ends at a proxy: start gunicorn without a certificate.")
    if settings.database_url:
        bare = Flask("start")  # something that the database can be bound to
        try:
            engines.init_app(bare, settings.database_url)
            with bare.app_context():
                schema.refuse_unfit()
        except ConfigError as problem:
            sys.exit(str(problem))


def post_worker_init(worker: Any) -> None:
    """Start the background thread; show what to do next when nothing is set."""
    background.start(worker.app.wsgi())
    # The options of gunicorn go before `bind`, and may name a socket in the file system.
    bound = worker.cfg.address[0]
    by_hand = settings.embedded and settings.log_format == "text" and isinstance(bound, tuple)
    if worker.age == 1 and by_hand:
        print(first_screen(*bound), file=sys.stderr, flush=True)


def first_screen(host: str, port: int) -> str:
    url, reach, pages, register, mails = local_url(host, port), "", "", "", ""
    flask = os.path.join(os.path.dirname(sys.executable), "flask")
    docs = f", its documentation at {url}/docs" if settings.docs else ""
    if host in EVERYWHERE:
        reach = "\n  It listens on all network interfaces, so other machines can reach it too.\n"
    if settings.account_pages:
        pages = f"\n  Users sign in at {url}/account, admins at {url}/admin\n"
    if settings.registration == "open":
        register = f"""
  Register an account:

    curl {url}/api/auth/register \\
      -H 'Content-Type: application/json' \\
      -d '{{"username": "newcomer", "email": "newcomer@example.org",
           "password": "try something new", "firstName": "First", "lastName": "Last"}}'
"""
    if not settings.mail_url:
        mails = "\n  E-mails are not sent but printed here.\n"
    return f"""
  The service is at {url}{docs}
{reach}{pages}
  Make the first admin, in the folder {ROOT}:

    {flask} users create --role admin
{register}{mails}
  The database and its secret are in {ROOT / "instance"}. Ctrl-C ends the service.
"""
