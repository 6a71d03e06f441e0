"""From run directories to verdicts: expectations, several runs at once, and everything that can be wrong with a run.

Nearly all run directories are judged together in one call, which also tests that runs do not mix.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.judge import pipeline as main
from ackproof.judge import run_source as sources
from ackproof.judge.evidence.fitness import log_was_read
from ackproof.judge.frames import Tables
from ackproof.judge.pipeline import judge
from ackproof.judge.registry import QUESTIONS
from ackproof.judge.verdict_builder import Findings
from ackproof.model.checks import CHECKS
from ackproof.model.checks.kind import CheckKind
from ackproof.model.run_record import Marks
from ackproof.model.verdict import CheckResult, Verdict, read_verdict
from ackproof.spark.session import Session
from tests.support.asking import session
from tests.support.histories import FIRST_RUN, History, at

FEW = ("lost", "duplicated", "phantom", "offset_gap", "dual_leader", "claims")
PROVED = (("asked", 5), ("proved", 6), ("healed", 90))


def healthy(seed: int = 0) -> History:
    """Return a run with twenty sends, one each millisecond, and a fault in the middle that costs nothing."""
    history = History(run=FIRST_RUN + seed, expect={"lost": "forbidden", "duplicated": "forbidden"}).fault(*PROVED)
    for seq in range(20):
        history.send(seq, seq).log(seq, seq)
    return history


def lossy(seed: int, lost: int = 3) -> History:
    history = healthy(seed)
    del history.rows["log"][20 - lost :]
    history.expect = {"lost": "required"}
    return history


def _truncate(directory: Path, table: str, keep: float) -> None:
    path = directory / "journal" / table / "writer.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[: int(len(whole) * keep)])


def _flip(directory: Path, table: str) -> None:
    """Flip one bit inside a page. The footer stays as it is."""
    path = directory / "journal" / table / "writer.parquet"
    damaged = bytearray(path.read_bytes())
    damaged[60] ^= 4
    path.write_bytes(bytes(damaged))


def _other_schema(directory: Path) -> None:
    path = directory / "journal" / "log" / "writer.parquet"
    table = pq.read_table(path)
    pq.write_table(table.set_column(3, "offset", table["offset"].cast(pa.int32())), path)


def _half_column(directory: Path) -> None:
    path = directory / "journal" / "sends" / "writer.parquet"
    pq.write_table(pq.read_table(path).drop_columns(["outcome"]), path)


def _borrow(directory: Path, other: Path, table: str) -> None:
    place = Path("journal") / table / "writer.parquet"
    shutil.copy(other / place, directory / place)


def written(folder: Path) -> dict[str, Path]:
    runs: dict[str, History] = {
        "healthy": healthy(0),
        "lossy": lossy(1),
        "lossy-forbidden": lossy(2, lost=1),
        "no-bite": healthy(3),
        "default-forbidden": healthy(4),
        "unfit": healthy(5),
        "unknown-check": healthy(6),
        "needs-state": healthy(7),
        "claims-without-any": healthy(17),
        "producer-died": healthy(8),
        "hole-in-numbers": healthy(9),
        "nothing-acked": History(run=FIRST_RUN + 10),
        "no-sends-table": healthy(11),
        "truncated": healthy(12),
        "other-schema": healthy(13),
        "missing-column": healthy(14),
        "empty": History(run=FIRST_RUN + 15),
        "copies": healthy(17),
        "two-faults": healthy(18),
        "unknown-fault": healthy(20),
    }
    runs["lossy-forbidden"].expect = {"lost": "forbidden"}
    runs["no-bite"].expect = {"lost": "required"}
    runs["default-forbidden"].log(20, 77)
    runs["unfit"].ended = "interrupted"
    runs["two-faults"].fault(("asked", 7), ("proved", 8), ("healed", 9), kind="kill", asked="kafka2", became="kafka2")
    runs["unknown-fault"].faults.clear()
    runs["unknown-fault"].marks = Marks(load_begun_ns=at(0), load_ended_ns=at(20))
    runs["unknown-check"].expect = {"group": "forbidden"}
    runs["needs-state"].expect = {"dual_leader": "forbidden"}
    runs["claims-without-any"].expect = {"claims": "forbidden"}
    runs["producer-died"].block(0, 20, 20).block(20, 5).log(20, 22)
    runs["hole-in-numbers"].block(0, 21, 21)
    runs["nothing-acked"].send(0, outcome="info").send(1, outcome="fail")
    for place, name in enumerate(("stranger", "stranger-required", "stranger-and-ours")):
        runs[name] = healthy(22 + place).log(20, -1, producer=-1).log(21, -1, producer=-1).read(20, -1, producer=-1)
    runs["stranger-required"].expect["phantom"] = "required"
    runs["stranger-and-ours"].log(22, 77)
    runs["copies"].log(20, 3).log(21, 3).expect = {"lost": "forbidden"}
    directories = {name: history.write(folder / name) for name, history in runs.items()}
    shutil.rmtree(directories["no-sends-table"] / "journal" / "sends")
    _truncate(directories["truncated"], "sends", 0.5)
    _other_schema(directories["other-schema"])
    _half_column(directories["missing-column"])
    directories["no-run-json"] = healthy(16).write(folder / "no-run-json")
    (directories["no-run-json"] / "run.json").unlink()
    directories["bad-run-json"] = healthy(16).write(folder / "bad-run-json")
    (directories["bad-run-json"] / "run.json").write_text('{"run": "no number"}')
    directories["log-of-another"] = healthy(19).write(folder / "log-of-another")
    for name in ("log", "ends"):
        _borrow(directories["log-of-another"], directories["lossy"], name)
    directories["not-there"] = folder / "not-there"
    return directories


@pytest.fixture(scope="module", autouse=True)
def few_checks() -> Iterator[None]:
    """Use only the checks that the cases below need: each check has tests of its own."""
    every = dict(CHECKS)
    for name in every.keys() - set(FEW):
        del CHECKS[name]
    yield
    CHECKS.clear()
    CHECKS.update(every)  # in the order of the verdict


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def verdicts(folder: Path) -> dict[str, Verdict]:
    directories = written(folder)
    found = judge(list(directories.values()), session=session())
    return dict(zip(directories, found, strict=True))


def check(verdict: Verdict, name: str) -> CheckResult:
    return next(result for result in verdict.checks if result.name == name)


def unfit(verdict: Verdict) -> list[str]:
    return [line.text for line in verdict.fitness if not line.fit]


def test_a_run_as_expected_is_confirmed(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["healthy"]
    assert verdict.result == "confirmed"
    assert unfit(verdict) == []
    assert (verdict.sent, verdict.acked, verdict.lost, verdict.high_watermark) == (20, 20, 0, 20)
    assert verdict.sentence == (
        "Confirmed: with acks=1 isolating the leader kafka1 cost none of 20 acknowledged messages, as expected; "
        "none duplicated or reordered."
    )
    assert [result.name for result in verdict.checks] == list(CHECKS)


def test_a_required_loss_is_confirmed_with_its_figures(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["lossy"]
    assert verdict.result == "confirmed"
    assert (verdict.lost, verdict.fates["lost_truncated"]) == (3, 3)
    assert "cost 3 of 20 acknowledged messages, as expected" in verdict.sentence
    lost = check(verdict, "lost")
    assert (lost.expected, lost.found, lost.result) == ("required", 3, "confirmed")
    assert [row["seq"] for row in lost.witnesses] == [17, 18, 19]
    assert {row["topic"] for row in lost.witnesses} == {"orders"}


def test_further_faults_are_counted(verdicts: dict[str, Verdict]) -> None:
    assert "isolating the leader kafka1 and 1 more fault cost none of" in verdicts["two-faults"].sentence


def test_a_check_without_data_says_so(verdicts: dict[str, Verdict]) -> None:
    result = check(verdicts["healthy"], "dual_leader")
    assert (result.expected, result.found, result.result) == ("allowed", None, "confirmed")
    assert result.text == "Nothing to look at: the journal has no state; allowed."


def test_a_check_without_a_threshold_in_the_scenario_shows_no_number(verdicts: dict[str, Verdict]) -> None:
    result = check(verdicts["healthy"], "claims")
    assert (result.expected, result.found, result.result) == ("allowed", None, "confirmed")


def test_a_forbidden_loss_is_refuted(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["lossy-forbidden"]
    assert verdict.result == "refuted"
    assert "lost is forbidden and was found 1 time;" in verdict.sentence


def test_a_required_loss_that_did_not_happen_is_refuted(verdicts: dict[str, Verdict]) -> None:
    assert verdicts["no-bite"].result == "refuted"
    assert "the fault had no such effect" in verdicts["no-bite"].sentence


def test_anomalies_that_no_configuration_permits_are_forbidden_by_default(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["default-forbidden"]
    assert verdict.result == "refuted"
    assert check(verdict, "phantom").found == 1
    assert verdict.identity["phantoms"] == 1


def test_a_record_without_a_number_of_ours_is_not_blamed_on_kafka(verdicts: dict[str, Verdict]) -> None:
    """Any program that reaches the brokers can write such a record."""
    verdict = verdicts["stranger"]
    assert (verdict.result, verdict.identity["phantoms"]) == ("unknown", 2)
    assert [each.name for each in verdict.checks if each.result != "confirmed"] == ["phantom"]
    result = check(verdict, "phantom")
    assert (result.expected, result.found, result.result) == ("forbidden", 3, "unknown")
    assert result.text == (
        "3 records with a number that no producer reserved; forbidden; but none of them has the form of this run's "
        "messages: a stranger, or an external client, wrote into the topic."
    )
    assert "a stranger, or an external client, wrote into the topic" in verdict.sentence
    required = check(verdicts["stranger-required"], "phantom")
    assert (required.expected, required.found, required.result) == ("required", 3, "unknown")


def test_near_miss_a_record_with_our_number_beside_such_a_record_is_blamed_on_kafka(
    verdicts: dict[str, Verdict],
) -> None:
    verdict = verdicts["stranger-and-ours"]
    result = check(verdict, "phantom")
    assert (verdict.result, result.found, result.result) == ("refuted", 4, "refuted")


UNKNOWN = {
    "unfit": "it was interrupted",
    "unknown-check": "no check named group",
    "needs-state": "has no state",
    "claims-without-any": "the scenario gives claims nothing to compare",
    "hole-in-numbers": "1 of the producers' message numbers were used and never reported",
    "nothing-acked": "nothing was acknowledged",
    "no-sends-table": "no table `sends`",
    "truncated": "sends/writer.parquet cannot be read",
    "other-schema": "its column offset is int32, not int64",
    "missing-column": "missing: outcome",
    "unknown-fault": "the journal tells of fault 1, which run.json does not know",
    "log-of-another": "log/writer.parquet is of another run",
    "empty": "nothing was acknowledged",
    "no-run-json": "run.json is missing",
    "bad-run-json": "run.json cannot be read",
    "not-there": "no run directory",
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_unknown_is_never_a_pass_and_says_why(verdicts: dict[str, Verdict], name: str) -> None:
    assert verdicts[name].result == "unknown"
    assert UNKNOWN[name] in verdicts[name].sentence
    assert "Traceback" not in verdicts[name].sentence


def test_runs_do_not_mix(verdicts: dict[str, Verdict]) -> None:
    expected = {"lossy": 3, "lossy-forbidden": 1}
    for name, verdict in verdicts.items():
        if log_was_read(verdict.fitness):
            assert verdict.lost == expected.get(name, 0), name
        else:
            unread = (verdict.high_watermark, verdict.lost, verdict.duplicated, verdict.reordered, verdict.fates)
            assert unread == (None, None, None, None, {}), name
            assert not any(each.found or each.witnesses for each in verdict.checks if each.name == "lost")


def test_numbers_that_a_dead_producer_reserved_have_the_outcome_info(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["producer-died"]
    assert (verdict.sent, verdict.acked, verdict.unknown) == (25, 20, 5)
    assert (verdict.fates["recovered"], verdict.fates["not_written"]) == (1, 4)
    assert check(verdict, "phantom").found == 0
    assert verdict.result == "confirmed"


def _span(verdict: Verdict) -> int:
    assert verdict.high_watermark is not None
    assert verdict.log_start is not None
    return verdict.high_watermark - verdict.log_start


def test_the_identity_explains_the_high_watermark(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["copies"]
    assert verdict.result == "confirmed"
    assert _span(verdict) == 22
    assert verdict.identity == {
        "survived": 20,
        "survived_moved": 0,
        "recovered": 0,
        "resurrected": 0,
        "extra_copies": 2,
        "phantoms": 0,
        "markers": 0,
        "gaps": 0,
    }
    for one in verdicts.values():
        if one.result != "unknown":
            assert sum(one.fates.values()) == one.sent
            assert sum(one.identity.values()) == _span(one)


def test_witnesses_are_kept_as_parquet(folder: Path, verdicts: dict[str, Verdict]) -> None:
    rows = pq.read_table(folder / "lossy" / "verdict" / "lost").to_pylist()
    assert [row["seq"] for row in rows] == [17, 18, 19]
    assert {row["run"] for row in rows} == {FIRST_RUN + 1}
    assert not (folder / "healthy" / "verdict" / "lost").exists()
    assert read_verdict(folder / "lossy") == verdicts["lossy"]


def test_faults_are_summed_up(verdicts: dict[str, Verdict]) -> None:
    (fault,) = verdicts["healthy"].faults
    assert (fault.kind, fault.targets, fault.proved) == ("isolate", ["kafka1"], True)


@pytest.mark.proves("C4", "G3")
def test_judging_again_gives_the_same_bytes_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Also in another place, with the rows in another order and in two files, and on a read-only disk."""
    here = lossy(1).write(tmp_path / "here" / "run")
    moved = tmp_path / "elsewhere" / "run"
    shutil.copytree(here, moved)
    path = moved / "journal" / "sends" / "writer.parquet"
    table = pq.read_table(path)
    pq.write_table(table.slice(0, 9).take(list(range(8, -1, -1))), path)
    pq.write_table(table.slice(9), path.with_name("another.parquet"))
    read_only = tmp_path / "read-only" / "run"  # the same run twice in one call: the two cannot share a job
    shutil.copytree(moved, read_only)
    can_write = sources._writable
    monkeypatch.setattr(sources, "_writable", lambda directory: directory != read_only and can_write(directory))
    verdicts = judge([here, moved, read_only], session=session())
    bytes_of = [(directory / "verdict" / "verdict.json").read_bytes() for directory in (here, moved)]
    assert bytes_of[0] == bytes_of[1]
    assert verdicts[0] == verdicts[1] == verdicts[2]
    assert verdicts[0].result == "confirmed"
    assert not (read_only / "verdict").exists()
    judge([here], session=session())
    assert (here / "verdict" / "verdict.json").read_bytes() == bytes_of[0]
    assert [p.name for p in here.iterdir() if p.name.startswith(".")] == []
    assert list(session().folder.glob("witnesses-*")) == []


