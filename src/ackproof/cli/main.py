"""The command line: arguments in, one call, exit code out.

Everything slow is imported where it is used, so that a command reaches its lab in a fraction of a second.
"""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import sys
import tempfile
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from types import FrameType
from typing import Any, NoReturn

import typer

from ackproof import __version__
from ackproof.cli import explain, faults, health, interactive, lab, runs
from ackproof.cli.ui.console import say_problem
from ackproof.core.errors import BUG_EXIT_CODE, FULL, Ended, Problem, UsageProblem, no_space
from ackproof.core.text import plain
from ackproof.host import outputs
from ackproof.host.limits import limit_of
from ackproof.host.outputs import Unwritten

INTERRUPTED = 130

app = typer.Typer(
    name="ackproof",
    help="A failure laboratory for Apache Kafka: what is an acknowledgement worth when the cluster fails?",
    epilog="A first look: `ackproof up`, `ackproof topic create orders`, `ackproof kill leader:orders/0`, "
    "`ackproof status`, `ackproof down`.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"ackproof {__version__}")
        raise typer.Exit


@app.callback()
def _main(
    version: bool = typer.Option(
        False, "--version", help="Print the version and exit.", callback=_version, is_eager=True
    ),
) -> None:
    pass


for group in (runs, lab, faults, interactive, health, explain):
    group.register(app)


def _on_signal(number: int, _: FrameType | None) -> NoReturn:
    """End in good order, which may take a while. From now on an interrupt ends the process at once."""
    _hear(signal.SIGINT, _at_once)
    raise KeyboardInterrupt if number == signal.SIGINT else Ended(number)


def _at_once(_: int, __: FrameType | None) -> NoReturn:
    """End without cleaning up: the kernel ends the lab and its clients with us, and the journal holds what was
    flushed."""
    if sys.stderr.isatty():
        with suppress(OSError):
            os.write(sys.stderr.fileno(), b"\x1b[?25h\n")  # a progress bar hides the cursor
    os._exit(INTERRUPTED)


def _hear(number: int, handler: Callable[[int, FrameType | None], NoReturn]) -> None:
    """Handle a signal unless it is ignored, as interrupts are in a shell's background, and SIGHUP is after `nohup`."""
    if signal.getsignal(number) is not signal.SIG_IGN:
        signal.signal(number, handler)


def main() -> NoReturn:
    """Run the command line and exit with a documented exit code. No traceback reaches a user."""
    outputs.guard()
    sys.exit(outputs.finished(_run()))


def _replace_what_cannot_be_shown() -> None:
    """In a locale that is not UTF-8, print a question mark for a sign that it lacks, here and in the programs that we
    start."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    os.environ.setdefault("PYTHONIOENCODING", ":replace")


@cache
def _command() -> Any:
    """Build the command line from the signatures of all commands, once."""
    return typer.main.get_command(app)


def _run() -> int:
    try:
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            _hear(number, _on_signal)
        _replace_what_cannot_be_shown()
        _refuse_what_is_no_text(sys.argv[1:])
        code = _exit_code(_command()(standalone_mode=False, prog_name="ackproof"))
        if code == INTERRUPTED:  # typer's exit code for Ctrl-C
            print("ackproof: interrupted", file=sys.stderr)
        return code
    except Problem as problem:
        if problem.exit_code == BUG_EXIT_CODE:
            return _bug(problem.message, [*problem.details])
        return _told(problem)
    except KeyboardInterrupt:
        return INTERRUPTED
    except Ended as end:
        return 128 + end.number
    except Unwritten as unwritten:
        return unwritten.exit_code
    except SystemExit as leaving:
        return _exit_code(leaving.code)
    except Exception as problem:  # noqa: BLE001  # the outermost frame: anything not handled here would be a traceback
        return _other(problem)


def _refuse_what_is_no_text(words: Sequence[str]) -> None:
    """Refuse arguments that are not UTF-8: JSON cannot hold them, so a report could not say how to run the command
    again."""
    for word in words:
        if re.search("[\ud800-\udfff]", word):
            raise UsageProblem(f"{plain(word)}: this is not valid UTF-8: use another name or value")


def _exit_code(result: object) -> int:
    return result if isinstance(result, int) else 0


def _other(problem: Exception) -> int:
    """Handle typer's complaints about the command line (exit 2), its ways of leaving, and bugs of ours (exit 70)."""
    if type(problem).__name__ == "NoArgsIsHelpError":
        print(getattr(problem, "message", ""))
        return 2
    if isinstance(problem, OSError) and problem.errno == errno.EIO:  # the terminal is gone
        return 128 + signal.SIGHUP
    if isinstance(problem, OSError) and problem.errno in FULL:
        return _told(no_space(problem.filename or "the run, or of temporary files", problem.errno))
    if limit := limit_of(problem):
        return _told(limit)
    if hasattr(problem, "format_message"):
        context = getattr(problem, "ctx", None)
        path = context.command_path if context else "ackproof"
        told = f"{' '.join(problem.format_message().split())} (`{path} --help` shows how it is used)"
        print(f"ackproof: {plain(told)}", file=sys.stderr)
        return 2
    if type(problem).__name__ == "Abort":
        return INTERRUPTED
    return _bug(repr(problem), traceback.format_exc().splitlines())


def _told(problem: Problem) -> int:
    say_problem(problem)
    return problem.exit_code


def _bug(message: str, details: list[str]) -> int:
    try:
        descriptor, path = tempfile.mkstemp(prefix="ackproof-bug-", suffix=".txt")
        with os.fdopen(descriptor, "w", encoding="utf-8", errors="backslashreplace") as report:
            report.write("\n".join([" ".join(sys.argv), message, *details]) + "\n")
        where = f"{path} holds what we need to mend it"
    except OSError as problem:
        where = f"what we need to mend it could not be written down ({problem.strerror}): set TMPDIR, and try again"
    print(f"ackproof: {plain(f'this is a bug of ours ({message}); {where}')}", file=sys.stderr)
    return BUG_EXIT_CODE
