"""Spark starts silently, listens on loopback only, leaves nothing, and fails with a sentence."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.host import namespaces as kernel
from ackproof.host.processes import below
from ackproof.model.checks import CHECKS
from ackproof.model.verdict import Verdict, read_verdict
from tests.support.histories import History
from tests.support.proving import size
from tests.support.skips import cannot_run

PROGRAM = textwrap.dedent(
    """
    import json, os, sys
    from pathlib import Path
    from ackproof.judge.pipeline import judge; from ackproof.spark.session import warm
    from ackproof.core.errors import Problem

    def listening(pid):
        sockets = {link for fd in Path(f"/proc/{pid}/fd").iterdir() if (link := os.readlink(fd)).startswith("socket:")}
        for table in ("tcp", "tcp6"):
            for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                fields = line.split()
                if fields[3] == "0A" and f"socket:[{fields[9]}]" in sockets:
                    yield fields[1].split(":")[0]

    try:
        with warm("local[1]") as session:
            pid = session.jvm.process.pid
            addresses = set(listening(pid))
            (verdict,) = judge([Path(sys.argv[1])], session=session)
            folder = session.folder
        left = folder.exists() or Path(f"/proc/{pid}").exists()
        print(json.dumps({"result": verdict.result, "addresses": sorted(addresses), "left": left,
            "checks": [check.name for check in verdict.checks if check.result == "confirmed"]}))
    except Problem as problem:
        print(problem.exit_code, problem.message, *problem.details)
    """
)
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}


def run(directory: Path, program: str = PROGRAM, **environment: str) -> tuple[str, str]:
    ended = subprocess.run(
        [sys.executable, "-c", program, str(directory)],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, **environment},
        check=False,
    )
    return ended.stdout.strip(), ended.stderr.strip()


@pytest.mark.proves("F4")
def test_spark_prints_nothing_leaves_nothing_and_listens_on_loopback_only(tmp_path: Path) -> None:
    history = History()
    for seq in range(5):
        history.send(seq, seq).log(seq, seq)
    out, err = run(history.write(tmp_path / "run"), TMPDIR=str(tmp_path))
    assert err == ""
    found = json.loads(out)
    assert (found["result"], found["left"]) == ("confirmed", False)
    assert found["checks"] == list(CHECKS)
    assert found["addresses"]
    assert set(found["addresses"]) <= LOOPBACK
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_without_java_spark_fails_with_a_sentence(tmp_path: Path) -> None:
    out, err = run(tmp_path, JAVA_HOME=str(tmp_path), TMPDIR=str(tmp_path))
    assert err == ""
    assert out.startswith("4 Spark's Java did not start; is Java 17 or newer on the PATH?")
    assert list(tmp_path.iterdir()) == []


def test_without_loopback_spark_fails_with_a_sentence(tmp_path: Path) -> None:
    if os.getuid() != 0:
        cannot_run("only root can easily enter a network without loopback")
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=110,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        preexec_fn=lambda: kernel.unshare(kernel.CLONE_NEWNET),
        check=False,
    )
    assert ended.stdout.startswith("4 Spark needs loopback, and 127.0.0.1 cannot be reached"), ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.proves("C8")
def test_with_too_small_a_heap_spark_fails_with_a_sentence(tmp_path: Path) -> None:
    out, err = run(tmp_path, ACKPROOF_JUDGE_MEMORY="100m", TMPDIR=str(tmp_path))
    assert err == ""
    assert out.startswith("4 Spark did not start")
    assert list(tmp_path.iterdir()) == []


def contents(directory: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def java_of(pid: int) -> int:
    """Return the Java process below a process."""
    (java,) = (each for each in below(pid) if Path(f"/proc/{each}/exe").resolve().name == "java")
    return java


@pytest.mark.proves("C8")
def test_a_killed_spark_gives_unknown_and_judging_again_works(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    history = History()
    for seq in range(5):
        history.send(seq, seq).log(seq, seq)
    directory = history.write(tmp_path / "run")
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    before = contents(directory / "journal")
    command = [sys.executable, "-m", "ackproof", "judge", str(directory)]
    environment = {**os.environ, "TMPDIR": str(temporary)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment) as it:
        assert it.stdout is not None
        while "judging 1 run" not in (line := it.stdout.readline()):
            assert line, "the judge ended before the kill"
        os.kill(java_of(it.pid), signal.SIGKILL)
        said = it.communicate(timeout=60)[0]
    assert it.returncode == 3
    assert "The judge could not do its work: Spark's Java was ended by signal 9" in said
    assert "Traceback" not in said
    assert contents(directory / "journal") == before
    again = subprocess.run(command, capture_output=True, text=True, timeout=110, env=environment, check=False)
    assert again.returncode == 0, again.stdout + again.stderr
    assert contents(directory / "journal") == before
    assert list(temporary.iterdir()) == []
    record_property(
        "figure",
        "Java killed while `ackproof judge` asked it: exit 3, the journal the same bytes; exit 0 when judged again",
    )


@pytest.mark.proves("C8")
def test_a_small_heap_is_enough_or_the_verdict_is_unknown(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    count = size(5_000, 500_000)
    history = History()
    for seq in range(count):
        history.send(seq, seq, sent=seq / 10).log(seq, seq)
    history.block(0, count, count)
    directory = history.write(tmp_path / "run")
    before = contents(directory / "journal")
    out, err = run(directory, ACKPROOF_JUDGE_MEMORY="512m", TMPDIR=str(tmp_path))
    assert err == ""
    result = json.loads(out)["result"]
    assert result in ("confirmed", "unknown")
    if result == "unknown":  # only because of the heap
        assert json.loads(run(directory, ACKPROOF_JUDGE_MEMORY="2g", TMPDIR=str(tmp_path))[0])["result"] == "confirmed"
    assert contents(directory / "journal") == before
    record_property("figure", f"{count:,} messages in a heap of 512 MB: {result}, the journal the same bytes")


# Replaces checks in the judge's own process, which the command starts.
BREAKS = """
import sys
if "ackproof.judge.worker" in sys.orig_argv:
    from ackproof.judge.registry import QUESTIONS

    def throws(t):
        raise ZeroDivisionError("no such thing")

    def throws_in_spark(t):
        return t.sends.selectExpr("run", "cast(raise_error('broke in the job') as int) as what")

    def keeps_too_much(t):  # 200 million numbers of each message: 1.6 GB at once
        return t.sends.selectExpr("run", "size(sequence(seq % 1, 200000000L)) as what")

