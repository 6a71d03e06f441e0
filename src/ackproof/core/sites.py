"""The two sites of a lab, and the names of their topics and groups.

Names at the first site, `dc1`, are plain. Names at the second have a prefix: `dc2:orders` is the topic orders at dc2.
No topic of Kafka can have a colon in its name.
"""

from __future__ import annotations

from typing import Literal

FIRST_SITE, SECOND_SITE = SITES = ("dc1", "dc2")
Mirror = Literal["none", "one-way", "both-ways"]
RELAY = "relay-"  # a relay that exposes a broker on the host is named relay-BROKER


def placed(name: str) -> tuple[str, str]:
    """The site of a topic or a group, and its name at that site."""
    site, colon, own = name.partition(":")
    return (site, own) if colon and site in SITES else (FIRST_SITE, name)


def named(site: str, name: str) -> str:
    """The name of a site's topic in this lab."""
    return name if site == FIRST_SITE else f"{site}:{name}"
