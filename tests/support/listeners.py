"""Who listens on this host's network, as the kernel tells."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path

Place = tuple[str, int]  # an address, or one of IPv4 that is written as of IPv6, and a port


def listening() -> Iterator[Place]:
    for name in ("tcp", "tcp6"):
        table = Path(f"/proc/net/{name}")
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            _, place, _, state, *_ = line.split()
            if state == "0A":
                address, _, port = place.partition(":")
                yield _in_words(address), int(port, 16)


def _in_words(address: str) -> str:
    """Each 32 bits of it are a number as this machine writes them."""
    parts = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(parts)}I", *parts)))


def on_loopback(place: Place) -> bool:
    address = ipaddress.ip_address(place[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
