"""The judge as a process of its own, started early: Spark warms up while the final log is still being read.

    python -m ackproof.judging MASTER      directories come in on standard input, one JSON list a line;
                                           progress and the end of each go out on standard output, one JSON a line

So neither `run` nor `report` ever imports Spark, and a Spark that dies takes no run with it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ackproof.errors import CannotHere
from ackproof.kafka.java import find_java

Tell = Callable[[str], None]


class Judging:
    """The parent's end."""

    def __init__(self, master: str = "local[*]") -> None:
        java = find_java()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ackproof.judging", master],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "JAVA_HOME": str(java.home)},
            start_new_session=True,  # Ctrl-C is ours to hear; we end it
        )

    def judge(self, directories: Sequence[Path], tell: Tell) -> None:
        """Returns when every verdict is written; CannotHere where Spark did not live to write them."""
        assert self._process.stdin is not None  # noqa: S101  # made with pipes, above
        assert self._process.stdout is not None  # noqa: S101
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps([str(path) for path in directories]) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            told = json.loads(line)
            if "progress" in told:
                tell(told["progress"])
            if "done" in told:
                return
            if "problem" in told:
                raise CannotHere(told["problem"], told["details"])
        raise CannotHere("the judge ended before its verdict; `ackproof judge RUN` tries again:", self._last_words())

    def _last_words(self) -> list[str]:
        self._process.kill()
        _, errors = self._process.communicate()
        return errors.splitlines()[-8:]

    def close(self) -> None:
        if self._process.stdin is not None:
            with suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()


def _serve(master: str) -> None:
    from ackproof.errors import Problem
    from ackproof.judge import judge, warm

    def tell(**facts: Any) -> None:
        print(json.dumps(facts), flush=True)

    try:
        with warm(master) as session:
            for line in sys.stdin:
                judge(
                    [Path(path) for path in json.loads(line)],
                    session=session,
                    progress=lambda said: tell(progress=said),
                )
                tell(done=True)
    except Problem as problem:
        tell(problem=problem.message, details=list(problem.details))


if __name__ == "__main__":
    _serve(sys.argv[1])
