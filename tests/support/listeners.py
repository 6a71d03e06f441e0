"""The addresses and ports on which processes of this host listen, as the kernel lists them."""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from pathlib import Path

Place = tuple[str, int]  # an address (IPv4 may be written as IPv6) and a port


def listening() -> Iterator[Place]:
    for name in ("tcp", "tcp6"):
        table = Path(f"/proc/net/{name}")
        for line in table.read_text().splitlines()[1:] if table.exists() else ():
            _, place, _, state, *_ = line.split()
            if state == "0A":
                address, _, port = place.partition(":")
                yield _in_words(address), int(port, 16)


def _in_words(address: str) -> str:
    """Return the address in words. The kernel writes each 32 bits as a number in this machine's byte order."""
    parts = [int(address[at : at + 8], 16) for at in range(0, len(address), 8)]
    return str(ipaddress.ip_address(struct.pack(f"={len(parts)}I", *parts)))


def on_loopback(place: Place) -> bool:
    address = ipaddress.ip_address(place[0])
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback
