"""Many bad scenario files and command lines: exit code 2, every problem with its file and line, no traceback, and
nothing starts.

Each file is a good one with one change. The problem is reported at the changed line, or at the head of its table.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from ackproof.cli.runs import _settings
from ackproof.core.errors import UsageProblem
from ackproof.core.safe_json import LARGEST_JSON
from tests.support.command_line import AIMED_AT_A_LAB, BAD_LINES, Run, run, state
from tests.support.proving import size
from tests.support.scenarios import GOOD

__all__ = ["run", "state"]  # fixtures

Told = Callable[[str, object], None]

# what is changed, into what, and a word of what is told
RECORDED = str(Path(__file__).parents[2] / "recorded" / "runs" / "no-loss")
BAD_FILES = [
    # no TOML, or not text
    ('name = "good"', "name = good", "not TOML"),
    ('name = "good"', 'name = "good', "not TOML"),
    ('name = "good"', 'name "good"', "not TOML"),
    ('name = "good"', '= "good"', "not TOML"),
    ('section = "X"', 'name = "again"', "not TOML"),
    ("[[topics]]", "[[topics]", "not TOML"),
    ("[[topics]]", "[topics", "not TOML"),
    ("partitions = 2", "partitions = 2, 3", "not TOML"),
    ("partitions = 2", "partitions = 02", "not TOML"),
    ("partitions = 2", "partitions = two", "not TOML"),
    ("partitions = 2", 'partitions = "2', "not TOML"),
    ("partitions = 2", "settings = { a = 1", "not TOML"),
    ("count = 1000", "count = 1000\ncount = 7", "not TOML"),
    ("rate = 100", "rate = 1e", "not TOML"),
    ("rate = 100", f"rate = {'[' * 100_000}", "nested too deeply"),
    ("rate = 100", f"rate{'.a' * 2_000} = 1", "nested too deeply"),
    # of another shape
    ('title = "A good one"', "title = 7", "text is wanted"),
    ('title = "A good one"', 'titel = "A good one"', "did you mean title?"),
    ('summary = "Nothing wrong with it."', "summary = true", "text is wanted"),
    ('section = "X"', "section = []", "text is wanted"),
    ('name = "orders"', 'name = ["orders"]', "text is wanted"),
    ("partitions = 2", "partitions = 2.5", "whole number"),
    ("partitions = 2", "partitions = true", "whole number"),
    ("partitions = 2", "partitions = [2]", "whole number"),
    ("partitions = 2", "partions = 2", "did you mean partitions?"),
    ("partitions = 2", "replicas = 2", "unknown key 'replicas'"),
    ("partitions = 2", "partitions = 2\nreplicatoin = 3", "did you mean replication?"),
    ("partitions = 2", 'settings = "x"', "settings"),
    ("partitions = 2", "settings = { a = [1] }", "settings"),
    ("partitions = 2", 'made_by = "nobody"', "none of lab, producer"),
    ("count = 1000", "count = 1.5", "whole number"),
    ("count = 1000", "count = 2026-01-01", "whole number"),
    ("count = 1000", "count = 1000\nacks = 1", "acks"),
    ("count = 1000", 'count = 1000\nacks = "most"', "none of 0, 1, all"),
    ("count = 1000", 'count = 1000\nack = "all"', "did you mean acks?"),
    ("count = 1000", 'count = 1000\nprint = "yes"', "print"),
    ("count = 1000", 'count = 1000\nsize = "big"', "whole number"),
    ("count = 1000", 'count = 1000\nbootstrap = "kafka1"', "bootstrap"),
    ("count = 1000", 'count = 1000\ntopic_check = "ask"', "none of"),
    ("count = 1000", "count = 1000\noutbox = true", "outbox"),
    ("count = 1000", "count = 1000\noutbox = { give_up = 3 }", "give_up"),
    ("count = 1000", "count = 1000\npauses = [{ after = 5 }]", "seconds"),
    ("count = 1000", 'count = 1000\nwhere = "cloud"', "none of client, host"),
    ('kind = "isolate"', "kind = 3", "text is wanted"),
    ('kind = "isolate"', 'kinds = "isolate"', "did you mean kind?"),
    ('targets = ["leader:orders/1"]', 'targets = "leader:orders/1"', "targets"),
    ('targets = ["leader:orders/1"]', "targets = [1]", "targets"),
    ('targets = ["leader:orders/1"]', 'target = ["leader:orders/1"]', "did you mean targets?"),
    ("at_messages = 300", 'at_messages = "300"', "whole number"),
    ("at_messages = 300", "at_mesages = 300", "did you mean at_messages?"),
    ('until = "load-ended"', 'until = "forever"', "until"),
    ('until = "load-ended"', "until_s = true", "number"),
    ('lost = "allowed"', "lost = 0", "text is wanted"),
    ('lost = "allowed"', 'lost = ["allowed"]', "text is wanted"),
    ("[expect]", "[expectt]", "did you mean expect?"),
    ("[[topics]]", "[[topic]]", "did you mean topics?"),
    ("[[producers]]", "[[producer]]", "did you mean producers?"),
    ("[[faults]]", "[[fault]]", "did you mean faults?"),
    ("[[topics]]", "[topics]", "topics"),
    ("[[faults]]", "[faults]", "faults"),
    # of the right shape, and without sense
    ('name = "good"', 'name = ""', "name"),
    ('name = "good"', 'name = "../good"', "name"),
    ('name = "good"', 'name = "a good one"', "name"),
    ('name = "orders"', 'name = ""', "Kafka takes letters"),
    ('name = "orders"', 'name = "or ders"', "Kafka takes letters"),
    ('name = "orders"', 'name = "../orders"', "Kafka takes letters"),
    ('name = "orders"', f'name = "{"o" * 300}"', "Kafka takes letters"),
    ("partitions = 2", "partitions = 0", "partitions"),
    ("partitions = 2", "partitions = -1", "partitions"),
    ("partitions = 2", "replication = 0", "replication"),
    ("partitions = 2", "replication = 4", "number of brokers"),
    ("partitions = 2", 'settings = { "cleanup.polcy" = "compact" }', "cleanup.policy"),
    ("count = 1000", "count = 0", "count"),
    ("count = 1000", "count = 1000\nsize = 1", "size"),
    ("count = 1000", "count = 1000\ncopies = 0", "copies"),
    ("count = 1000", "count = 1000\nkeys = 0", "keys"),
    ("count = 1000", "count = 1000\npartition = 7", "partition"),
    ("count = 1000", "count = 1000\nthreads = 0", "threads"),
    ("count = 1000", "count = 1000\nafter = 1", "after"),
    ("count = 1000", 'count = 1000\nuser = "alice"', "user"),
    ("count = 1000", "count = 1000\nrefused = true", "refused"),
    ("rate = 100", "rate = 0", "rate"),
    ("rate = 100", "rate = nan", "rate"),
    ("rate = 100", "rate = inf", "rate"),
    ('kind = "isolate"', 'kind = "reboot"', "no kind of fault"),
    ('kind = "isolate"', 'kind = "flaky"', "loss"),
    ('kind = "isolate"', 'kind = "flaky"\nloss = 1.5', "loss"),
    ('kind = "isolate"', 'kind = "slow"', "delay_ms"),
    ('kind = "isolate"', 'kind = "partition"', "groups"),
    ('kind = "isolate"', 'kind = "cut"', "apart_from"),
    ('kind = "isolate"', 'kind = "elect"', "partitions"),
    ('kind = "isolate"', 'kind = "isolate"\nport = 0', "port"),
    ('"leader:orders/1"', "", "targets"),
    ("leader:orders/1", "leader:orders", "leader:orders"),
    ("leader:orders/1", "leader:orders/one", "leader:orders/one"),
    ("leader:orders/1", "leader:invoices/0", "no topic"),
    ("leader:orders/1", "follower:orders/7", "no such partition"),
    ("leader:orders/1", "coordinator:transaction:nobody", "no such producer"),
    ("leader:orders/1", "leder:orders/1", "leder:orders/1"),
    ("leader:orders/1", "producer:2", "producer:2"),
    ("leader:orders/1", "kafka0", "no node or role"),
    ("at_messages = 300", "at_messages = -1", "must be 0 or more"),
    ("at_messages = 300", "at_s = -1", "must be 0 or more"),
    ("at_messages = 300", "at_s = 1\nat_messages = 300", "at_"),
    ("at_messages = 300", "", "at_"),
    ('until = "load-ended"', "until_s = 0", "until"),
    ('not_before_new_epoch = "orders/1"', 'not_before_new_epoch = "orders/8"', "no such partition"),
    ('lost = "allowed"', 'vanish = "allowed"', "no check"),
    ('lost = "allowed"', 'lost = "Allowed"', "required, allowed or forbidden"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[judge]\nlate = 5', "did you mean late_ms?"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[judge]\nlate_ms = -5', "late_ms"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[cluster]\nbrokers = 0', "brokers"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[cluster]\nbrokers = 10', "brokers"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[cluster]\nquorum = 2', "quorum"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[cluster]\nlog_dirs = 0', "log_dirs"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[cluster]\nzookeepers = 3', "unknown key 'zookeepers'"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[[consumers]]\ntopic = "ordres"\ngroup = "g"', "did you mean orders?"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[[consumers]]\ntopic = "orders"', "group"),
    ('lost = "allowed"', 'lost = "allowed"\n\n[[consumers]]\ngroup = "g"', "topic"),
    (
        'lost = "allowed"',
        'lost = "allowed"\n\n[[consumers]]\ntopic = "orders"\ngroup = "g"\nstart = "now"',
        "none of",
    ),
    ('lost = "allowed"', 'lost = "allowed"\n\n[[claims]]\nat = "noon"\npartitions = "orders/0"', "noon"),
]
MORE_LINES = [
    ["run"],
    ["run", "nosuchscenario"],
    ["run", "acks1-leader-isolatd"],
    ["run", "acks1-leader-isolated", "--shape", "huge"],
    ["run", "acks1-leader-isolated", "--mode", "docker"],
    ["run", "acks1-leader-isolated", "--set", "producer.acks=most"],
    ["run", "acks1-leader-isolated", "--set", "nothing"],
    ["run", "acks1-leader-isolated", "--set", "producers.acks=all"],
    ["run", "acks1-leader-isolated", "--repeat", "0"],
    ["run", "acks1-leader-isolated", "--junit", "/no/such/place.xml"],
    ["run", "acks1-leader-isolated", "--junit", "/"],
    ["run", "acks1-leader-isolated", "--junit", "x" * 300],
    ["run", "acks1-leader-isolated", "--junit", "x" * 300 + "/page.xml"],
    ["run", "acks1-leader-isolated", "--seed", "x"],
    ["check"],
    ["show", "nosuchfile.toml"],
    ["show", "nosuchscenario"],
    ["judge"],
    ["judge", "x" * 300],
    ["judge", "/"],
    ["report", "/"],
    ["report", RECORDED, "--out", "/no/such/place.html"],
    ["report", RECORDED, RECORDED, "--out", "/no/such/place.html"],
    ["report", RECORDED, "--out", "/proc/cpuinfo/page.html"],
    ["report", RECORDED, "--out", "x" * 300],
    ["report", RECORDED, RECORDED, "--out", "x" * 300 + "/page.html"],
    ["report"],
    ["report", "x" * 300],
    ["report", "x" * 300, "y"],
    ["list", "everything"],
    ["topic", "resize", "x"],
    ["topic", "resize", "x", "many"],
]
LINES = [
    *(line for line, _ in BAD_LINES),
    *(line if "nosuchlab" in line else [*line, "--name", "nosuchlab"] for line in AIMED_AT_A_LAB),
    *MORE_LINES,
]


@pytest.fixture
def nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make it impossible to start a process: an attempt ends with another exit code."""

    def started(*_: object, **__: object) -> None:
        raise AssertionError("something was started")

    monkeypatch.setattr(subprocess, "Popen", started)
    monkeypatch.setattr(subprocess, "run", started)
    for name in ("fork", "forkpty", "posix_spawn", "posix_spawnp", "system"):
        monkeypatch.setattr(os, name, started)


