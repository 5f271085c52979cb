"""A Postgres server that seems to be further away than it is."""

import asyncio
import threading
from asyncio import StreamReader, StreamWriter
from collections.abc import Iterator
from contextlib import contextmanager

from sqlalchemy import URL


@contextmanager
def far(url: URL, seconds: float) -> Iterator[URL]:
    """Yield the URL of a proxy that keeps back for so long what is sent to the server at `url`."""
    loop = asyncio.new_event_loop()

    async def relay(source: StreamReader, target: StreamWriter, delay: float) -> None:
        while data := await source.read(65536):
            loop.call_later(delay, target.write, data)
        loop.call_later(delay, target.close)

    async def accept(client: StreamReader, to_client: StreamWriter) -> None:
        folder = str(url.query.get("host", ""))
        if folder:
            server, to_server = await asyncio.open_unix_connection(f"{folder}/.s.PGSQL.5432")
        else:
            server, to_server = await asyncio.open_connection(url.host, url.port)
        await asyncio.gather(relay(client, to_server, seconds), relay(server, to_client, 0))

    listening = loop.run_until_complete(asyncio.start_server(accept, "127.0.0.1", 0))
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield url.set(host="127.0.0.1", port=listening.sockets[0].getsockname()[1], query={})
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
