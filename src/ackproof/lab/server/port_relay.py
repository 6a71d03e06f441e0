"""Offers each broker on the host's loopback, by sockets that listen there and are used in the lab's client namespace.

A socket keeps the namespace in which it was made. So the listening sockets are made on the host before the lab exists.
This process runs in the client namespace, accepts on these sockets, and connects to the brokers as any client does.
Cuts between brokers do not affect it, a cut of `client` does. It ends with the lab.

    python -m ackproof.lab.server.port_relay DESCRIPTOR=ADDRESS:PORT ...
"""

from __future__ import annotations

import asyncio
import socket
import sys
from contextlib import suppress

_CHUNK = 1 << 16


async def _pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(_CHUNK):
        target.write(data)
        await target.drain()
    with suppress(OSError):
        target.write_eof()


async def _serve(outer_in: asyncio.StreamReader, outer_out: asyncio.StreamWriter, host: str, port: int) -> None:
    inner_out: asyncio.StreamWriter | None = None
    try:
        inner_in, inner_out = await asyncio.open_connection(host, port)
        await asyncio.gather(_pump(outer_in, inner_out), _pump(inner_in, outer_out))
    except OSError:
        # A reset on one side is a reset on the other: a client must see the same failure as one inside the lab.
        for side in (outer_out, inner_out):
            if side is not None:
                side.transport.abort()
    finally:
        for side in (outer_out, inner_out):
            if side is not None:
                side.close()


async def _listen(descriptor: int, host: str, port: int) -> asyncio.Server:
    listening = socket.socket(fileno=descriptor)
    listening.setblocking(False)
    return await asyncio.start_server(
        lambda reader, writer: _serve(reader, writer, host, port), sock=listening, backlog=256
    )


async def _relay(arguments: list[str]) -> None:
    servers = []
    for argument in arguments:
        descriptor, _, target = argument.partition("=")
        host, _, port = target.rpartition(":")
        servers.append(await _listen(int(descriptor), host, int(port)))
    await asyncio.gather(*(server.serve_forever() for server in servers))


if __name__ == "__main__":
    asyncio.run(_relay(sys.argv[1:]))
