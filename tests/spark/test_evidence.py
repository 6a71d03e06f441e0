"""Fitness: each reason why a run is no evidence, and near misses that are evidence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from inspect import isfunction, signature
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import pytest

from ackproof.journal.writer import Writer
from ackproof.judge.evidence import faults, final_log, interference, processes
from ackproof.judge.evidence import fitness as whole
from ackproof.judge.evidence.facts import Evidence
from ackproof.judge.evidence.fitness import fitness
from ackproof.judge.run_source import opened
from ackproof.judge.sequence_audit import Producer
from ackproof.model.run_record import Clock, Marks
from ackproof.model.verdict import Fitness
from tests.support.histories import History, at
from tests.support.plans import plan_of

GOOD = (("asked", 10), ("proved", 11), ("healed", 90))
LONG = (("asked", 10), ("proved", 11), ("healing", 10_000), ("healed", 10_010))


def ordinary() -> History:
    """Return a run with ten sends, all in the log, and a fault in the middle."""
    history = History().fault(*GOOD)
    for seq in range(10):
        history.send(seq, seq, sent=seq * 3).log(seq, seq)
    return history


def evidence(tmp_path: Path, history: History) -> Evidence:
    sends = history.rows["sends"]
    ok = [row for row in sends if row["outcome"] == "ok"]
    producer = Producer(
        run=history.run,
        producer=0,
        reported=len(sends),
        reserved=len(sends),
        ok=len(ok),
        fail=len([row for row in sends if row["outcome"] == "fail"]),
        info=len([row for row in sends if row["outcome"] == "info"]),
        backwards=0,
        first_ok_ns=min((row["done_ns"] for row in ok), default=None),
        first_sent_ns=min((row["sent_ns"] for row in sends), default=None),
        last_sent_ns=max((row["sent_ns"] for row in sends), default=None),
        last_done_ns=None,
        first_seq=None,
        last_seq=None,
        equal=True,
    )
    with opened(history.write(tmp_path / "run")) as source:
        return Evidence(source, [producer], {"survived": len(sends)}, {"survived": len(history.rows["log"])}, {})


def unfit(e: Evidence) -> list[tuple[str, str]]:
    return [(line.name, line.text) for line in fitness(e) if not line.fit]


def test_an_ordinary_run_is_fit_and_every_line_is_a_sentence(tmp_path: Path) -> None:
    lines = fitness(evidence(tmp_path, ordinary()))
    assert [line.name for line in lines if not line.fit] == []
    assert {line.name for line in lines} >= {"ended", "faults", "traffic", "final_log", "numbers", "identity", "clocks"}
    for line in lines:
        assert line.text[0].isupper() or line.text[0].isdigit(), line
        assert line.text.endswith("."), line


def test_fitness_says_how_often_brokers_were_asked_during_the_load(tmp_path: Path) -> None:
    history = ordinary()
    for broker, moments in ((1, (-5_000, 0, 125, 250, 600)), (2, (10, 135, 260, 9_000))):
        for when in moments:
            history.state(when, broker, leader=1, epoch=0)
            history.state(when, broker, leader=1, epoch=0, partition=1)
    history.marks = Marks(load_begun_ns=at(0), load_ended_ns=at(1_000))
    (line,) = [line for line in fitness(evidence(tmp_path, history)) if line.name == "views"]
    assert line == Fitness(
        "views", True, "Each broker was asked for its view every 125 ms; the longest gap was 350 ms."
    )


@pytest.mark.parametrize("how", ["interrupted", "failed", None])
def test_a_run_that_did_not_finish_is_unfit(tmp_path: Path, how: str | None) -> None:
    history = ordinary()
    history.ended = how
    told = "The run was killed before it ended." if how is None else f"The run did not go to its end: it was {how}."
    assert unfit(evidence(tmp_path, history)) == [("ended", told)]


def test_a_run_that_finished_says_so(tmp_path: Path) -> None:
    assert whole.ended(evidence(tmp_path, ordinary())) == [Fitness("ended", True, "The run went to its end.")]


EXPIRY = {
    "nothing lets it expire": ({"min.insync.replicas": 1}, {}, False),
    "near miss: a topic with retention": ({"retention.ms": 8_000}, {}, True),
    "near miss: a topic with retention, and with more": (
        {"min.insync.replicas": 1, "retention.ms": 8_000},
        {},
        True,
    ),
    "near miss: a compacted topic": ({"cleanup.policy": "compact"}, {}, True),
    "near miss: brokers with retention": ({}, {"broker": {"log.retention.ms": 8_000}}, True),
    "brokers that only look more often": ({}, {"broker": {"log.segment.bytes": 8_000}}, False),
}


@pytest.mark.proves("C7")
@pytest.mark.parametrize("case", EXPIRY)
def test_a_log_that_begins_late_is_evidence_only_if_messages_may_expire(tmp_path: Path, case: str) -> None:
    settings, of_brokers, fit = EXPIRY[case]
    topic = {"name": "orders", "partitions": 1, "settings": settings}
    found = evidence(tmp_path, ordinary())
    record = msgspec.structs.replace(
        found.source.record, plan=plan_of({"topics": [topic], "cluster": {"settings": of_brokers}})
    )
    ends = [{**row, "log_start": 5} for row in found.source.small["ends"]]
    source = replace(found.source, record=record, small={**found.source.small, "ends": ends})
    (line,) = final_log.final_log(replace(found, source=source))
    assert line.fit is fit
    assert fit or line.text.startswith("orders/0 begins at offset 5, but nothing in the scenario lets")


@pytest.mark.parametrize(("log_start", "topics", "fit"), [(0, 1, True), (1, 1, False), (1, 0, True)])
def test_a_log_begins_late_from_its_second_message_on(tmp_path: Path, log_start: int, topics: int, fit: bool) -> None:
    found = evidence(tmp_path, ordinary())
    plan = plan_of({"topics": [{"name": "orders", "partitions": 1}] * topics})
    record = msgspec.structs.replace(found.source.record, plan=plan)
    small = {**found.source.small, "ends": [{**row, "log_start": log_start} for row in found.source.small["ends"]]}
    (line,) = final_log.final_log(replace(found, source=replace(found.source, record=record, small=small)))
    assert line.fit is fit


def _with_fault(
    *events: tuple[str, float], heals: str = "at the end", looks: Sequence[float] = ()
) -> Callable[[], History]:
    def make() -> History:
        history = ordinary()
        history.faults.clear()
        history.rows["faults"].clear()
        probes = [{"fault": 1, "at_ns": at(when), "held": True, "text": "held"} for when in looks]
        history.rows["probes"].extend(probes)
        return history.fault(*events, heals=heals)

    return make


FAULTS = {
    "never began": (_with_fault(), "never began."),
    "asked and not proved": (_with_fault(("asked", 10)), "was not proved."),
    "not proved": (_with_fault(("asked", 10), ("not proved", 12)), "was not proved: not proved, as seen."),
    "not proved at first": (
        _with_fault(("asked", 10), ("not proved", 12), ("proved", 13), ("healed", 90)),
        "was not proved: not proved, as seen.",
    ),
    "proved before anybody wrote down that it was asked for": (_with_fault(("proved", 11)), "proved to be healed."),
    "proved, then no longer": (_with_fault(*GOOD, ("broken", 20)), "did not hold"),
    "not healed": (
        _with_fault(("asked", 10), ("proved", 11), ("not healed", 90)),
        "was not proved to be healed: not healed, as seen.",
    ),
    "never healed": (_with_fault(("asked", 10), ("proved", 11)), "was not proved to be healed."),
    "near miss: one that is not to be healed": (_with_fault(("asked", 10), ("proved", 11), heals=""), None),
    "near miss: healed by the kernel": (_with_fault(*GOOD), None),
    "nobody looked at it": (_with_fault(*GOOD[:2], ("healed", 6_111)), "not probed for 6.1 s"),
    "nobody looked at it for a while": (
        _with_fault(*LONG, looks=[1_000, 2_000, 3_000, 8_001, 9_000]),
        "not probed for 5.0 s",
    ),
    "nobody looked at it in the end": (_with_fault(*LONG, looks=[1_000, 4_000]), "not probed for 6.0 s"),
    "looked at only before it was proved, and after": (
        _with_fault(*LONG, looks=[5, 10_001, 11_000]),
        "not probed for 10.0 s",
    ),
    "near miss: looked at late": (_with_fault(*LONG, looks=[1_000, 5_000, 10_000]), None),
    "near miss: looked at until its healing began": (_with_fault(*LONG[:3], ("healed", 60_000), looks=[5_001]), None),
    "near miss: looked at, before journals told when healing began": (
        _with_fault(*GOOD[:2], ("healed", 10_000), looks=[5_000]),
        None,
    ),
}


@pytest.mark.proves("D1")
@pytest.mark.parametrize("case", FAULTS)
def test_a_fault_must_be_proved_hold_and_heal(tmp_path: Path, case: str) -> None:
    make, problem = FAULTS[case]
    found = [text for name, text in unfit(evidence(tmp_path, make())) if name == "faults"]
    assert len(found) == (problem is not None)
    assert all(problem in text for text in found if problem)


def test_a_fault_that_never_held_after_its_first_proof_is_named_so(tmp_path: Path) -> None:
    history = _with_fault(("asked", 10), ("proved", 1_010), ("proved", 2_010), ("broken", 3_010))()
    told = dict(unfit(evidence(tmp_path, history)))["faults"]
    assert "2.0 s after its proof" in told


def test_fitness_describes_a_proved_fault(tmp_path: Path) -> None:
    for heals, events, words in (("at the end", GOOD, "proved and healed"), ("", GOOD[:2], "proved")):
        e = evidence(tmp_path / words, _with_fault(*events, heals=heals)())
        assert faults.faults(e) == [Fitness("faults", True, f"Fault 1 (isolate leader:orders/0) was {words}.")]


def test_a_run_in_a_lab_that_an_outsider_changed_is_unfit(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary())
    record = msgspec.structs.replace(e.source.record, others=["cut kafka1"])
    changed = replace(e, source=replace(e.source, record=record))
    assert unfit(changed) == [
        ("others", "A command that is not part of the run changed the lab: cut kafka1."),
    ]


def test_a_fault_that_does_not_last_need_not_be_proved_again(tmp_path: Path) -> None:
    history = _with_fault(*GOOD[:2], ("healed", 9_000))()
    history.rows["faults"][-1]["by"] = "done"
    assert unfit(evidence(tmp_path, history)) == []


@pytest.mark.proves("D1")
def test_a_probe_that_failed_is_a_fault_that_did_not_hold(tmp_path: Path) -> None:
    history = ordinary()
    history.rows["probes"].append({"fault": 1, "at_ns": at(20), "held": False, "text": "got through"})
    assert [name for name, _ in unfit(evidence(tmp_path, history))] == ["faults"]


@pytest.mark.proves("D1")
@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("got through", ", got through"),
        ("nothing\nbut a dot.", ", nothing but a dot"),
        ("x " * faults.SEEN_MAX, ", " + "x " * (faults.SEEN_MAX // 2 - 1) + "…"),
        ("", ""),
    ],
)
def test_fitness_says_when_a_fault_was_first_seen_broken_and_how(tmp_path: Path, text: str, seen: str) -> None:
    history = _with_fault(*LONG, ("broken", 5_511), looks=[1_000])()
    for when, what in ((5_011, "later"), (3_511, text)):
        history.rows["probes"].append({"fault": 1, "at_ns": at(when), "held": False, "text": what})
    ((_, told),) = unfit(evidence(tmp_path, history))
    assert told.partition(") ")[2] == f"did not hold all the time: 3.5 s after its proof{seen}."


def test_a_fault_that_was_seen_broken_before_its_proof_was_recorded_is_reported_too(
    tmp_path: Path,
) -> None:
    history = _with_fault(*GOOD, ("broken", 10.9))()
    ((_, told),) = unfit(evidence(tmp_path, history))
    assert told.endswith(": 0.0 s after its proof, broken, as seen.")


def test_a_scenario_without_a_fault_says_so_and_is_fit(tmp_path: Path) -> None:
    history = History().send(0, 0).log(0, 0)
    assert unfit(evidence(tmp_path, history)) == []


def test_nothing_acknowledged_is_no_evidence(tmp_path: Path) -> None:
    history = ordinary()
    for row in history.rows["sends"]:
        row["outcome"] = "info"
    assert "Nothing was acknowledged, so nothing could be lost." in dict(unfit(evidence(tmp_path, history)))["traffic"]


@pytest.mark.parametrize(("when", "fit"), [(0.5, False), (1, False), (2, True), (26, True), (27, False), (50, False)])
def test_the_load_must_flow_before_and_after_the_fault(tmp_path: Path, when: float, fit: bool) -> None:
    # The first ack comes at 1, the last send is made at 27.
    history = _with_fault(("asked", when), ("proved", when), ("healed", 90))()
    assert ("traffic" not in dict(unfit(evidence(tmp_path, history)))) is fit


@pytest.mark.parametrize(("proved", "fit"), [(12, True), (26, True), (27, False), (50, False)])
def test_the_load_must_last_until_the_fault_is_proved(tmp_path: Path, proved: float, fit: bool) -> None:
    history = _with_fault(("asked", 10), ("proved", proved), ("healing", 90), ("healed", 91))()
    assert ("traffic" not in dict(unfit(evidence(tmp_path, history)))) is fit
    history.rows["faults"].reverse()
    history.rows["faults"].insert(0, {**history.rows["faults"][-2], "at_ns": at(60)})  # the second proof
    assert ("traffic" not in dict(unfit(evidence(tmp_path / "reversed", history)))) is fit


def test_a_fault_that_does_not_last_has_happened_when_it_is_proved(tmp_path: Path) -> None:
    history = _with_fault(("asked", 10), ("proved", 50), ("healed", 50))()
    history.rows["faults"][-1]["by"] = "done"
    assert unfit(evidence(tmp_path / "one", history)) == []
    history.fault(("asked", 20), ("proved", 60), ("healed", 61))
    assert dict(unfit(evidence(tmp_path / "two", history))) == {
        "traffic": "The load ended before fault 2 was known to be active."
    }


def test_the_load_counts_all_producers_and_all_faults(tmp_path: Path) -> None:
    e = evidence(tmp_path, _with_fault(("asked", 10), ("proved", 11), ("healed", 90))())
    late = replace(e.producers[0], first_ok_ns=at(20), last_sent_ns=at(27))
    early = replace(e.producers[0], first_ok_ns=at(1), last_sent_ns=at(5))
    (line,) = faults.traffic(replace(e, producers=[late, early]))
    assert line.fit
    assert final_log.outcomes(replace(e, producers=[*e.producers] * 2, fates={"survived": 20}))[0].fit
    two = _with_fault(("asked", 0.5), ("proved", 11), ("healed", 90))().fault(("asked", 20), ("proved", 21))
    assert "before the first fault" in dict(unfit(evidence(tmp_path / "two", two)))["traffic"]


@pytest.mark.parametrize(("asked", "fit"), [(0.5, False), (0, True), (-5, True)])
def test_a_fault_that_was_proved_before_the_load_counts_from_its_beginning(
    tmp_path: Path, asked: float, fit: bool
) -> None:
    """The load met this fault, although the fault came first."""
    history = _with_fault(("asked", asked), ("proved", asked + 0.1), ("healed", 90))()
    history.marks = Marks(load_begun_ns=at(0.2))
    assert ("traffic" not in dict(unfit(evidence(tmp_path / "a", history)))) is fit
    history = _with_fault(("asked", 0), ("proved", 5), ("healed", 90))()
    history.marks = Marks(load_begun_ns=at(0))
    assert "traffic" in dict(unfit(evidence(tmp_path / "b", history)))


def test_a_node_that_starts_again_after_the_load_is_no_late_fault(tmp_path: Path) -> None:
    history = ordinary().fault(("asked", 50), ("proved", 51), kind="start", heals="")
    assert unfit(evidence(tmp_path, history)) == []


ENDS: dict[str, tuple[dict[str, Any], bool]] = {
    "read to its end": ({}, True),
    "as many in sync as needed": ({"isr": [1, 2], "min_isr": 2}, True),
    "not read to the high watermark": ({"read_to": 9}, False),
    "a log end past the high watermark": ({"log_end": 11}, False),
    "a log end that nobody knows": ({"log_end": None}, False),
    "too few in sync": ({"isr": [1], "min_isr": 2}, False),
}


@pytest.mark.parametrize("case", ENDS)
def test_the_final_log_must_be_read_to_its_end(tmp_path: Path, case: str) -> None:
    other, fit = ENDS[case]
    assert ("final_log" not in dict(unfit(evidence(tmp_path, ordinary().end(10, **other))))) is fit


@pytest.mark.parametrize(
    ("isr", "why"), [([1, 2], "only [1, 2] of [1, 2, 3] are in sync"), ([1, 2, 3], "it did not stand still")]
)
def test_fitness_says_why_the_end_of_a_log_is_unknown(tmp_path: Path, isr: list[int], why: str) -> None:
    told = dict(unfit(evidence(tmp_path, ordinary().end(10, log_end=None, isr=isr))))["final_log"]
    assert told == f"The end of the log of orders/0 is unknown, because {why}; judge it again when that is over."


def test_a_partition_read_twice_or_a_topic_never_read_is_unfit(tmp_path: Path) -> None:
    twice = evidence(tmp_path / "a", ordinary().end(10).end(10))
    assert "final_log" in dict(unfit(twice))
    never = evidence(tmp_path / "b", ordinary())
    small = {**never.source.small, "ends": []}
    assert "never read" in dict(unfit(replace(never, source=replace(never.source, small=small))))["final_log"]


def test_a_partition_that_was_never_read_is_unfit(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary())
    for partitions, fit in ((1, True), (2, False)):
        record = msgspec.structs.replace(e.source.record, plan=plan_of({"topics": [{"partitions": partitions}]}))
        found = dict(unfit(replace(e, source=replace(e.source, record=record))))
        assert ("final_log" not in found) is fit
    assert "orders/1 was never read" in found["final_log"]


def test_a_topic_without_a_name_is_called_by_its_number(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary().end(10).end(10, topic=1, read_to=9))
    assert dict(unfit(e))["final_log"].startswith("topic 1/0 was not read to its end: read to 9,")


def test_a_topic_without_a_plan_has_at_least_one_partition(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary())
    small = {**e.source.small, "ends": [{**row, "topic": 1} for row in e.source.small["ends"]]}
    found = final_log.final_log(replace(e, source=replace(e.source, small=small)))
    assert [line.text for line in found] == ["The final log of orders/0 was never read."]


def test_only_the_lines_about_the_final_log_say_whether_it_is_there() -> None:
    good, bad = Fitness("journal", True, ""), Fitness("final_log", False, "")
    assert whole.log_was_read([good, Fitness("faults", False, "")])
    assert not whole.log_was_read([good, bad])


def test_a_table_without_rows_of_the_run_counts_as_missing(tmp_path: Path) -> None:
    source = evidence(tmp_path, ordinary()).source
    assert whole.missing(source, ["sends", "state", "no table"]) == ["state"]


@pytest.mark.proves("B4")
@pytest.mark.parametrize("irregular", ["holes", "twice", "unreserved"])
def test_a_run_whose_numbers_do_not_agree_is_unfit(tmp_path: Path, irregular: str) -> None:
    e = evidence(tmp_path, ordinary())
    assert "numbers" in dict(unfit(replace(e, irregular={irregular: 1})))


def test_unreported_numbers_of_a_producer_that_died_are_only_a_remark(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary())
    fated = replace(e, irregular={"unclosed": 3}, fates={"survived": 10, "not_written": 3})
    assert unfit(fated) == []
    assert [line.text for line in fitness(fated) if line.name == "reserved"] == [
        "3 sends were reserved and never reported: their outcome is `info`, and they may never have been sent."
    ]
    assert "reserved" not in {line.name for line in fitness(e)}


@pytest.mark.proves("B1")
@pytest.mark.parametrize(
    ("code", "signal", "command", "reserved", "fit"),
    [
        (0, None, None, 13, False),
        (0, None, ["kcat"], 13, True),  # messages that an external client never reported may have been sent, or not
        (0, None, None, 10, True),  # the other producer was killed
        (None, 9, None, 13, True),
        (1, None, None, 13, True),
    ],
)
def test_a_producer_that_ended_in_order_has_no_unreported_numbers(
    tmp_path: Path, code: int | None, signal: int | None, command: list[str] | None, reserved: int, fit: bool
) -> None:
    exited = {"at_ns": at(99), "event": "exited", "node": "producer1", "code": code, "signal": signal}
    e = evidence(tmp_path, ordinary())
    e.source.small["nodes"].append({**exited, "by_itself": False})
    (known,) = e.source.record.producers
    names = {
        "producers": [msgspec.structs.replace(known, name="producer1")],
        "plan": plan_of({"producers": [{"command": command}]}),
    }
    source = replace(e.source, record=msgspec.structs.replace(e.source.record, **names))
    short = replace(e, source=source, producers=[replace(e.producers[0], reserved=reserved)], irregular={"unclosed": 3})
    told = "producer1 ended normally, but message numbers that it reserved are missing: part of its journal is gone."
    assert [line.text for line in final_log.numbers(short) if not line.fit] == ([] if fit else [told])


@pytest.mark.proves("B4")
def test_a_run_with_a_producer_that_reported_nothing_is_unfit(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary())
    assert "The journal has nothing from producer0." in dict(unfit(replace(e, producers=[])))["numbers"]


@pytest.mark.proves("B4")
def test_a_run_with_a_send_without_an_outcome_or_a_fate_is_unfit(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary())
    odd = replace(e.producers[0], ok=9)
    assert "outcomes" in dict(unfit(replace(e, producers=[odd])))
    assert "outcomes" in dict(unfit(replace(e, fates={"survived": 9})))


def test_failed_sends_and_sends_of_unknown_outcome_have_an_outcome_too(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary().send(10, outcome="fail").send(11, outcome="info").send(12, outcome="info"))
    assert unfit(e) == []
    (odd,) = final_log.outcomes(replace(e, producers=[replace(e.producers[0], fail=0)]))
    assert odd.text == "1 sends have none of the outcomes ok, fail, info."
    odder = replace(e, irregular={"holes": 2, "unclosed": 3}, fates={"survived": 18, "no fate": 5})
    assert final_log.outcomes(odder) == [Fitness("outcomes", True, "18 sends, each with one outcome and one fate.")]


@pytest.mark.parametrize("found", [9, 11])
def test_a_run_whose_figures_do_not_add_up_is_unfit(tmp_path: Path, found: int) -> None:
    e = evidence(tmp_path, ordinary())
    assert "identity" in dict(unfit(replace(e, identity={"survived": found})))


def test_figures_are_counted_from_the_first_offset_of_the_log(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary().end(10, log_start=3))
    parts = {"survived": 4, "recovered": 1, "extra_copies": 2}
    assert final_log.identity(replace(e, identity=parts)) == [
        Fitness("identity", True, "High watermark - log start = 7: 5 sends and 2 other offsets.")
    ]


NODES: dict[str, tuple[dict[str, Any], str | None]] = {
    "a broker that dies by itself": ({"node": "kafka2", "code": 1, "by_itself": True}, "kafka2 died by itself"),
    "a ZooKeeper that is killed by somebody": ({"node": "zk1", "signal": 9, "by_itself": True}, "signal 9"),
    "a broker that ends by itself, however well": ({"node": "kafka2", "code": 0, "by_itself": True}, "kafka2 died"),
    "the relay by which clients on the host reach a broker": (
        {"node": "relay-kafka2", "signal": 15, "by_itself": True},
        "relay-kafka2 died by itself (signal 15)",
    ),
    "near miss: a broker that was killed on purpose": ({"node": "kafka2", "signal": 9, "by_itself": False}, None),
    "near miss: a client that ends well": ({"node": "producer0", "code": 0, "by_itself": True}, None),
    "a client, or whoever heard it, that is killed by somebody": (
        {"node": "producer0", "signal": 9, "by_itself": True},
        "producer0 died by itself (signal 9)",
    ),
    "near miss: a client that was killed on purpose": ({"node": "producer0", "signal": 9, "by_itself": False}, None),
    "near miss: a client that ends badly is a remark": ({"node": "producer0", "code": 3, "by_itself": True}, None),
}


@pytest.mark.proves("D2")
@pytest.mark.parametrize("case", NODES)
def test_a_server_that_dies_by_itself_is_named(tmp_path: Path, case: str) -> None:
    row, problem = NODES[case]
    history = ordinary()
    history.rows["nodes"].append({"at_ns": at(5), "event": "exited", "code": None, "signal": None, **row})
    found = dict(unfit(evidence(tmp_path, history)))
    told = [line.text for line in fitness(evidence(tmp_path / "again", history)) if line.name == "nodes"]
    assert told == ["producer0 died by itself (exit code 3)."] * ("remark" in case) + list(found.values())[-1:] * bool(
        problem
    )
    assert ("nodes" in found) is (problem is not None)
    assert problem is None or problem in found["nodes"]


@pytest.mark.proves("B5")
def test_a_run_whose_processes_have_different_clocks_is_unfit_and_one_whose_wall_clock_was_set_is_fit(
    tmp_path: Path,
) -> None:
    e = evidence(tmp_path, ordinary())
    assert "clocks" in dict(unfit(replace(e, producers=[replace(e.producers[0], backwards=1)])))
    record = e.source.record
    for shift_s in (3600, -3600):
        ended = Clock(record.began.wall_ns + shift_s * 10**9, record.began.monotonic_ns + 60 * 10**9)
        moved = replace(e, source=replace(e.source, record=msgspec.structs.replace(record, ended_at=ended)))
        assert unfit(moved) == []
        told = f"The wall clock moved by {shift_s - 60:+.1f} s during the run; nothing judged here depends on it."
        assert processes.clocks(moved) == [Fitness("clocks", True, told)]
    restarted = Clock(record.began.wall_ns, record.began.monotonic_ns - 1)
    back = replace(e, source=replace(e.source, record=msgspec.structs.replace(record, ended_at=restarted)))
    assert "clocks" in dict(unfit(back))


@pytest.mark.parametrize(("shift_ns", "agree"), [(10**9, True), (10**9 + 1, False), (-(10**9), True)])
def test_clocks_that_drift_by_a_second_agree(tmp_path: Path, shift_ns: int, agree: bool) -> None:
    e = evidence(tmp_path, ordinary())
    began = e.source.record.began
    record = msgspec.structs.replace(e.source.record, ended_at=Clock(began.wall_ns + shift_ns, began.monotonic_ns))
    (line,) = processes.clocks(replace(e, source=replace(e.source, record=record)))
    assert line.fit
    assert (line.text == "The clocks agree.") is agree


def test_a_run_whose_clocks_were_not_compared_at_the_end_is_fit(tmp_path: Path) -> None:
    e = evidence(tmp_path, ordinary())
    record = msgspec.structs.replace(e.source.record, ended_at=None, problems=["A disk was full."])
    unknown = replace(e, source=replace(e.source, record=record))
    told = "No outcome came before its send; the clocks were not compared at the end."
    assert processes.clocks(unknown) == [Fitness("clocks", True, told)]
    assert whole.ended(unknown)[1:] == [Fitness("problem", True, "A disk was full.")]


def test_a_run_whose_lab_was_late_is_fit_and_says_so(tmp_path: Path) -> None:
    history = ordinary()
    for when in (0, 125, 2_500):
        history.state(when, 1, leader=1, epoch=0)
    history.marks = Marks(load_begun_ns=at(0), load_ended_ns=at(2_500))
    behind = processes.views(evidence(tmp_path, history))[1]
    assert behind.fit
    assert behind.text.startswith("The lab itself was late by up to 2,250 ms: ")


def test_a_run_with_a_torn_journal_is_fit_and_says_how_many_bytes_are_torn(tmp_path: Path) -> None:
    history = ordinary()
    directory = history.write(tmp_path / "run")
    writer = Writer(directory, "sends", history.run, "killed")
    writer.add(**{**history.rows["sends"][0], "seq": 77})
    writer.flush()
    whole = writer.path.stat().st_size
    writer.add(**{**history.rows["sends"][0], "seq": 78})
    writer.flush()
    torn = writer.path.stat().st_size - 20
    writer.close(seal=False)
    with writer.path.open("r+b") as stream:
        stream.truncate(torn)
    for _ in range(2):  # the second judge says it too, although the stream is gone by then
        with opened(directory) as source:
            assert source.remarks == (
                Fitness(
                    "journal",
                    True,
                    source.remarks[0].text,
                ),
            )
            assert f"its last {torn - whole:,} bytes" in source.remarks[0].text
            assert source.rows["sends"] == 11


@pytest.mark.parametrize(
    ("event", "fit", "said"),
    [
        ("no event", False, "producer1 printed a line that is not an event 2 times, first: the first."),
        ("not ours", False, "producer1 reported a message that it was not asked to send or read"),
        ("contradiction", False, "producer1 contradicted itself"),
        ("miscount", False, "producer1 reported a count that differs from its own events"),
        ("something new", False, "producer1 something new"),
        ("twice", True, "producer1 repeated an event 2 times, first: the first."),
        ("unknown event", True, "producer1 printed an event of an unknown kind"),
        ("torn line", True, "producer1 ended in the middle of a line"),
    ],
)
def test_unreadable_lines_of_an_external_client_are_reported(tmp_path: Path, event: str, fit: bool, said: str) -> None:
    history = ordinary()
    for when, text in ((9, "the second"), (8, "the first")):
        history.rows["oddities"].append({"client": "producer1", "event": event, "at_ns": at(when), "text": text})
    (line,) = [line for line in fitness(evidence(tmp_path, history)) if line.name == "clients"]
    assert line.fit is fit
    assert line.text.startswith(said)


@pytest.mark.parametrize("module", [faults, final_log, interference, processes])
def test_fitness_asks_every_question(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: ModuleType) -> None:
    names = [
        name
        for name, member in vars(module).items()
        if isfunction(member) and member.__module__ == module.__name__ and list(signature(member).parameters) == ["e"]
    ]
    for name in names:
        monkeypatch.setattr(module, name, lambda _, name=name: [Fitness(name, True, "asked")])
    asked = [line.name for line in fitness(evidence(tmp_path, ordinary())) if line.text == "asked"]
    assert sorted(asked) == sorted(name for name in names if not name.startswith("_"))
    assert asked


@pytest.mark.parametrize(("more", "fit"), [(1, True), (0, False)])
def test_a_fault_that_kills_the_only_producer_met_the_load_if_the_producer_had_more_to_send(
    tmp_path: Path, more: int, fit: bool
) -> None:
    """An external client reports its last message before it is killed, and nothing after that."""
    history = _with_fault()()
    history.producers = [{"count": len(history.rows["sends"]) + more}]
    history.fault(("asked", 5_000), ("proved", 5_001), kind="kill", became=history.record().producers[0].name, heals="")
    (line,) = [line for line in fitness(evidence(tmp_path, history)) if line.name == "traffic"]
    assert line.fit == fit


@pytest.mark.parametrize(
    ("reported", "plan", "more"), [(None, {"count": 1}, True), (0, {}, False), (0, {"count": 1}, True)]
)
def test_a_client_that_reported_fewer_messages_than_planned_had_more_to_send(
    tmp_path: Path, reported: int | None, plan: dict[str, int], more: bool
) -> None:
    history = ordinary()
    history.producers = [plan]
    e = evidence(tmp_path, history)
    known = [] if reported is None else [replace(e.producers[0], reported=reported)]
    assert faults._cut_short(replace(e, producers=known)) == ({"producer0"} if more else set())
