"""The rules that cut links, on the router, which every packet between two nodes passes.

Each fault has its own set of links and its own rules, so that faults can be combined. A rule does not drop a packet:
it marks it and lets it go on to the rules of other faults, and a last chain acts on the marks. So the counter of each
fault counts every packet that this fault stops, even if another fault stops it too, and healing one leaves the others.

    chain mark (forward, 0):    fault 1: [new connection?] [random loss?] link in set 1 -> mark;  fault 2: ...
    chain act  (forward, 10):   marked drop -> drop;  marked reset and TCP -> reject with reset;  marked reset -> drop

Every element of a set counts its own packets, which proves each single link. It may have a timeout, after which the
kernel removes it without help. The lookup is last in its rule, so that only packets that the fault stops are counted.

The kernel numbers the generations of a namespace's rules: each transaction that changes something makes a new
one, whichever process made it, and an element that times out makes none. So we know whether another process changed
the rules.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from pyroute2.netlink import NLM_F_REQUEST
from pyroute2.netlink.nfnetlink import nftsocket
from pyroute2.nftables.expressions import genex, verdict
from pyroute2.nftables.main import NFTables

TABLE = "ackproof"

_ACCEPT = 1
_DROP = 0
_META_MARK = 3
_META_L4PROTO = 16
_NETWORK_HEADER, _TRANSPORT_HEADER = 1, 2
_SOURCE_PORT_OFFSET, _TARGET_PORT_OFFSET = 0, 2
_TYPE_IPV4, _TYPE_PORT, _TYPE_BITS = 7, 13, 6  # nft's own numbers: how `nft list` would show the key
_EQUAL, _NOT_EQUAL, _LESS = 0, 1, 2
_REGISTER_1, _REGISTER_WORD_0, _REGISTER_WORD_2 = 1, 8, 10
_TCP = b"\x06"
_SYN, _SYN_OR_ACK = b"\x02", b"\x12"
_DROP_MARK, _RESET_MARK = 1, 2
LOSS_SCALE = 10_000

AddressLink = tuple[str, str]


@dataclass(frozen=True)
class Match:
    """Which packets of its links a fault stops, and how."""

    port: int | None = None  # only packets from or to this port
    new_connections: bool = False  # only the packet that opens a TCP connection
    loss: float | None = None  # only this share of the packets, at random
    reset: bool = False  # answer TCP packets with a reset, instead of dropping them


def _bytes(value: bytes) -> dict[str, list[tuple[str, bytes]]]:
    return {"attrs": [("NFTA_DATA_VALUE", value)]}


def _compare(value: bytes, how: int = _EQUAL) -> Any:
    return genex("cmp", {"sreg": _REGISTER_1, "op": how, "data": _bytes(value)})


def _bits(mask: int, flip: int = 0) -> Any:
    fields = {"sreg": _REGISTER_1, "dreg": _REGISTER_1, "len": 4}
    return genex("bitwise", {**fields, "mask": _bytes(struct.pack("=I", mask)), "xor": _bytes(struct.pack("=I", flip))})


def _is_tcp() -> list[Any]:
    return [genex("meta", {"key": _META_L4PROTO, "dreg": _REGISTER_1}), _compare(_TCP)]


def _opens_connection() -> list[Any]:
    flags = genex("payload", {"dreg": _REGISTER_1, "base": _TRANSPORT_HEADER, "offset": 13, "len": 1})
    only_syn = genex(
        "bitwise",
        {"sreg": _REGISTER_1, "dreg": _REGISTER_1, "len": 1, "mask": _bytes(_SYN_OR_ACK), "xor": _bytes(b"\0")},
    )
    return [*_is_tcp(), flags, only_syn, _compare(_SYN)]


def _at_random(share: float) -> list[Any]:
    draw = genex("ng", {"dreg": _REGISTER_1, "modulus": LOSS_SCALE, "type": 1})
    draw["attrs"][0] = ("NFTA_EXPR_NAME", "numgen")
    to_network_order = genex("byteorder", {"sreg": _REGISTER_1, "dreg": _REGISTER_1, "op": 1, "len": 4, "size": 4})
    return [draw, to_network_order, _compare(struct.pack("!I", round(share * LOSS_SCALE)), _LESS)]


def _link_in(name: str, port_offset: int | None) -> list[Any]:
    addresses = genex("payload", {"dreg": _REGISTER_WORD_0, "base": _NETWORK_HEADER, "offset": 12, "len": 8})
    look_up = genex("lookup", {"set": name, "sreg": _REGISTER_WORD_0})
    if port_offset is None:
        return [addresses, look_up]
    port = genex("payload", {"dreg": _REGISTER_WORD_2, "base": _TRANSPORT_HEADER, "offset": port_offset, "len": 2})
    return [addresses, port, look_up]


def _add_mark(mark: int) -> list[Any]:
    load = genex("meta", {"key": _META_MARK, "dreg": _REGISTER_1})
    store = genex("meta", {"key": _META_MARK, "sreg": _REGISTER_1})
    return [load, _bits(0xFFFFFFFF ^ mark, mark), store]


def _has_mark(mark: int) -> list[Any]:
    return [genex("meta", {"key": _META_MARK, "dreg": _REGISTER_1}), _bits(mark), _compare(b"\0\0\0\0", _NOT_EQUAL)]


def _key(link: AddressLink, port: int | None) -> bytes:
    source, target = link
    addresses = socket.inet_aton(source) + socket.inet_aton(target)
    return addresses if port is None else addresses + struct.pack("!HH", port, 0)


class Rules:
    """The rules of the network namespace in which this object was made. Two threads must not use it at once."""

    def __init__(self) -> None:
        self._nft = NFTables(nfgen_family=socket.AF_INET)
        self._ours = self._generation()
        self._commit(self._nft.table, "add", name=TABLE)
        for name, priority in (("mark", 0), ("act", 10)):
            place = {"hook": "forward", "type": "filter", "policy": _ACCEPT, "priority": priority}
            self._commit(self._nft.chain, "add", table=TABLE, name=name, **place)
        self._rule("act", _has_mark(_DROP_MARK), verdict(_DROP))
        reset = [genex("reject", {"type": 1, "icmp_code": 0})]
        self._rule("act", _has_mark(_RESET_MARK), _is_tcp(), reset)
        self._rule("act", _has_mark(_RESET_MARK), verdict(_DROP))

    def _commit(self, command: Callable[..., Any], *arguments: Any, **fields: Any) -> None:
        """Make one transaction. Its generation is ours if it follows directly on one of ours.

        After a transaction of another process, no later generation counts as ours.
        """
        before = self._generation()
        command(*arguments, **fields)
        after = self._generation()
        if before == self._ours and after - before <= 1:  # 0: it changed nothing, as with an empty set
            self._ours = after

    def _generation(self) -> int:
        async def ask() -> list[Any]:
            question, kind = nftsocket.nft_gen_msg(), nftsocket.NFT_MSG_GETGEN
            return [part async for part in await self._nft.asyncore.request_get(question, kind, NLM_F_REQUEST)]

        (answer,) = self._nft._run_with_cleanup(ask)
        return int(answer.get_attr("NFTA_GEN_ID"))

    def only_ours(self) -> bool:
        """Whether no other process has changed the rules of this namespace."""
        return self._generation() == self._ours

    def _rule(self, chain: str, *expressions: list[Any]) -> None:
        self._commit(self._nft.rule, "add", table=TABLE, chain=chain, expressions=expressions)

    def add(self, name: str, match: Match, links: Collection[AddressLink], timeout_s: float | None = None) -> None:
        """Cut the links at one instant: make the rules first, then fill their set in one message."""
        words = [_TYPE_IPV4, _TYPE_IPV4] + ([_TYPE_PORT] if match.port is not None else [])
        key_type = 0
        for word in words:
            key_type = key_type << _TYPE_BITS | word
        fields = {
            "NFTA_SET_TABLE": TABLE,
            "NFTA_SET_NAME": name,
            "NFTA_SET_KEY_TYPE": key_type,
            "NFTA_SET_KEY_LEN": 4 * len(words),
            "NFTA_SET_EXPR": {"attrs": [("NFTA_EXPR_NAME", "counter")]},
            "NFTA_SET_ID": 1,
            "NFTA_SET_FLAGS": {"NFT_SET_TIMEOUT"},
        }
        self._commit(self._nft._command, nftsocket.nft_set_msg, {"create": nftsocket.NFT_MSG_NEWSET}, "create", fields)
        only = (_opens_connection() if match.new_connections else []) + (
            _at_random(match.loss) if match.loss is not None else []
        )
        mark = _add_mark(_RESET_MARK if match.reset else _DROP_MARK)
        for offset in (None,) if match.port is None else (_SOURCE_PORT_OFFSET, _TARGET_PORT_OFFSET):
            self._rule("mark", only, _link_in(name, offset), mark)
        self.fill(name, match, links, timeout_s)

    def fill(self, name: str, match: Match, links: Collection[AddressLink], timeout_s: float | None) -> None:
        """Put the links into the set. A link that is in it gets the new timeout, if the kernel can do that."""
        timeout = [("NFTA_SET_ELEM_TIMEOUT", round(timeout_s * 1000))] if timeout_s is not None else []
        elements = [{"attrs": [("NFTA_SET_ELEM_KEY", _bytes(_key(link, match.port))), *timeout]} for link in links]
        self._elements("add", nftsocket.NFT_MSG_NEWSETELEM, {"table": TABLE, "set": name, "elements": elements})

    def _elements(self, command: str, number: int, fields: Mapping[str, Any]) -> None:
        self._commit(self._nft._command, nftsocket.nft_set_elem_list_msg, {command: number}, command, dict(fields))

    def counted(self, name: str) -> dict[AddressLink, int]:
        """The links that this fault cuts now, each with the number of packets stopped so far."""
        counts = {}
        for element in self._dump(name):
            key = element.get_attr("NFTA_SET_ELEM_KEY").get_attr("NFTA_DATA_VALUE")
            expression = element.get_attr("NFTA_SET_ELEM_EXPR")
            packets = expression.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_COUNTER_PACKETS")
            counts[(socket.inet_ntoa(key[:4]), socket.inet_ntoa(key[4:8]))] = int(packets)
        return counts

    def left_s(self, name: str) -> float | None:
        """The longest time that a link of this fault still has. None if the fault has no end."""
        left = [element.get_attr("NFTA_SET_ELEM_EXPIRATION") for element in self._dump(name)]
        known = [milliseconds / 1000 for milliseconds in left if milliseconds]
        return max(known) if known else None

    def _dump(self, name: str) -> list[Any]:
        async def collect() -> list[Any]:
            message = nftsocket.nft_set_elem_list_msg()
            message["attrs"] = [["NFTA_SET_ELEM_LIST_TABLE", TABLE], ["NFTA_SET_ELEM_LIST_SET", name]]
            answer = await self._nft.asyncore.request_get(message, nftsocket.NFT_MSG_GETSETELEM)
            return [part async for part in answer]

        parts = self._nft._run_with_cleanup(collect)
        return [element for part in parts for element in part.get_attr("NFTA_SET_ELEM_LIST_ELEMENTS") or []]

    def remove(self, name: str) -> None:
        """Mend all links of a fault at one instant, then remove its rules and its set."""
        self._elements("del", nftsocket.NFT_MSG_DELSETELEM, {"table": TABLE, "set": name})
        for rule in self._nft.get_rules():
            if rule.get_attr("NFTA_RULE_CHAIN") == "mark" and _looks_up(rule, name):
                handle = rule.get_attr("NFTA_RULE_HANDLE")
                self._commit(self._nft.rule, "del", table=TABLE, chain="mark", handle=handle)
        fields = {"NFTA_SET_TABLE": TABLE, "NFTA_SET_NAME": name}
        self._commit(self._nft._command, nftsocket.nft_set_msg, {"del": nftsocket.NFT_MSG_DELSET}, "del", fields)

    def names(self) -> list[str]:
        """The names of the faults that have rules in the kernel."""
        return sorted(str(entry.get_attr("NFTA_SET_NAME")) for entry in self._nft.get_sets())

    def close(self) -> None:
        self._nft.close()


def _looks_up(rule: Any, name: str) -> bool:
    for expression in rule.get_attr("NFTA_RULE_EXPRESSIONS") or []:
        if expression.get_attr("NFTA_EXPR_NAME") == "lookup":
            return bool(expression.get_attr("NFTA_EXPR_DATA").get_attr("NFTA_LOOKUP_SET") == name)
    return False
