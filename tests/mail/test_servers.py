"""Each server starts the background thread in the processes that serve, and in no other."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest
from helpers import soon
from real_service import Service, deployed, finish, free_port, production, python
from sqlalchemy import URL

from config import ROOT

SUBJECT = "Confirm your e-mail address"


def test_a_worker_of_gunicorn_delivers_and_its_master_does_not(mail_server, tmp_path):
    log = tmp_path / "service.log"
    # The master loads the application too then; without it, all end-to-end tests run.
    settings = {"GUNICORN_CMD_ARGS": "--preload", "WEB_CONCURRENCY": "1"}
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    with deployed(url, mail_server.port, log, **settings) as service:
        mail_server.wait_for(service.register("first")["email"], SUBJECT)
        (worker,) = service.workers(1)
        assert psutil.Process(worker).parent().num_threads() == 1
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize(("option", "reloads"), [("--no-reload", False), ("--debug", True)])
def test_flask_run_delivers_and_the_parent_of_its_reloader_does_not(
    mail_server, tmp_path, option, reloads
):
    port = free_port()
    url = URL.create("sqlite", database=str(tmp_path / "service.db"))
    env = production(url, mail_server.port, port)
    ((status, output),) = finish([python("-m", "flask", "db", "upgrade", env=env)])
    assert status == 0, output
    log = tmp_path / "service.log"
    with open(log, "wb") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "flask", "run", "--port", str(port), option],
            cwd=ROOT,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,  # the reloader is two processes
        )
    try:
        service = Service(env, port, log)

        def is_up():
            with suppress(OSError):
                return service.call("GET", "/readyz?token=in-the-query").status == 200

        soon(is_up)
        assert f"The service is at {service.url}\n" in service.log()
        assert "in-the-query" not in service.log()
        mail_server.wait_for(service.register("user")["email"], SUBJECT)
        if reloads:
            assert psutil.Process(process.pid).num_threads() == 1
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
