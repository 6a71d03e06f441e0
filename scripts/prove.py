"""Run the tests that prove what the laboratory promises, and keep what they measured.

`docs/proofs.toml` lists the promises. A test that is marked `@pytest.mark.proves("C3")` proves promise C3. Each case of
a test is recorded in `.proofs/cases.jsonl` when it ends. A case is not run again if its last record with the current
commit says passed, so the same command goes on after an interruption. `--since COMMIT` also accepts records of COMMIT
and of the commits after it; `--again` accepts none. Records of a tree with uncommitted changes are never accepted.

When all cases of a promise have ended, `trust.py` adds its result to `docs/trust.json` and writes `docs/trust.md`.
The result of a tree with uncommitted changes is printed and not kept.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from proof_cases import RECORD, Case, Sitting, last_outcomes, read_lines, result_of, share, void
from trust import CHANGED, HOME, git, keep, read_promises, read_results

CODE = (
    "src",
    "tests",
    "scripts",
    "constraints.txt",
    "pyproject.toml",
)  # a change in one of these makes recorded passes void
TIMEOUT_S = {"quick": 600, "full": 6 * 3600}  # for one test
MEMORY = {"quick": "2g", "full": "6g"}  # for Java, because one Spark judges all histories
APART = str(HOME / "scripts" / "apart")
BY_FILES = ["--dist", "loadfile", "--no-loadscope-reorder"]
TWO_FILES_AT_ONCE = ["-n", "2", *BY_FILES]
TWO_LABS_AT_ONCE = ["--tx", f"2*popen//python={shlex.join([APART, sys.executable])}", *BY_FILES]


class Test(msgspec.Struct, frozen=True):
    """One case of a test, as pytest collected it."""

    case: str
    proves: list[str]
    cluster: bool = False
    batch: int = 0  # the number of cases of its file that run in one process; 0: all

    @property
    def file(self) -> str:
        return self.case.partition("::")[0]


Process = tuple[list[str], list[Test]]  # options for pytest, and what it runs
Done = subprocess.CompletedProcess[str]


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--only", type=lambda text: text.split(","), metavar="A1,C3", help="prove only these promises")
    options.add_argument("--quick", action="store_true", help="run what CI runs, at its size")
    options.add_argument("--since", metavar="COMMIT", help="do not run what passed with COMMIT or later")
    options.add_argument("--again", action="store_true", help="run every case")
    options.add_argument("--at-once", type=int, default=1, metavar="N", help="run N processes at once; needs root")
    options.add_argument(
        "--take", nargs="+", type=Path, default=(), metavar="CLONE", help="add the results that these clones kept"
    )
    options.add_argument("--only-write", action="store_true", help="write docs/trust.md; run nothing")
    given = options.parse_args()
    # A shell makes its background jobs ignore SIGINT, and every program under test would inherit that.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        sitting = Sitting("quick" if given.quick else "full", given.at_once, commit())
    except (OSError, subprocess.CalledProcessError):
        options.error("this is no git clone, and every result is kept with its commit")
    promises = read_promises()
    if unknown := [name for name in given.only or () if name not in promises]:
        options.error(f"there is no promise {', '.join(unknown)}; there are {', '.join(promises)}")
    if unknown_clones := [clone for clone in given.take if not (clone / "docs" / "trust.json").exists()]:
        options.error(f"{unknown_clones[0]} is no clone of this project")
    keep([result for clone in given.take for result in read_results(clone)])
    if given.take or given.only_write:
        return 0
    accepted = set() if given.again else accepted_commits(sitting.commit, given.since)
    try:
        return 0 if prove(sitting, given.only, accepted) else 1
    except KeyboardInterrupt:
        say("interrupted; the cases that passed are recorded, so the same command goes on from there")
        return 130


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# -- prove -----------------------------------------------------------------------------------------------------------


def prove(sitting: Sitting, only: list[str] | None, accepted: set[str]) -> bool:
    """Prove these promises (default: all of this size), and say whether each of them passed."""
    promises, began = read_promises(), time.monotonic()
    asked = only or [name for name, promise in promises.items() if promise.quick or sitting.size == "full"]
    tests = collect(sitting.size)
    proving = {name: [test for test in tests if name in test.proves] for name in asked}
    wanted = [test for test in tests if set(test.proves) & set(asked)]
    ended = last_outcomes(sitting.size, accepted)
    known = {t.case: ended[t.case] for t in wanted if t.case in ended and ended[t.case].outcome == "passed"}
    resumed = len(known)
    say(f"{resumed} of {len(wanted)} cases are recorded as passed and are not run again")
    if sitting.size == "quick" or sitting.at_once > 1:  # in one process, so that what the tests share starts only once
        run_tests(wanted, known, sitting)
        if known and not (only or resumed) and sitting.at_once == 1:
            keep([share(list(known.values()), time.monotonic() - began)])
    failed = []
    for place, (name, own) in enumerate(proving.items(), start=1):
        before = f"{place} of {len(asked)}: {name}"
        if not own:
            say(f"{before} NOT PROVED: no test proves it at {sitting.size} size")
            failed.append(name)
            continue
        say(f"{before} ...")
        run_tests(own, known, sitting)
        result = result_of(name, [test.case for test in own], known, sitting)
        keep([result])
        failed += [] if result.passed else [name]
        say(f"{before} {'passed' if result.passed else 'FAILED'}: {'; '.join(result.figures)}")
        for hole in result.holes:
            say(f"    could not be run here: {hole}")
    if sitting.commit.endswith(CHANGED):
        say("nothing of this is kept in docs/trust.json: the tree has uncommitted changes")
    say(f"{len(asked) - len(failed)} of {len(asked)} proved" + (f"; not {', '.join(failed)}" if failed else ""))
    return not failed


def collect(size: str) -> list[Test]:
    """Return every case that proves a promise at this size, in pytest's order. An unreadable file ends the program."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl") as found:
        done = run_pytest(["--collect-only", f"--record={found.name}"], Sitting(size, 1, ""), out=subprocess.PIPE)
        if done.returncode:
            sys.exit(f"{done.stdout}pytest could not read all tests (exit {done.returncode}), so nothing can be proved")
        return [msgspec.convert(line, Test) for line in read_lines(Path(found.name))]


