"""A node of a lab, as those who connect to it need it."""

from __future__ import annotations

import msgspec


class NodePlace(msgspec.Struct, frozen=True):
    """A node with its place in the network and its id in Kafka."""

    name: str
    role: str
    kafka_id: int
    address: str
    port: int | None  # None for a client
    site: str

    @property
    def endpoint(self) -> tuple[str, int]:
        """The address and the port on which it serves."""
        assert self.port is not None  # noqa: S101  # nobody connects to a client
        return self.address, self.port
