"""The files through which a run and its client processes talk to each other, in the run directory."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

_LOG_TAIL_LINES = 8


class ClientFiles:
    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.folder = directory / "clients"
        self.folder.mkdir(exist_ok=True)

    def config(self, name: str) -> Path:
        """The configuration that the client reads when it starts."""
        return self.folder / f"{name}.json"

    def progress(self, name: str) -> Path:
        """The page of counters in which the client says how far it is."""
        return self.folder / f"{name}.progress"

    def go(self, turn: str | None = None) -> Path:
        """Tells the producers of a turn when to begin. Without a turn: those that begin with the load."""
        return self.folder / ("go" if turn is None else f"go-{turn}")

    @property
    def over(self) -> Path:
        """Once this file exists, the load is over and the logs grow no more. It says where each log ends."""
        return self.folder / "over"

    def log(self, name: str) -> Path:
        return self.directory / "logs" / f"{name}.log"

    def log_tail(self, name: str) -> list[str]:
        with suppress(OSError):
            return self.log(name).read_text(errors="replace").splitlines()[-_LOG_TAIL_LINES:]
        return []
