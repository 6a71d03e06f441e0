"""Refuses everything that is aimed at a cluster outside our labs, before anything is done.

Ackproof breaks and writes to its own labs only. Such a command has the address of another cluster in place of a node's
name. Another cluster is only ever read: `judge --from-kafka`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from ackproof.core.errors import Refused
from ackproof.core.java_properties import read_properties

# host:port, or an IPv4 address. A role with a number behind its colon (quorum:1) is not an address.
ADDRESS = re.compile(
    r"(?!(?:quorum|target|producer|consumer|coordinator):)(?:\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}|\d+(?:\.\d+){3}"
)
SETTINGS = ("bootstrap.servers", "metadata.broker.list")  # the two names of a client's bootstrap setting
TOOL_OPTIONS = (
    "--bootstrap-server", "--bootstrap-servers", "--bootstrap-controller", "--broker-list", "--zookeeper",
    "--zookeeper.connect", "-server", "-b", "-C", *SETTINGS,
)  # fmt: skip
# `--producer-props=bootstrap.servers=HOST:PORT` has option, setting and address in one word.
OPTION_BEFORE_SETTING = re.compile(rf"--[\w-]+=(?=(?:{'|'.join(map(re.escape, SETTINGS))})=)")


def is_elsewhere(text: str) -> bool:
    """Whether a text is an address, or a list with one, instead of a name in a lab."""
    return any(ADDRESS.fullmatch(part.strip()) for part in text.split(","))


def refuse_elsewhere(given: object) -> None:
    """Raise if a node, a role or a lab was expected, and the user gave an address."""
    if isinstance(given, str):
        if is_elsewhere(given):
            raise refusal(given)
    elif isinstance(given, Iterable):
        for each in given:
            refuse_elsewhere(each)


def refuse_settings(names: Iterable[str]) -> None:
    """Raise if one of these settings names another cluster."""
    for name in names:
        if name in SETTINGS:
            raise refusal(name)


def refuse_arguments(arguments: Sequence[str], ours: Collection[str]) -> None:
    """Raise if an argument of a Kafka tool is an address that is not one of `ours`."""
    for place, word in enumerate(arguments):
        option, given, value = OPTION_BEFORE_SETTING.sub("", word).partition("=")
        addresses = word if place == 0 and is_elsewhere(word) else ""
        if _takes_address(option):
            addresses = value if given else "".join(arguments[place + 1 : place + 2])
        if option == "--broker-list" and re.fullmatch(r"[\d, ]+", addresses):
            addresses = ""  # some tools take the ids of brokers here
        for address in (part.strip() for text in (addresses, *_addresses_in_file(word)) for part in text.split(",")):
            if address and address.partition(":")[0] not in ours:
                raise refusal(address)


def _takes_address(option: str) -> bool:
    """Half of the tools accept the first letters of an option (`--boot`), the others accept it with one dash."""
    begins = option.startswith("--") and option != "--" and any(known.startswith(option) for known in TOOL_OPTIONS)
    return begins or option in TOOL_OPTIONS or f"-{option}" in TOOL_OPTIONS


def _addresses_in_file(word: str) -> list[str]:
    """The addresses in a file of client settings, if the word names one. The name of the option does not matter."""
    path = Path(word.partition("=")[2] or word) if word.startswith("--") else Path(word)
    try:
        return [value or "" for _, name, value in read_properties(path) if name in SETTINGS] if path.is_file() else []
    except (OSError, ValueError):  # the tool itself will report it
        return []


def refusal(what: str) -> Refused:
    return Refused(
        f"{what}: refused, because Ackproof breaks and writes to its own labs only; `ackproof status` shows the names "
        "of a lab's nodes, and `ackproof judge --from-kafka` reads from another cluster"
    )
