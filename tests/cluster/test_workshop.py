"""The workshop, typed into two real terminals: every command, and every line that the page says a reader will see."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pexpect
import pytest

HOME = Path(__file__).resolve().parents[2]
PROMPT = "workshop> "
ANSWER_S = 90.0
STEPS = re.findall(r"```console (one|two)\n(.*?)```", (HOME / "docs" / "workshop.md").read_text(), re.DOTALL)

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]


class Terminal:
    def __init__(self, environment: dict[str, str]) -> None:
        self._shell = pexpect.spawn(
            "/bin/bash", ["--norc", "--noprofile"], env=environment, cwd=HOME, encoding="utf-8", dimensions=(50, 250)
        )
        self.shown = ""
        self._read_to = 0  # how far the reader had read when this step began
        self._seen_to = 0
        self._shell.sendline(f"PS1='{PROMPT}'")
        self._prompts = 2  # the prompt that was just waited for, and its echo

    def look_again(self) -> None:
        """Begin the next step: earlier output does not count."""
        self._read_to = self._seen_to

    def type(self, command: str) -> None:
        # Prompts are counted, because background programs write after a prompt.
        self._await(lambda: self.shown.count(PROMPT) >= self._prompts, f"a prompt before {command!r}")
        self._prompts += 1
        self._read_to = self._seen_to = len(self.shown)
        self._shell.sendline(command)
        self._await(lambda: "\n" in self.shown[self._read_to :], f"{command!r} to be typed")

    def interrupt(self) -> None:
        self._read_to = self._seen_to = len(self.shown)
        self._shell.sendintr()

    def see(self, line: str) -> None:
        parts = (r"\s+".join(map(re.escape, part.split())) for part in line.split("…"))
        pattern = re.compile(r"\s*.*?\s*".join(parts) + r"[ \t]*$", re.MULTILINE)
        self._await(lambda: pattern.search(self.shown, self._read_to), f"the line {line!r}")
        found = pattern.search(self.shown, self._read_to)
        self._seen_to = max(self._seen_to, found.end() if found else 0)

    def _await(self, condition: Callable[[], object], what: str) -> None:
        deadline = time.monotonic() + ANSWER_S
        while not condition():
            assert time.monotonic() < deadline, f"{what} did not appear; the terminal shows:\n{self.shown[-3000:]}"
            try:
                self.shown += self._shell.read_nonblocking(4096, timeout=0.2).replace("\r", "")
            except pexpect.TIMEOUT:
                continue

    def close(self) -> None:
        self._shell.close(force=True)


@pytest.fixture
def terminals() -> Iterator[dict[str, Terminal]]:
    name = f"workshop-{os.getpid()}"
    environment = {**os.environ, "ACKPROOF_LAB": name, "NO_COLOR": "1", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    opened = {number: Terminal(environment) for number in ("one", "two")}
    yield opened
    for terminal in opened.values():
        terminal.close()
    subprocess.run([HOME / "ackproof", "down"], env=environment, capture_output=True, check=False, timeout=60)


def test_the_workshop_has_steps_for_both_terminals() -> None:
    assert {terminal for terminal, _ in STEPS} == {"one", "two"}
    assert sum(text.count("$ ") for _, text in STEPS) >= 20


@pytest.mark.skipif(shutil.which("kcat") is None, reason="kcat is not installed")
def test_every_command_of_the_workshop_shows_what_it_says(terminals: dict[str, Terminal]) -> None:
    for number, text in STEPS:
        terminal = terminals[number]
        terminal.look_again()
        for line in text.splitlines():
            if line.startswith("$ "):
                terminal.type(line[2:])
            elif line == "^C":
                terminal.interrupt()
            elif line.strip():
                terminal.see(line)
