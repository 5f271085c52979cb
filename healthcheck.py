"""The image's health check: asks the service in this container whether it works.

It imports nothing of ours, because it starts every few seconds and `config` takes half a second.
"""

import os
from collections.abc import Mapping
from urllib.request import ProxyHandler, build_opener


def url(environ: Mapping[str, str]) -> str:
    """Return where the service listens, by the rules of `HOST` and `PORT`."""
    host, port = (environ.get(name, "").strip() for name in ("HOST", "PORT"))
    if not host.strip("0.:"):  # all network interfaces, or not set
        host = "127.0.0.1"
    return f"http://{f'[{host}]' if ':' in host else host}:{port or 5000}/healthz"


if __name__ == "__main__":
    # Without a proxy, because Docker may set HTTP_PROXY in every container.
    build_opener(ProxyHandler({})).open(url(os.environ), timeout=4)
