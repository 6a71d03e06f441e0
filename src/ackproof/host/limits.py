"""Limits of this process (`ulimit`) that are too low, each reported in one sentence with what to do."""

from __future__ import annotations

import errno
import resource

from ackproof.core.errors import CannotHere

# Measured, plus a margin: 400 MB for the command line, 4.5 GB and 150 files for the judge's Java.
ADDRESS_SPACE_MIN = 2**30
JAVA_ADDRESS_SPACE_MIN = 5 * 10**9
JAVA_FILES_MIN = 256

_NO_THREAD = "can't start new thread"


def check_address_space(least: int = ADDRESS_SPACE_MIN) -> None:
    """Refuse before the libraries are loaded: the first one without memory would crash the process."""
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed != resource.RLIM_INFINITY and allowed < least:
        raise _too_little_memory()


def check_for_java() -> None:
    """Refuse limits with which Java would fail later, with a stack trace."""
    check_address_space(JAVA_ADDRESS_SPACE_MIN)
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if allowed != resource.RLIM_INFINITY and allowed < JAVA_FILES_MIN:
        raise _too_few_files()


def limit_of(problem: BaseException) -> CannotHere | None:
    """The limit that caused an exception, if one did."""
    number = problem.errno if isinstance(problem, OSError) else None
    if isinstance(problem, MemoryError) or number == errno.ENOMEM:
        return _too_little_memory()
    if number in (errno.EMFILE, errno.ENFILE):
        return _too_few_files()
    if number == errno.EAGAIN or (isinstance(problem, RuntimeError) and _NO_THREAD in str(problem)):
        allowed = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        most = "" if allowed == resource.RLIM_INFINITY else f" (`ulimit -u` allows {allowed})"
        return CannotHere(f"no more processes and threads may be started{most}: end some, or raise the limit")
    return None


def _too_little_memory() -> CannotHere:
    allowed = resource.getrlimit(resource.RLIMIT_AS)[0]
    if allowed == resource.RLIM_INFINITY:
        return CannotHere("there is too little memory left: end other programs, and try again")
    return CannotHere(
        f"too little memory may be used (`ulimit -v` allows {allowed / 2**20:,.0f} MB of address space): "
        "raise it, or take it away with `ulimit -v unlimited`"
    )


def _too_few_files() -> CannotHere:
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return CannotHere(f"too few files may be open at once (`ulimit -n` allows {allowed}): raise it to 1024 or more")
