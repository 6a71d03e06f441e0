"""Checks of time: waits, latencies, rates, alerts and exits."""

from __future__ import annotations

from ackproof.model import check_conditions as conditions
from ackproof.model.checks.kind import CheckKind

CHECKS: dict[str, CheckKind] = {
    "unavailable": CheckKind(
        "wait(s) for an acknowledgement longer than the threshold",
        "a wait for an acknowledgement from a partition that lasted longer than `unavailable_ms`",
        needs=("sends",), depends_on_time=True, threshold="unavailable_ms", producers_lack="since when a send waited",
        meaning="A producer waited longer for an acknowledgement than the scenario's threshold.",
        advice="Compare the time with the failover in the report, and lower the session timeouts of the brokers if it"
        " is too long for you.",
    ),
    "ack_latency": CheckKind(
        "kind(s) of latency with an acknowledgement later than the line",
        "a measure: percentiles of the time until the acknowledgement, from when the send was due and from when it "
        "was made; counts if an acknowledgement took longer than `late_ms`",
        needs=("sends",), counted_column="late", depends_on_time=True, threshold="late_ms",
        producers_lack="when a send was due, nor when it began",
        meaning="The check measures how long acknowledgements took, and counts if one took longer than the scenario's"
        " line.",
        advice="Compare the latency since a message was due with the one since it was sent: the difference is waiting.",
    ),
    "exit_codes": CheckKind(
        "producer(s) with unexpected exit codes",
        "a producer whose processes did not end, one after the other, with the exit codes that the scenario expects",
        default="forbidden", needs=("nodes",), applies_to=conditions.expects_exits,
        meaning="A producer did not end with the exit code that the scenario expects.",
        advice="Read its log in the run directory: its last lines say why it ended.",
    ),
    "phases": CheckKind(
        "phase(s) of a topic",
        "a measure, if the scenario's `[judge]` table says `phases = true`: what became of each topic's messages "
        "between one fault and the next",
        applies_to=conditions.asks_for_phases, needs_fates=True, needs_full_scan=True,
        producers_lack="when a send was made",
        meaning="The check measures what became of the messages between one fault and the next.",
        advice="Compare the phases to see which fault cost what.",
    ),
    "throughput": CheckKind(
        "table(s) of producers that ran one after the other",
        "a measure, if producers run one after the other: the acknowledged messages per second of each "
        "`[[producers]]` table, from the first acknowledged send to the last acknowledgement",
        needs=("sends",), applies_to=conditions.has_producers_in_turn,
        producers_lack="when a send began, nor when an acknowledgement reached it",
        meaning="The check measures how many messages a second were acknowledged to each group of producers.",
        advice="Nothing is wrong; compare the groups with each other, and not with another machine.",
    ),
    "rate": CheckKind(
        "second(s) with fewer sends than the line",
        "a measure: each second from the first send of the load to the last, and any other in which something "
        "happened: messages sent, acknowledged and read, and the fault that covers the second; counts if fewer were "
        "sent than `rate_line`",
        needs=("sends",), counted_column="below", depends_on_time=True, producers_lack="when a send was made",
        meaning="In a second of the load fewer messages were sent than the scenario's line.",
        advice="Look at the faults that covered this second, and at the load of this machine.",
    ),
    "dips": CheckKind(
        "second(s) with too few acknowledgements or reads, or too many open sends, that no fault explains",
        "a second with fewer acknowledgements, or reads (if there is a consumer), than `rate_line`, or with more "
        "sends than that waiting for an outcome; counts if no fault covers the second. The first second is left "
        "out: it has no answers to earlier sends",
        needs=("sends",), counted_column="uncovered", applies_to=conditions.has_rate_line, depends_on_time=True,
        producers_lack="when an acknowledgement reached it",
        meaning="In a second fewer messages were acknowledged or read than the line, and no fault explains it.",
        advice="Look at the pauses of Java and at the load of this machine.",
    ),
    "alerts": CheckKind(
        "alert(s) missed, late, stuck or false",
        "a measure: each alert that the scenario expects, and each that it does not, and whether a person is told "
        "at once or in the morning; counts alerts that were missed, late, stuck or false",
        default="forbidden", needs=("alerts",), counted_column="bad", applies_to=conditions.has_health_check,
        depends_on_time=True, inconclusive_when=("result", "unfinished"),
        meaning="The health check missed a fault, reported it late, did not clear it, or reported one that was not "
        "there.",
        advice="Read the witness, and tune the threshold of that rule.",
    ),
}  # fmt: skip
