"""The start of a lab can be interrupted at any moment, and leaves no folder behind."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import NoReturn

import pytest

from ackproof.core.errors import Ended
from ackproof.lab import launch
from ackproof.lab.directory import LabDirectory
from ackproof.lab.spec import LabSpec

MADE_OF = launch.Ingredients("/bin/false", "/", "/", None)
CLAIM = LabDirectory.claim


@contextmanager
def ended_by(number: int) -> Iterator[None]:
    """As the command hears it."""

    def on_signal(number: int, _: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)

    before = signal.signal(number, on_signal)
    try:
        yield
        assert signal.getsignal(number) is on_signal
    finally:
        signal.signal(number, before)


@pytest.mark.proves("A2")
@pytest.mark.parametrize("number", launch.ENDING, ids=lambda number: number.name)
def test_a_signal_during_the_claim_leaves_no_folder(
    number: signal.Signals, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    started = []

    def claim(directory: LabDirectory) -> int:
        lock = CLAIM(directory)
        signal.raise_signal(number)
        started.append(lock)
        return lock

    monkeypatch.setattr(LabDirectory, "claim", claim)
    with ended_by(number), pytest.raises((KeyboardInterrupt, Ended)):
        launch.launch(LabSpec(kafka="3.9.2", name="cut"), MADE_OF, lambda _: None)
    assert started, "the signal waits"
    assert not LabDirectory.of("cut").path.exists()


def test_a_signal_that_is_ignored_stays_ignored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with launch._signals_delayed() as let_through:
            signal.raise_signal(signal.SIGINT)
            let_through()
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_disks_of_the_nodes_take_at_most_half_of_the_memory_that_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel's default limit is half of the machine's memory: a control group or other programs may leave less."""
    from ackproof.host import namespaces as kernel
    from ackproof.lab.server import supervisor

    mounted: dict[str, str] = {}

    def mount(source: str, target: str | Path, kind: str = "", flags: int = 0, options: str = "") -> None:
        mounted[str(target)] = options

    monkeypatch.setattr(kernel, "mount", mount)
    monkeypatch.setattr(supervisor, "available_mb", lambda: 3000)
    directory = LabDirectory(tmp_path)
    supervisor._mount(directory)
    assert mounted[str(directory.data)] == "mode=0700,size=1500m"
