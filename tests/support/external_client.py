"""An external client that is a small Python program, its configuration, and the rows that come of it."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from ackproof.clients.external.event_log import ExternalClientConfig
from ackproof.journal.stream import read_stream

ENDS_S = 45.0


def until(condition: Callable[[], Any], what: str, within_s: float = ENDS_S) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline, f"timed out; waited until {what}"
        time.sleep(0.01)


ACK = '{"name":"producer_send_success","key":null,"value":"1.%d","topic":"orders","partition":0,"offset":%d}'
ERROR = '{"name":"producer_send_error","value":"1.%d","topic":"orders","exception":"class a.TimeoutException"}'


def client_config(folder: Path, kind: str, code: str = "") -> ExternalClientConfig:
    return ExternalClientConfig(
        run=1, directory=str(folder), kind=kind, id=0, name=f"{kind}1", journal=f"{kind}1",  # type: ignore[arg-type]
        topic="orders", topic_id=0, command=[sys.executable, "-u", "-c", textwrap.dedent(code)], folder=str(folder),
        progress=str(folder / "progress"), external=[0], go=str(folder / "go") if kind == "producer" else None, count=5,
    )  # fmt: skip


def rows(folder: Path, table: str) -> list[dict[str, Any]]:
    (path,) = (folder / "journal" / table).iterdir()
    found: list[dict[str, Any]] = read_stream(path)[0].to_pylist()
    return found


def sends(folder: Path) -> list[tuple[Any, ...]]:
    return [(row["seq"], row["outcome"], row["offset"], row["error"]) for row in rows(folder, "sends")]


def oddities(folder: Path) -> list[tuple[str, str]]:
    return [(row["event"], row["text"]) for row in rows(folder, "oddities")]


class Client:
    """The process under test, with a small Python program as its client."""

    def __init__(self, folder: Path, kind: str, code: str) -> None:
        (folder / "logs").mkdir(exist_ok=True)
        self.folder = folder
        (folder / "config.json").write_bytes(msgspec.json.encode(client_config(folder, kind, code)))
        (folder / "go").write_text(str(time.monotonic_ns()))
        self.log = (folder / "listener.log").open("wb")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ackproof.clients.external.process", str(folder / "config.json")],
            stdout=self.log,
            stderr=self.log,
        )

    def ended(self) -> int:
        code = self.process.wait(ENDS_S)
        self.log.close()
        return code
