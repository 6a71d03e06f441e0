"""Everything that may go wrong in a way that a user can act on.

    Problem                 one clear sentence with the way out, and the exit code of the contract
    ├── UsageProblem     2  wrong usage: unknown node, role or lab, wrong state, name taken; nothing was started
    ├── NotProved        3  the effect could not be proved; what was begun has been undone
    ├── CannotHere       4  the environment cannot: no Java, no memory, no network, a broker that will not start
    └── Refused          5  refused for safety

Whatever else reaches `main` is a bug of ours and exits with 70. The message goes to a person's terminal as it is, so it
says what happened and what to do, in words; `details` holds lines of evidence (the last lines of a log, a list of
problems) that are printed below it.
"""

from __future__ import annotations

import difflib
import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

BUG_EXIT_CODE = 70


class Problem(Exception):
    exit_code: int = BUG_EXIT_CODE

    def __init__(self, message: str, details: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.details = tuple(details)


class UsageProblem(Problem):
    exit_code = 2


class NotProved(Problem):
    exit_code = 3


class CannotHere(Problem):
    exit_code = 4


class Refused(Problem):
    exit_code = 5


class Ended(BaseException):
    """Told to end by a signal: what Ctrl-C would clean up is cleaned up; the exit code is 128 and its number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def problem_of(exit_code: int, message: str, details: Sequence[str] = ()) -> Problem:
    """The problem with this exit code: how one crosses the control socket."""
    for kind in (UsageProblem, NotProved, CannotHere, Refused):
        if kind.exit_code == exit_code:
            return kind(message, details)
    return Problem(message, details)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # a file cannot grow


@contextmanager
def naming(path: object) -> Iterator[None]:
    """An error of a write or a sync does not say by itself of which file."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None:
            problem.filename = str(path)
        raise


def no_space(where: object, number: int | None = errno.ENOSPC) -> CannotHere:
    if number == errno.EFBIG:
        return CannotHere(f"a file of {where} may not grow any more (`ulimit -f`): raise the limit")
    return CannotHere(f"no space is left on the disk of {where}: make room there, or use another place")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A hint for a name that is only misspelt; empty where none comes near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
