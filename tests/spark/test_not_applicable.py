"""A check never passes if an external client does not report what it needs. Other checks apply as to our clients."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from rich.console import Console

from ackproof.cli.ui.verdict_view import terminal_summary
from ackproof.judge.pipeline import judge
from ackproof.model.external_clients import UNKNOWN_OF_CONSUMERS, UNKNOWN_OF_PRODUCERS
from ackproof.model.verdict import CheckResult, Verdict
from ackproof.report.json_junit import run_json, write_junit
from tests.support.asking import session
from tests.support.histories import FIRST_RUN, History

COMMAND = {"command": ["my-client"]}


def foreign(run: int) -> History:
    """Return a run whose external client should send five messages and reported three; the log has one more."""
    history = History(run=FIRST_RUN + run, expect={"lost": "forbidden"}, producers=[COMMAND]).block(0, 5)
    for seq in range(3):
        history.send(seq, seq).log(seq, seq)
    return history.log(3, 3)


def _lossy(history: History) -> None:
    del history.rows["log"][2]
    history.rows["log"][2]["offset"] = 2
    history.rows["ends"].clear()


CASES: dict[str, Callable[[History], object]] = {
    "good": lambda history: history,
    "beyond what it was asked for": lambda history: history.log(4, 5),
    "forbids what it does not tell": lambda history: history.expect.update(ack_latency="forbidden"),
    "requires what it does not tell": lambda history: history.expect.update(unavailable="required"),
    "lossy": _lossy,
    "with a consumer": lambda history: history.consumers.append(COMMAND),
    "ours": lambda history: history.producers.clear(),
}


@pytest.fixture(scope="module")
def verdicts(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Verdict]:
    folder = tmp_path_factory.mktemp("runs")
    directories: list[Path] = []
    for number, (name, change) in enumerate(CASES.items()):
        history = foreign(number)
        change(history)
        directories.append(history.write(folder / name.replace(" ", "-")))
    return dict(zip(CASES, judge(directories, session=session()), strict=True))


def check(verdict: Verdict, name: str) -> CheckResult:
    return next(each for each in verdict.checks if each.name == name)


def test_an_unreported_message_in_the_log_is_recovered_and_no_phantom(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["good"]
    assert (verdict.result, verdict.acked) == ("confirmed", 3)
    assert {fate: count for fate, count in verdict.fates.items() if count} == {
        "survived": 3, "recovered": 1, "not_written": 1,
    }  # fmt: skip
    assert check(verdict, "phantom").found == 0


def test_a_message_that_no_client_was_asked_for_is_a_phantom(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["beyond what it was asked for"]
    assert (verdict.result, check(verdict, "phantom").found) == ("refuted", 1)


def test_a_message_acknowledged_to_an_external_client_can_be_lost(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["lossy"]
    assert (verdict.result, verdict.lost) == ("refuted", 1)


def test_checks_of_unreported_facts_are_not_applicable_and_find_nothing(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["good"]
    untold = {each.name for each in verdict.checks if each.result == "not applicable"}
    assert untold == set(UNKNOWN_OF_PRODUCERS)
    late = check(verdict, "ack_latency")
    assert (late.found, late.witnesses, late.expected) == (None, [], "allowed")
    assert late.text == "Not applicable: producer1 does not tell when a send was due, nor when it began; allowed."
    assert check(verdict, "resurrected").expected == "allowed"  # by default it is forbidden
    assert (verdict.unavailable_ms, verdict.latency_ms) == (None, {})
    assert {"name": "ack_latency", "expected": "allowed", "found": None, "result": "not applicable"} in run_json(
        verdict, None
    )["checks"]


@pytest.mark.parametrize(
    ("case", "name"),
    [("forbids what it does not tell", "ack_latency"), ("requires what it does not tell", "unavailable")],
)
def test_a_scenario_that_expects_something_of_such_a_check_gets_unknown(
    verdicts: dict[str, Verdict], case: str, name: str
) -> None:
    verdict = verdicts[case]
    assert (verdict.result, check(verdict, name).result, check(verdict, name).found) == ("unknown", "unknown", None)
    assert "does not tell" in verdict.sentence


def test_an_external_consumer_has_its_own_list_of_unreported_facts(verdicts: dict[str, Verdict]) -> None:
    untold = {each.name for each in verdicts["with a consumer"].checks if each.result == "not applicable"}
    assert untold == {*UNKNOWN_OF_PRODUCERS, *UNKNOWN_OF_CONSUMERS}


def test_our_own_clients_are_judged_by_every_check_beside_external_ones(verdicts: dict[str, Verdict]) -> None:
    verdict = verdicts["ours"]
    assert all(each.result != "not applicable" for each in verdict.checks)
    assert check(verdict, "ack_latency").found is not None
    assert verdict.latency_ms


def test_not_applicable_is_shown_in_the_terminal_and_is_no_failure_for_ci(
    verdicts: dict[str, Verdict], tmp_path: Path
) -> None:
    screen = Console(width=200)
    with screen.capture() as shown:
        for part in terminal_summary(verdicts["good"]):
            screen.print(part)
    assert "- not applicable: resurrected, realtime_order, aborted_read" in shown.get()
    page = write_junit(
        [verdicts["good"], verdicts["forbids what it does not tell"]], tmp_path / "junit.xml"
    ).read_text()
    assert page.count("<error") == 1
    assert "ack_latency: forbidden, no answer: Not applicable" in page
    assert "resurrected" not in page