@pytest.mark.proves("C8")
def test_a_check_that_throws_is_unknown_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def at_once(_: object) -> None:
        raise ZeroDivisionError("no such thing")

    def in_the_job(t: Tables) -> object:
        return t.sends.selectExpr("run", "cast(raise_error('broke in the job') as int) as what")

    monkeypatch.setitem(CHECKS, "duplicated", CheckKind("", "", "", "", "forbidden"))
    monkeypatch.setitem(CHECKS, "unavailable", CheckKind("", "", "", ""))
    for name, function in {"duplicated": at_once, "phantom": in_the_job, "unavailable": at_once}.items():
        monkeypatch.setitem(QUESTIONS, name, function)
    (verdict,) = judge([lossy(1).write(tmp_path / "run")], session=session())
    assert verdict.result == "unknown"
    assert "no answer from duplicated, phantom, unavailable" in verdict.sentence
    assert check(verdict, "duplicated").broke == "ZeroDivisionError: no such thing"
    assert "broke in the job" in (check(verdict, "phantom").broke or "")
    assert (check(verdict, "duplicated").found, check(verdict, "lost").found) == (None, 3)
    assert verdict.unavailable_ms is None


@pytest.mark.proves("B2")
def test_a_damaged_page_is_named_and_the_rest_is_judged(tmp_path: Path) -> None:
    directory = lossy(1).write(tmp_path / "run")
    _flip(directory, "log")
    (verdict,) = judge([directory], session=session())
    assert verdict.result == "unknown"
    assert any("log/writer.parquet cannot be read" in text for text in unfit(verdict))
    assert verdict.acked == 20