def run_tests(tests: Iterable[Test], known: dict[str, Case], sitting: Sitting) -> None:
    """Run the tests whose outcome is not known, and add what is recorded of them to `known`."""
    missing = [test for test in tests if test.case not in known]
    if not missing:
        return
    RECORD.parent.mkdir(exist_ok=True)
    offset = RECORD.stat().st_size if RECORD.exists() else 0
    in_parts = sitting.size == "full" or sitting.at_once > 1  # one process for all files would keep the memory of all
    if sitting.at_once > 1 or sitting.size == "quick":  # labs that run apart cannot reach the internet
        subprocess.run([sys.executable, str(HOME / "scripts" / "fetch.py")], check=True)

    def run(process: Process) -> None:
        options, own = process
        code = run_recorded(options, own, sitting)
        if code not in (0, 1):
            say(f"pytest ended with {code}")
        if commit() != sitting.commit:
            void([test.case for test in own], sitting)
            sys.exit("the code was changed while it was proved; the cases that ran meanwhile will be run again")

    with ThreadPoolExecutor(sitting.at_once) as pool:
        try:
            list(pool.map(run, processes_of(missing) if in_parts else processes_of_ci(missing)))
        finally:
            pool.shutdown(cancel_futures=True)
    known |= last_outcomes(sitting.size, {sitting.commit}, offset)


def processes_of(tests: Iterable[Test]) -> list[Process]:
    """Return one process for each file, or for as many of its cases as its marker `in_one_process` says."""
    files = defaultdict[tuple[str, int], list[Test]](list)
    for test in tests:
        files[test.file, test.batch].append(test)
    found: list[Process] = []
    for (_, batch), own in files.items():
        step = batch or len(own)
        found += [([], own[first : first + step]) for first in range(0, len(own), step)]
    return found


def processes_of_ci(tests: Iterable[Test]) -> list[Process]:
    """Return first the tests without a cluster, then the others. Two files run at once; with clusters only as root."""
    two_labs = TWO_LABS_AT_ONCE if os.getuid() == 0 else []
    both = [(TWO_FILES_AT_ONCE, [t for t in tests if not t.cluster]), (two_labs, [t for t in tests if t.cluster])]
    return [(options, own) for options, own in both if own]


def run_recorded(options: list[str], tests: list[Test], sitting: Sitting) -> int:
    """Run exactly these cases; the plugin in tests/support/proving.py records each when it ends."""
    with tempfile.NamedTemporaryFile("w", suffix=".json") as chosen:
        json.dump([test.case for test in tests], chosen)
        chosen.flush()
        files = dict.fromkeys(test.file for test in tests)
        arguments = [*options, f"--timeout={TIMEOUT_S[sitting.size]}", f"--cases={chosen.name}", f"--record={RECORD}"]
        return run_pytest([*arguments, *files], sitting, apart=sitting.at_once > 1).returncode


def run_pytest(arguments: list[str], sitting: Sitting, out: Any = sys.stderr, apart: bool = False) -> Done:
    paths = [str(HOME / "src"), str(HOME), os.environ.get("PYTHONPATH", "")]
    about = {"size": sitting.size, "commit": sitting.commit, "machine": machine(), "command": shlex.join(sys.argv)}
    environment = {"ACKPROOF_JUDGE_MEMORY": MEMORY[sitting.size], **os.environ, "ACKPROOF_PROVE": sitting.size}
    environment |= {"PYTHONPATH": ":".join(filter(None, paths)), "ACKPROOF_PROOF": json.dumps(about)}
    command = [
        *[APART] * apart,
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-p",
        "tests.support.proving",
        "-p",
        "no:cacheprovider",
        "-q",
    ]
    command += [f"--rootdir={HOME}", "-m", "not long" if sitting.size == "quick" else "", *arguments]
    return subprocess.run(command, cwd=HOME, env=environment, stdout=out, text=True, check=False)


# -- the code and the machine ----------------------------------------------------------------------------------------


def commit() -> str:
    return git("rev-parse", "--short=7", "HEAD") + CHANGED * bool(git("status", "--porcelain", "--", *CODE))


def accepted_commits(current: str, since: str | None) -> set[str]:
    """Return the commits whose passes count: the current one, or all since `since`; never a tree with changes."""
    if current.endswith(CHANGED):
        return set()
    if since is None:
        return {current}
    try:
        git("merge-base", "--is-ancestor", since, "HEAD")
    except subprocess.CalledProcessError:
        sys.exit(f"--since {since}: there is no such commit among those that led to this one")
    later = git("log", "--format=%h", "--abbrev=7", "--ancestry-path", f"{since}..HEAD").split()
    return {git("rev-parse", "--short=7", since), *later}


@cache
def machine() -> str:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    java = subprocess.run(["java", "--version"], capture_output=True, text=True, check=False).stdout.split("\n")[0]
    size = f"{os.cpu_count()} cores, {memory:.0f} GiB"
    user = "as root" if os.getuid() == 0 else "not as root"
    return f"Linux {os.uname().release}, {size}, Python {platform.python_version()}, {java}, {user}"


if __name__ == "__main__":
    sys.exit(main())
