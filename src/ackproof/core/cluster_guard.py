"""Only labs of our own are broken and written to: what is aimed at another cluster is refused, before anything is done.

A cluster that is not ours has an address where a lab's nodes have names. It is only ever read: `judge --from-kafka`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import unquote

from ackproof.core.errors import Refused
from ackproof.core.java_properties import read_properties

# host:port or an address of IPv4; a role with a number behind its colon (quorum:1) is none.
ADDRESS = re.compile(
    r"(?!(?:quorum|target|producer|consumer|coordinator):)(?:\[[0-9A-Fa-f:]+\]|[\w.-]+):\d{1,5}|\d+(?:\.\d+){3}"
)
SETTINGS = ("bootstrap.servers", "metadata.broker.list")  # where a client goes, by both of its names
TOOL_OPTIONS = (
    "--bootstrap-server", "--bootstrap-servers", "--bootstrap-controller", "--broker-list", "--zookeeper",
    "--zookeeper.connect", "-server", "-b", "-C", *SETTINGS,
)  # fmt: skip
# `--producer-props=bootstrap.servers=HOST:PORT` is the same in one word.
OPTION_BEFORE_SETTING = re.compile(rf"--[\w-]+=(?=(?:{'|'.join(map(re.escape, SETTINGS))})=)")


def is_elsewhere(text: str) -> bool:
    return any(ADDRESS.fullmatch(part.strip()) for part in text.split(","))


def refuse_elsewhere(told: object) -> None:
    """Raise where a node, a role or a lab is wanted, and the address of a cluster is given."""
    if isinstance(told, str):
        if is_elsewhere(told):
            raise refusal(told)
    elif isinstance(told, Iterable):
        for each in told:
            refuse_elsewhere(each)


def refuse_settings(names: Iterable[str]) -> None:
    for name in names:
        if name in SETTINGS:
            raise refusal(name)


def refuse_arguments(arguments: Sequence[str], ours: Collection[str]) -> None:
    """Of a tool of Kafka's: it may be told where to go, as long as that is in this lab."""
    for place, word in enumerate(arguments):
        option, given, value = OPTION_BEFORE_SETTING.sub("", word).partition("=")
        told = word if place == 0 and is_elsewhere(word) else ""
        if _says_where(option):
            told = value if given else "".join(arguments[place + 1 : place + 2])
        if option == "--broker-list" and re.fullmatch(r"[\d, ]+", told):
            told = ""  # to some tools these are brokers' ids
        for address in (part.strip() for text in (told, *_in_file(word)) for part in text.split(",")):
            if address and address.partition(":")[0] not in ours:
                raise refusal(address)


def _says_where(option: str) -> bool:
    """Half of the tools take an option by its first letters (`--boot`), and the others with one dash."""
    begins = option.startswith("--") and option != "--" and any(known.startswith(option) for known in TOOL_OPTIONS)
    return begins or option in TOOL_OPTIONS or f"-{option}" in TOOL_OPTIONS


def _in_file(word: str) -> list[str]:
    """Where a client goes whose settings are in a file that a tool is given, whatever the option is called."""
    path = Path(word.partition("=")[2] or word) if word.startswith("--") else Path(word)
    try:
        return [value or "" for _, name, value in read_properties(path) if name in SETTINGS] if path.is_file() else []
    except (OSError, ValueError):  # the tool itself will say so
        return []


def hidden(text: str, settings: Mapping[str, str]) -> str:
    """The text without what these settings hold, as a whole or in part: a JAAS line has its password inside."""
    values = list(settings.values())
    parts = [part for value in values for part in _parts(value)]
    for value in sorted({*values, *parts}, key=len, reverse=True):
        if len(value) > 3:
            text = text.replace(value, "***")
    return text


def _parts(value: str) -> Iterator[str]:
    """What may be a secret inside a setting. The rest of an address or a path is none, and its words (https, kafka) are
    those that an error needs to be understood."""
    yield from re.split(r"""[\s"';,=]+""", value)
    yield from re.split(r"""[\s"';,=?&]+|\\[rn]|-{5}""", value)  # of a query, and of a PEM that is in one line
    for _, quoted in re.findall(r"""(?s)(["'])((?:\\.|(?!\1)[^\\])*)\1""", value):
        yield re.sub(r"(?s)\\(.)", r"\1", quoted)  # as whoever reads it takes it
    for login in re.findall(r"//([^\s/]+)@", value):
        yield from login.split(":", 1)
        yield unquote(login.partition(":")[2])


def refusal(what: str) -> Refused:
    return Refused(
        f"{what}: refused, for only labs of our own are broken and written to; `ackproof status` shows the names of "
        "a lab's nodes, and `ackproof judge --from-kafka` reads from another cluster"
    )