def lines_of(old: str, new: str) -> set[int]:
    """Return the changed lines, and the head of their table."""
    text = GOOD.replace(old, new, 1)
    first = GOOD[: GOOD.index(old)].count("\n") + 1
    changed = set(range(first, first + new.count("\n") + 1))
    heads = [number for number, line in enumerate(text.splitlines(), start=1) if line.startswith("[")]
    return changed | {max((head for head in heads if head <= last), default=1) for last in changed}


def wrong_with(file: Path, old: str, new: str, words: str, answer: tuple[int, str, str]) -> str | None:
    code, out, err = answer
    problems = [line for line in err.splitlines() if not re.search(r"\d+ problems?( found)?:$", line)]
    located = [re.search(rf"{re.escape(str(file))}:(\d+): ", line) for line in problems]
    if (code, out) != (2, "") or not err.startswith("ackproof: ") or "Traceback" in err:
        return f"it ended with {code}"
    if words.lower() not in err.lower():
        return f"it does not say {words!r}"
    if not any(match and int(match[1]) in lines_of(old, new) for match in located):
        return "it names another line"
    nowhere = [line for line, match in zip(problems, located, strict=True) if not match and "the file:" not in line]
    return f"a problem without a line: {nowhere}" if nowhere else None


@pytest.mark.proves("E1")
@pytest.mark.usefixtures("nothing_starts")
def test_a_bad_file_is_reported_with_its_line_before_anything_starts(
    run: Run, tmp_path: Path, record_property: Told
) -> None:
    file, out = tmp_path / "bad.toml", tmp_path / "runs"
    wrong, slowest = [], 0.0
    for old, new, words in BAD_FILES:
        assert old in GOOD
        file.write_text(GOOD.replace(old, new, 1), encoding="utf-8")
        for command in (["check", str(file)], ["run", str(file), "--out", str(out)]):
            began = time.monotonic()
            answer = run(*command)
            slowest = max(slowest, time.monotonic() - began)
            if problem := wrong_with(file, old, new, words, answer):
                wrong.append(f"{command[0]}: {old} -> {new}: {problem}: {answer[2]}")
    assert not wrong, "\n".join(wrong)
    assert not out.exists()
    record_property("figure", f"{len(BAD_FILES)} bad files: exit 2 with the line, the slowest after {slowest:.2f} s")


