"""The errors that a user can act on.

    Problem                 one clear sentence that says what to do, and the documented exit code
    ├── UsageProblem     2  wrong usage: unknown node, role or lab, wrong state, name taken; nothing was started
    ├── NotProved        3  the effect could not be proved; what was begun has been undone
    ├── CannotHere       4  this machine cannot do it: no Java, no memory, no network, a broker that does not start
    └── Refused          5  refused for safety

Any other exception that reaches `main` is a bug in Ackproof and exits with 70. The message goes to the terminal as it
is, so it says in words what happened and what to do. `details` holds lines of evidence, such as the last lines of a
log, which are printed below it.
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
    """A signal asks the process to end. It cleans up as after Ctrl-C. The exit code is 128 plus the signal's number."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def problem_of(exit_code: int, message: str, details: Sequence[str] = ()) -> Problem:
    """The problem with this exit code. So a problem can be sent over the control socket."""
    for kind in (UsageProblem, NotProved, CannotHere, Refused):
        if kind.exit_code == exit_code:
            return kind(message, details)
    return Problem(message, details)


FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # the file cannot grow


@contextmanager
def naming(path: object) -> Iterator[None]:
    """Add the path to an OSError that lacks it, as an error of a write or a sync does."""
    try:
        yield
    except OSError as problem:
        if problem.filename is None:
            problem.filename = str(path)
        raise


def no_space(where: object, number: int | None = errno.ENOSPC) -> CannotHere:
    if number == errno.EFBIG:
        return CannotHere(f"a file of {where} may not grow any more (`ulimit -f`): raise the limit")
    return CannotHere(f"no space is left on the disk of {where}: free some space there, or use another place")


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """A hint for a misspelt name; empty if no known name is similar."""
    near = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {near[0]}?)" if near else ""
