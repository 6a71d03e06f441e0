"""The events of external clients become rows of the journal, and odd output becomes oddities."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ackproof.clients.external.event_log import (
    LINE_MOST,
    SHOWN_MOST,
    ConsumerEventLog,
    EventLog,
    ProducerEventLog,
)
from ackproof.clients.runtime import LogEnd
from tests.support.external_client import ACK, ERROR, client_config, oddities, rows, sends

READS = [
    '{"name":"startup_complete"}',
    '{"name":"partitions_assigned","partitions":[{"topic":"orders","partition":0},{"topic":"orders","partition":1}]}',
    '{"name":"record_data","key":null,"value":"1.4","topic":"orders","partition":1,"offset":0}',
    '{"name":"record_data","key":null,"value":"junk","topic":"orders","partition":1,"offset":1}',
    '{"name":"records_consumed","count":2,"partitions":[]}',
    '{"name":"offsets_committed","offsets":[{"topic":"orders","partition":1,"offset":2}],"success":false,"error":"no"}',
    '{"name":"partitions_revoked","partitions":[{"topic":"orders","partition":0}]}',
]


def heard(events: EventLog, *lines: str) -> None:
    """Pass these lines to the event log, one per millisecond from 1 ms on, and close it."""
    for number, line in enumerate(lines, start=1):
        events.hear(line.encode(), number * 1_000_000)
    events.close(9_000_000)


def test_an_acknowledgement_may_lack_partition_and_offset(tmp_path: Path) -> None:
    heard(ProducerEventLog(client_config(tmp_path, "producer"), 0), '{"name":"producer_send_success","value":"1.3"}')
    assert sends(tmp_path) == [(3, "ok", None, None)]
    assert rows(tmp_path, "sends")[0]["partition"] == -1


def test_a_value_that_failed_first_and_is_acknowledged_later_counts_as_acknowledged(tmp_path: Path) -> None:
    heard(ProducerEventLog(client_config(tmp_path, "producer"), 0), ERROR % 0, ACK % (0, 4))
    assert (sends(tmp_path), oddities(tmp_path)) == ([(0, "ok", 4, None)], [])


@pytest.mark.parametrize(
    ("lines", "event", "said"),
    [
        (["hello"], "no event", "line 1, 'hello'"),
        (["[1]"], "no event", "line 1, '[1]': Expected `object`"),
        (['{"value":"1.0"}'], "no event", "missing required field `name`"),
        (['{"name":"producer_send_success","offset":1}'], "no event", "producer_send_success without value"),
        (['{"name":"producer_send_success","value":1.0}'], "no event", "Expected `str | null`, got `float`"),
        ([(ACK % (0, 1)).replace("1.0", "0")], "not ours", "the value '0'; it was given 1.0 to 1.4"),
        ([ACK % (1, 2**63)], "no event", "Expected `int` <= 9223372036854775807 - at `$.offset`"),
        ([ACK % (1, 2**64)], "no event", "`$.offset`"),
        (
            [(ACK % (1, 0)).replace('n":0', f'n":{2**31}')],
            "no event",
            "Expected `int` <= 2147483647 - at `$.partition`",
        ),
        (["x" * (LINE_MOST + 1)], "no event", "longer than"),
        (['{"name":"producer_send_success","value":"\\ud800"}'], "no event", "line 1"),
        ([ACK % (5, 1)], "not ours", "the value '1.5'"),
        ([(ACK % (0, 1)).replace("orders", "other")], "not ours", "topic 'other' instead of 'orders'"),
        ([ACK % (0, 1), ACK % (0, 1)], "twice", "line 2: 1.0 acknowledged at 0/1, and before at 0/1"),
        ([ERROR % 0, ERROR % 0], "twice", "1.0 failed, and it had failed before"),
        ([ACK % (0, 1), ACK % (0, 2)], "contradiction", "1.0 acknowledged at 0/2, and before at 0/1"),
        ([ACK % (0, 1), ERROR % 0], "contradiction", "1.0 failed, and before it was acknowledged"),
        (['{"name":"coffee"}'], "unknown event", "line 1: 'coffee'"),
        ([ACK % (0, 1), '{"name":"tool_data","acked":2}'], "miscount", "2 acknowledged by its own count, 1 by its"),
    ],
)
def test_output_that_is_no_valid_event_is_an_oddity(tmp_path: Path, lines: list[str], event: str, said: str) -> None:
    heard(ProducerEventLog(client_config(tmp_path, "producer"), 0), *lines)
    ((found, text),) = oddities(tmp_path)
    assert found == event
    assert said in text
    acked = any("success" in line and '"1.0"' in line and "other" not in line for line in lines)
    failed = not acked and any("error" in line for line in lines)
    assert [row[:2] for row in sends(tmp_path)] == [(0, "ok")] * acked + [(0, "info")] * failed


def test_the_largest_numbers_of_kafka_are_accepted(tmp_path: Path) -> None:
    heard(
        ProducerEventLog(client_config(tmp_path, "producer"), 0),
        (ACK % (1, 2**63 - 1)).replace('n":0', f'n":{2**31 - 1}'),
    )
    assert sends(tmp_path) == [(1, "ok", 2**63 - 1, None)]
    assert rows(tmp_path, "sends")[0]["partition"] == 2**31 - 1


@pytest.mark.parametrize(
    "line",
    [
        READS[2].replace(":1,", f":{2**31},"),
        READS[2].replace('"offset":0', f'"offset":{2**63}'),
        READS[1].replace(":1}", f":{2**31}}}"),
        READS[5].replace(":2}", f":{2**63}}}"),
    ],
)
def test_a_number_beyond_kafkas_range_is_no_event(tmp_path: Path, line: str) -> None:
    heard(ConsumerEventLog(client_config(tmp_path, "consumer")), line)
    assert [event for event, _ in oddities(tmp_path)] == ["no event"]
    assert [rows(tmp_path, table) for table in ("reads", "groups", "commits")] == [[], [], []]


@pytest.mark.parametrize(
    "line",
    [
        ACK.replace("1.%d", "v" * 9_000) % 1,
        (ACK % (0, 1)).replace("orders", "t" * 9_000),
        '{"name":"%s"}' % ("n" * 9_000),
        ERROR.replace("a.Timeout", "e" * 9_000) % 0,
        "x" * 9_000,
    ],
)
def test_only_the_beginning_of_a_long_text_is_kept(tmp_path: Path, line: str) -> None:
    heard(ProducerEventLog(client_config(tmp_path, "producer"), 0), line)
    shown = [text for _, text in oddities(tmp_path)] + [error for *_, error in sends(tmp_path)]
    assert len(shown) == 1
    assert len(shown[0]) < 3 * SHOWN_MOST


def test_the_first_thousand_oddities_of_a_kind_are_kept(tmp_path: Path) -> None:
    heard(ProducerEventLog(client_config(tmp_path, "producer"), 0), *["x"] * 1_500)
    assert len(oddities(tmp_path)) == 1_000


def test_the_events_of_a_consumer_go_to_the_journal(tmp_path: Path) -> None:
    heard(ConsumerEventLog(client_config(tmp_path, "consumer")), *READS)
    reads = [(row["partition"], row["offset"], row["producer"], row["seq"]) for row in rows(tmp_path, "reads")]
    assert reads == [(1, 0, 0, 4), (1, 1, -1, -1)]
    assert [(row["poll"], row["assignment"]) for row in rows(tmp_path, "reads")] == [(1, 1), (2, 1)]
    groups = [(row["event"], row["partition"], row["position"]) for row in rows(tmp_path, "groups")]
    assert groups == [("assigned", 0, None), ("assigned", 1, None), ("revoked", 0, None)]
    assert [(row["offset"], row["outcome"], row["error"]) for row in rows(tmp_path, "commits")] == [(2, "info", "no")]
    assert oddities(tmp_path) == []


def test_a_consumer_has_read_a_partition_whole_when_it_printed_the_last_message(tmp_path: Path) -> None:
    """Never before the end of the load: the last message is not known before. An empty partition is read whole."""
    events = ConsumerEventLog(msgspec.structs.replace(client_config(tmp_path, "consumer"), over=str(tmp_path / "over")))
    for line in READS[:4]:
        events.hear(line.encode(), 1)
    assert events.read_whole() == 0
    ends = [LogEnd(0, 0, 3, 3), LogEnd(0, 1, 0, 3), LogEnd(1, 0, 0, 0)]
    (tmp_path / "over").write_bytes(msgspec.json.encode(ends))
    assert events.read_whole() == 1
    events.hear(READS[2].replace('"offset":0', '"offset":2').encode(), 1)
    assert events.read_whole() == 2
    events.close(2)
    positions = [(row["partition"], row["position"], row["log_end"]) for row in rows(tmp_path, "positions")]
    assert positions == [(1, 3, None)]


def test_a_consumer_that_reads_more_than_it_prints_is_an_oddity(tmp_path: Path) -> None:
    heard(ConsumerEventLog(client_config(tmp_path, "consumer")), READS[4])
    assert oddities(tmp_path) == [("miscount", "2 read by its own count, 0 printed; give it an option like --verbose")]