@pytest.mark.proves("E1")
@pytest.mark.usefixtures("nothing_starts")
def test_a_bad_command_line_is_reported_in_one_sentence_before_anything_starts(run: Run, record_property: Told) -> None:
    wrong, slowest = [], 0.0
    for line in LINES:
        began = time.monotonic()
        code, out, err = run(*line)
        slowest = max(slowest, time.monotonic() - began)
        if (code, out) != (2, "") or not err.startswith("ackproof: ") or "Traceback" in err or err.count("\n") != 1:
            wrong.append(f"{line}: {code} {out} {err}")
    assert not wrong, "\n".join(wrong)
    record_property(
        "figure", f"{len(LINES)} bad command lines: exit 2, one sentence, the slowest after {slowest:.2f} s"
    )


@pytest.mark.proves("E1")
@pytest.mark.parametrize(
    "content", [b"\xff\xfe", b'name = "\xe9"', b"\x00", b"", b"\xef\xbb\xbfname = 1", b"[" * 5_000]
)
@pytest.mark.usefixtures("nothing_starts")
def test_a_file_that_is_empty_or_not_text_is_refused(content: bytes, run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_bytes(content)
    code, out, err = run("check", str(file))
    assert (code, out) == (2, "")
    assert "bad.toml" in err
    assert "Traceback" not in err


@pytest.mark.proves("E1")
def test_something_missing_at_the_end_of_a_file_is_reported_at_its_last_line(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "bad.toml"
    file.write_text("title = 7\nx = [\n\n")
    code, _, err = run("run", str(file))
    assert (code, err) == (2, f"ackproof: {file}:2: not TOML: Invalid value (at end of document)\n")


def no_file(place: Path, kind: str) -> None:
    """Put something that is no file in place of a file."""
    if kind == "a pipe that nobody writes to":
        os.mkfifo(place)
    elif kind == "without an end":
        place.symlink_to("/dev/zero")
    else:
        place.write_text("#" * (LARGEST_JSON + 1))


@pytest.mark.proves("E1")
@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("a pipe that nobody writes to", "it is not a regular file"),
        ("without an end", "it is not a regular file"),
        ("too large", "it has more than 1,048,576 characters"),
    ],
)
@pytest.mark.usefixtures("nothing_starts")
def test_a_path_that_is_no_file_or_too_large_is_refused_without_waiting(
    kind: str, told: str, run: Run, tmp_path: Path
) -> None:
    file = tmp_path / "bad.toml"
    no_file(file, kind)
    for command in (["check"], ["show"], ["run", "--out", str(tmp_path / "runs")]):
        code, out, err = run(*command, str(file))
        assert (code, out) == (2, "")
        assert err.endswith(f" {file} cannot be read: {told}\n")