"""
BROKEN = {  # which checks are broken, the heap, and the message
    "checks that throw": ({"duplicated": "throws", "phantom": "throws_in_spark"}, "2g", "duplicated, phantom"),
    "a heap that is too small": ({"duplicated": "keeps_too_much"}, "512m", "needs more than its heap of 512m"),
}


@pytest.mark.long
@pytest.mark.proves("C8")
@pytest.mark.timeout(900)
@pytest.mark.parametrize("what", BROKEN)
def test_a_check_that_breaks_under_the_command_gives_unknown_and_judging_again_works(
    tmp_path: Path, what: str, record_property: Callable[[str, object], None]
) -> None:
    broken, heap, reason = BROKEN[what]
    history = History(expect={"lost": "required"})
    for seq in range(20):
        history.send(seq, seq)
    for seq in range(17):
        history.log(seq, seq)
    directory = history.write(tmp_path / "run")
    before = contents(directory / "journal")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "sitecustomize.py").write_text(
        BREAKS + "".join(f"    QUESTIONS[{name!r}] = {function}\n" for name, function in broken.items())
    )
    paths = f"{tmp_path / 'broken'}:{os.environ.get('PYTHONPATH', '')}"
    code, verdict = judged(directory, PYTHONPATH=paths, ACKPROOF_JUDGE_MEMORY=heap)
    assert (code, verdict.result) == (3, "unknown")
    assert reason in verdict.sentence
    assert contents(directory / "journal") == before
    code, verdict = judged(directory)
    assert (code, verdict.result, verdict.lost) == (0, "confirmed", 3)
    assert contents(directory / "journal") == before
    record_property("figure", f"{what}: exit 3, the journal the same bytes; judged again: exit 0 and 3 lost, as it was")


def judged(directory: Path, **environment: str) -> tuple[int, Verdict]:
    """Run `ackproof judge`, and return the exit code and the verdict that it wrote."""
    done = subprocess.run(
        [sys.executable, "-m", "ackproof", "judge", str(directory)],
        capture_output=True,
        text=True,
        timeout=420,
        env={**os.environ, **environment},
        check=False,
    )
    verdict = read_verdict(directory)
    assert verdict is not None, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, verdict


@pytest.mark.proves("A1")
def test_a_judge_that_is_killed_leaves_nothing(tmp_path: Path) -> None:
    killed = (
        "import os, signal\nfrom ackproof.spark.session import warm\n"
        "s = warm('local[1]')\nprint(s.jvm.process.pid, flush=True)"
    )
    program = f"{killed}\nos.kill(os.getpid(), signal.SIGKILL)"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=110, env=environment, check=False
    )
    assert ended.returncode == -signal.SIGKILL
    java = Path(f"/proc/{ended.stdout.strip()}")
    deadline = time.monotonic() + 30
    while (java.exists() or list(tmp_path.iterdir())) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not java.exists()
    assert list(tmp_path.iterdir()) == []
