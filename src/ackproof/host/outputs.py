"""Standard output and standard error of the command line, and what happens if they cannot be written.

Results go to standard output. If it cannot be written (a full disk, `ulimit -f`, a closed descriptor), the command ends
with exit code 4 and says so once on standard error. If its reader has ended (`| head`), the command ends with 141, as
other programs do. A verdict is stronger: once it is reached, its exit code stands, whether or not it can be printed.

Progress and errors go to standard error. If it cannot be written, they are dropped: the exit code says the same.

`guard` replaces `sys.stdout` and `sys.stderr`, so that print, rich and typer all write through here.
"""

from __future__ import annotations

import errno
import io
import os
import select
import signal
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

UNWRITTEN_EXIT_CODE = 4
_READER_GONE = 128 + signal.SIGPIPE
_TERMINAL_GONE = 128 + signal.SIGHUP
_EXIT_CODES = {errno.EPIPE: _READER_GONE, errno.EIO: _TERMINAL_GONE}


class Unwritten(Exception):
    """Standard output cannot be written. This is no OSError, because rich and typer would exit with 1 on that."""

    def __init__(self, problem: OSError) -> None:
        reason = "it is closed" if problem.errno == errno.EBADF else problem.strerror
        super().__init__(f"standard output cannot be written: {reason}")
        self.exit_code = _EXIT_CODES.get(problem.errno or 0, UNWRITTEN_EXIT_CODE)


class Output(io.BufferedWriter):
    """A stream that reports its first failure only. Later writes are dropped, even the flush when Python exits.

    A failure ends the command from its main thread; in another thread an exception would only print a traceback.
    The buffer is Python's own, so that a signal during a write neither loses nor repeats anything.
    """

    def __init__(self, descriptor: int, stops: bool) -> None:
        super().__init__(io.FileIO(descriptor, "w", closefd=False))
        self.stops = stops  # whether a failure ends the command
        self.problem: OSError | None = None

    def write(self, content: ReadableBuffer, /) -> int:
        left = memoryview(content).cast("B")
        while self.problem is None:
            try:
                super().write(left)
                return memoryview(content).nbytes
            except BlockingIOError as full:  # another program made the terminal or pipe non-blocking
                left = left[full.characters_written :]
                select.select([], [self], [])
            except OSError as problem:
                self.problem = problem
        self._stop()
        return memoryview(content).nbytes

    def flush(self) -> None:
        while self.problem is None:
            try:
                return super().flush()
            except BlockingIOError:
                select.select([], [self], [])
            except OSError as problem:
                self.problem = problem
        return self._stop()

    def _stop(self) -> None:
        if self.stops and self.problem and threading.current_thread() is threading.main_thread():
            raise Unwritten(self.problem)


_results: Output | None = None
_verdict = False


def guard() -> None:
    """Take over standard output and standard error, once, before anything opens a file.

    A closed descriptor is occupied first. Otherwise the next file that we open would get its number, and our output.
    """
    global _results
    if _results is not None:
        return
    for descriptor in range(3):
        _occupy(descriptor)
    _results = Output(1, stops=True)
    sys.stdout = _text(_results, sys.stdout)
    sys.stderr = _text(Output(2, stops=False), sys.stderr)
    if sys.stdin is None:
        sys.stdin = open(0, closefd=False)  # noqa: SIM115  # a descriptor that stays open


def _occupy(descriptor: int) -> None:
    """Open the null device at a closed descriptor, for reading only, so that standard output stays unwritable."""
    try:
        os.fstat(descriptor)
    except OSError:
        opened = os.open(os.devnull, os.O_WRONLY if descriptor == 2 else os.O_RDONLY)
        if opened != descriptor:
            os.dup2(opened, descriptor)
            os.close(opened)
        os.set_inheritable(descriptor, True)


def _text(output: Output, before: TextIO | None) -> TextIO:
    encoding = before.encoding if before is not None else "utf-8"
    lines = output.isatty() or output.fileno() == 2
    return io.TextIOWrapper(output, encoding, errors="replace", line_buffering=lines)


def words_stop_nothing() -> None:
    """From here on, an unwritable standard output does not end the command: it has more to do than to print."""
    if _results is not None:
        _results.stops = False


def verdict_stands() -> None:
    """Note that a verdict was reached: its exit code stands, even if it cannot be printed."""
    global _verdict
    _verdict = True
    words_stop_nothing()


def finished(code: int) -> int:
    """The exit code of a command that ends with this code, after the last output was written."""
    if _results is None:
        return code
    with suppress(Unwritten):
        sys.stdout.flush()
    words_stop_nothing()
    if _results.problem is None:
        return code
    unwritten = Unwritten(_results.problem)
    if unwritten.exit_code == UNWRITTEN_EXIT_CODE:
        stands = "; the exit code is the verdict's" if _verdict else ""
        print(f"ackproof: {unwritten}{stands}", file=sys.stderr)
    return code if _verdict else code or unwritten.exit_code