@pytest.mark.proves("E1")
@pytest.mark.parametrize("kind", ["a pipe that nobody writes to", "without an end", "too large"])
def test_a_run_json_that_is_no_file_or_too_large_is_refused(kind: str, run: Run, tmp_path: Path) -> None:
    no_file(tmp_path / "run.json", kind)
    code, out, err = run("report", str(tmp_path))
    assert (code, out) == (2, "")
    assert err.startswith(f"ackproof: {tmp_path / 'run.json'} cannot be read: it ")
    assert err.count("\n") == 1


@pytest.mark.proves("E1")
def test_data_that_is_nested_too_deeply_is_refused_in_every_file(run: Run, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(f'{{"run": 1, "plan": {{"a": {"[" * 100_000}')
    code, _, err = run("report", str(tmp_path))
    assert (code, err) == (2, f"ackproof: {tmp_path / 'run.json'} cannot be read: it is nested too deeply\n")
    code, _, err = run("run", "acks1-leader-isolated", "--set", f"producer.rate={'[' * 100_000}")
    assert (code, err) == (2, "ackproof: --set producer.rate: nested too deeply\n")


@pytest.mark.proves("E1")
def test_settings_can_come_through_a_pipe_and_have_a_size_limit(tmp_path: Path) -> None:
    """A shell passes secrets through a pipe instead of a file: --kafka-settings <(...)."""
    reading, writing = os.pipe()
    os.write(writing, b"ssl.key.password=swordfish\n")
    os.close(writing)
    assert _settings(Path(f"/dev/fd/{reading}")) == {"ssl.key.password": "swordfish"}
    os.close(reading)
    for kind in ("without an end", "too large"):
        no_file(tmp_path / kind, kind)
        with pytest.raises(UsageProblem, match="cannot be read"):
            _settings(tmp_path / kind)


# A kind of problem: a file that is the good one with one thing changed, or the words of a command.
KINDS: dict[str, tuple[str, str] | list[str]] = {
    "not TOML": ('name = "good"', "name = good"),
    "of another shape": ("partitions = 2", "partions = 2"),
    "without sense": ("leader:orders/1", "leader:invoices/0"),
    "what librdkafka refuses": ("rate = 100", 'rate = 100\nsettings."linger.ms" = "soon"'),
    "no such scenario": ["run", "acks1-leader-isolatd"],
    "no such option": ["up", "--nosuchoption"],
    "no such value": ["up", "--kafka", "banana"],
    "no such lab": ["kill", "kafka1", "--name", "nosuchlab"],
    "no such run": ["judge", "nosuchrun"],
}
# at quick size those that load the most, and an option that is none: the rest load no more, and are told above
AS_COMMANDS = size(["what librdkafka refuses", "no such option", "no such run"], [*KINDS])
AT_MOST_S = 2.0


@pytest.mark.proves("E1")
def test_a_typing_error_is_reported_at_once(tmp_path: Path, record_property: Told) -> None:
    """As a command of its own, with all that Python has to load."""
    file = tmp_path / "bad.toml"
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}

    def seconds(words: list[str]) -> float:
        command = [sys.executable, "-P", "-m", "ackproof", *words]
        began = time.monotonic()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)
        assert (done.returncode, done.stdout) == (2, ""), (words, done.stderr)
        assert done.stderr.startswith("ackproof: "), words
        return time.monotonic() - began

    took = {}
    for kind in AS_COMMANDS:
        wrong = KINDS[kind]
        words = wrong if isinstance(wrong, list) else ["run", str(file), "--out", str(tmp_path / "runs")]
        if isinstance(wrong, tuple):
            file.write_text(GOOD.replace(*wrong, 1), encoding="utf-8")
        took[kind] = min(seconds(words) for _ in range(size(1, 3)))  # others may be at work here
    assert [path.name for path in tmp_path.iterdir()] == ["bad.toml"]
    slowest = max(took, key=lambda kind: took[kind])
    record_property("figure", f"{len(took)} kinds as commands, the slowest ({slowest}) after {took[slowest]:.2f} s")
    if size(False, True):
        assert took[slowest] < AT_MOST_S
