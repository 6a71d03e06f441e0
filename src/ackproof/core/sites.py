"""Two sites in one lab, and what their topics and groups are called.

The first site is `dc1`, whose names are plain. Whatever is the second's is told by its name: `dc2:orders` is the topic
orders at dc2, and no topic of Kafka's can be called so.
"""

from __future__ import annotations

from typing import Literal

FIRST_SITE, SECOND_SITE = SITES = ("dc1", "dc2")
Mirror = Literal["none", "one-way", "both-ways"]
RELAY = "relay-"  # before the name of the broker that a relay offers on the host


def placed(name: str) -> tuple[str, str]:
    """The site of a topic or a group, and what it is called there."""
    site, colon, own = name.partition(":")
    return (site, own) if colon and site in SITES else (FIRST_SITE, name)


def named(site: str, name: str) -> str:
    """What a topic of a site is called in this lab."""
    return name if site == FIRST_SITE else f"{site}:{name}"