def test_a_table_whose_only_file_has_a_damaged_page_counts_as_empty(tmp_path: Path) -> None:
    with sources.opened(lossy(1).write(tmp_path / "run")) as source:
        (path,) = source.files["log"]
        assert source.rows["log"] == 17
        left = source.without({path: "damaged"})
    assert (left.rows["log"], left.rows["sends"]) == (0, 20)


@pytest.mark.proves("C8")
def test_spark_that_dies_is_unknown_and_judging_again_works(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def dead(*_: object) -> Sequence[object]:
        raise ConnectionRefusedError("Spark is gone")

    directory = lossy(1).write(tmp_path / "run")
    with monkeypatch.context() as patched:
        patched.setattr(main, "producers_of", dead)
        (verdict,) = judge([directory], session=session())
    assert verdict.result == "unknown"
    assert "Spark is gone" in verdict.sentence
    assert read_verdict(directory) == verdict
    (again,) = judge([directory], session=session())
    assert again.result == "confirmed"


@pytest.mark.parametrize(
    ("why", "way_out"),
    [
        ("a bug of ours", ""),
        (
            "java.io.IOException: No space left on device",
            ": make room on the disk of the run and of temporary files, or set TMPDIR to another place",
        ),
    ],
)
def test_a_run_that_breaks_the_judge_does_not_harm_the_other_runs(
    why: str, way_out: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    find = main._find

    def breaks(session: Session, sources: Sequence[sources.Source], *others: Any) -> Findings:
        if any(source.record.run == FIRST_RUN + 1 for source in sources):
            raise RuntimeError(why)
        return find(session, sources, *others)

    monkeypatch.setattr(main, "_find", breaks)
    good, bad = judge([healthy(0).write(tmp_path / "good"), healthy(1).write(tmp_path / "bad")], session=session())
    assert good.result == "confirmed"
    assert (bad.result, unfit(bad)) == ("unknown", [f"The judge could not do its work: RuntimeError: {why}{way_out}."])
