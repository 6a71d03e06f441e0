"""The report's arithmetic: thinning, rates, percentiles, ranges of losses and their stories, the brokers' log lines."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from ackproof.journal.seal import write_sealed
from ackproof.report.broker_logs import about, read_log_lines
from ackproof.report.broker_views import read_partitions
from ackproof.report.lost_ranges import lost_ranges, tell
from ackproof.report.render import share
from ackproof.report.run_reader import open_run
from ackproof.report.svg import nice_ticks, short
from ackproof.report.time_series import LatencyOverTime, PerSecond, changes, read_traffic, thin
from tests.support.made_story import LOAD, SHAPES, S
from tests.support.make_run import make_run

RANDOM = np.random.default_rng(11)


def test_thinning_keeps_every_extreme_and_the_ends() -> None:
    times = np.sort(RANDOM.uniform(0, 1_000, 300_000))
    values = RANDOM.normal(0, 1, len(times))
    values[123_456], values[200_001] = 99.0, -99.0
    kept_times, kept = thin(times, values, columns=1_000)
    assert len(kept) <= 4 * 1_000
    assert kept.max() == 99.0
    assert kept.min() == -99.0
    assert (kept_times[0], kept_times[-1]) == (times[0], times[-1])
    assert np.all(np.diff(kept_times) >= 0)
    column = np.minimum(((times - times[0]) / (times[-1] - times[0]) * 1_000).astype(int), 999)
    kept_column = np.minimum(((kept_times - times[0]) / (times[-1] - times[0]) * 1_000).astype(int), 999)
    for one in (0, 17, 500, 999):
        assert values[column == one].max() == kept[kept_column == one].max()
        assert values[column == one].min() == kept[kept_column == one].min()


def test_thinning_keeps_gaps_and_leaves_short_series_alone() -> None:
    times = np.arange(10_000.0)
    values = np.where((times > 4_000) & (times < 6_000), np.nan, times)
    _, kept = thin(times, values, columns=100)
    assert np.isnan(kept).any()
    assert np.nanmax(kept) == 9_999
    assert len(thin(times[:300], values[:300], columns=100)[0]) == 300


def test_steps_keep_where_a_value_begins_and_ends() -> None:
    times, values = changes(np.arange(7.0), np.array([3.0, 3, 3, 1, 1, 1, 2]))
    assert list(zip(times, values, strict=True)) == [(0, 3), (2, 3), (3, 1), (5, 1), (6, 2)]


def test_a_second_without_anything_counts_zero() -> None:
    counter = PerSecond()
    counter.add(np.array([-0.2, 0.1, 0.9, 2.5]))
    counter.add(np.array([0.5, 1e12]))
    series = counter.series("sent", "sent", -1, 4)
    by_second = dict(zip(series.times, series.values, strict=True))
    assert (by_second[-1], by_second[0], by_second[1], by_second[2]) == (1, 3, 0, 1)
    assert counter.out_of_range == 1


def test_percentiles_are_within_two_per_cent_and_the_largest_exact() -> None:
    latency = LatencyOverTime()
    values = RANDOM.lognormal(1, 1, 50_000)
    latency.add(np.full(len(values), 3.2), values)
    latency.add(np.array([9.9]), np.array([1234.5]))
    for quantile in (0.5, 0.99):
        times, found = latency.percentile(quantile)
        assert times.tolist() == [3.5, 9.5]
        assert found[0] == pytest.approx(np.quantile(values, quantile, method="inverted_cdf"), rel=0.0201)
    assert latency.largest()[1].tolist() == pytest.approx([values.max(), 1234.5])


def test_a_long_run_merges_its_seconds_and_loses_none() -> None:
    latency = LatencyOverTime()
    seconds = np.arange(0, 100_000, 10.0)
    latency.add(seconds, np.where(seconds == 77_000, 5_000.0, 2.0))
    assert latency.width_s == 32
    assert latency.largest()[1].max() == 5_000.0
    assert latency.total == len(seconds)


def lost_rows(*rows: tuple[int, int | None, int, int, str, int | None]) -> pa.Table:
    """(partition, offset, producer, seq, fate, holder's epoch) of each loss, one a millisecond."""
    names = ("partition", "offset", "producer", "seq", "fate", "holder_epoch")
    columns: dict[str, Any] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    columns["topic"] = [0] * len(rows)
    columns["done_ns"] = [LOAD + place * 1_000_000 for place in range(len(rows))]
    return pa.table(columns)


def test_neighbouring_messages_of_one_fate_are_one_range(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["small"])
    over, cut = "lost_overwritten", "lost_truncated"
    table = lost_rows(
        (0, 12, 0, 5, cut, None),
        (0, 10, 0, 3, over, 4),
        (0, 11, 1, 3, over, 5),
        (0, 13, 0, 6, cut, None),
        (0, 20, 0, 7, cut, None),
        (1, 14, 0, 8, cut, None),
        (-1, None, 0, 30, "lost_unplaced", None),
        (-1, None, 0, 31, "lost_unplaced", None),
        (-1, None, 1, 32, "lost_unplaced", None),
    )
    write_sealed(table, directory / "verdict" / "lost" / "part-0.parquet", ["seq"])
    found = {(r.partition, r.first, r.last, r.fate, r.by_offset, r.count) for r in lost_ranges(open_run(directory))}
    assert found == {
        (0, 10, 11, over, True, 2),
        (0, 12, 13, cut, True, 2),
        (0, 20, 20, cut, True, 1),
        (1, 14, 14, cut, True, 1),
        (-1, 30, 31, "lost_unplaced", False, 2),
        (-1, 32, 32, "lost_unplaced", False, 1),
    }
    overwritten = next(r for r in lost_ranges(open_run(directory)) if r.fate == over)
    assert (overwritten.standing, overwritten.standing_epochs, overwritten.producers) == (2, (4, 5), (0, 1))


def test_the_story_names_the_old_leader_the_new_one_and_the_cut(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path, SHAPES["small"]))
    (lost,) = lost_ranges(run)
    story = tell(lost, read_partitions(run))
    assert (story.acked_by, story.acked_epoch, story.new_leader, story.new_epoch) == (2, 0, 1, 1)
    assert story.log_end_before == 2_000
    assert story.gone_ns is not None
    assert story.new_leader_ns is not None
    assert 10.9 < run.seconds(story.gone_ns) < 11.3
    assert story.acked_after == int((lost.done_ns > story.new_leader_ns).sum()) > 0


def test_counts_and_rates_agree_with_the_sends(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path, SHAPES["no-loss"]))
    traffic = read_traffic(run)
    assert traffic.counts["sent"] == 2_000 == traffic.counts["ok"] + traffic.counts["info"]
    assert traffic.sent.counts.sum() == 2_000
    assert traffic.acked.counts.sum() == traffic.counts["ok"] == traffic.from_due.total
    assert traffic.from_due.largest()[1].max() > SHAPES["no-loss"].latency_spike_ms - 0.01


@pytest.mark.parametrize("hours", [0, 2, -8])
def test_log_lines_are_placed_in_time_whatever_the_zone_they_were_written_in(tmp_path: Path, hours: int) -> None:
    directory = make_run(tmp_path, SHAPES["small"])
    log = directory / "logs" / "kafka2.log"
    shifted = [
        line[:12] + f"{(int(line[12:14]) + hours) % 24:02d}" + line[14:] for line in log.read_text().splitlines()
    ]
    log.write_text("\n".join(shifted) + "\n")
    run = open_run(directory)
    cut = next(line for line in read_log_lines(run) if line.truncates)
    assert (cut.node, run.seconds(cut.at_ns)) == ("kafka2", pytest.approx(11.0, abs=0.01))


def test_only_lines_about_the_partition_in_its_time_are_chosen(tmp_path: Path) -> None:
    more: tuple[str, ...] = ("INFO [UnifiedLog partition=reorders-0, dir=/x] Truncating to offset 1 (x)",)
    more += ("INFO [UnifiedLog partition=orders-01, dir=/x] Truncating to offset 2 (x)",)
    more += (
        "INFO [UnifiedLog partition=orders-0, dir=/x] Truncating to 0 has no effect as the largest offset is -1 (x)",
    )
    run = open_run(make_run(tmp_path, replace(SHAPES["small"], log_lines=more)))
    chosen = about(read_log_lines(run), "orders", 0, LOAD, LOAD + 60 * S)
    assert [line.text.split("offset ")[1][:3] for line in chosen if line.truncates] == ["618"]
    assert [line.node for line in chosen].count("kafka1") == 2
    assert about(read_log_lines(run), "orders", 0, LOAD, LOAD + 1) == []


def test_numbers_are_shortened_for_people() -> None:
    assert (share(0, 10), share(1, 10**6), share(10**6 - 1, 10**6), share(1, 3)) == (
        "0 %",
        "< 0.01 %",
        "> 99.99 %",
        "33.33 %",
    )
    assert nice_ticks(0, 100_000, 4) == [0, 50_000, 100_000]
    assert [short(value) for value in (0, 2_000, 12_000, 2.5e6)] == ["0", "2,000", "12 k", "2.5 M"]


@pytest.mark.parametrize(
    ("said", "chosen"),
    [
        ("[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 9956 (kafka.log.UnifiedLog)", True),
        (
            "[UnifiedLog partition=orders-0, dir=/d] Truncating to offset 1 (o.a.k.storage.internals.log.UnifiedLog)",
            True,
        ),
        ("[ReplicaFetcher replicaId=2] Truncating partition orders-0 with TruncationState(offset=9, x)", True),
        ("[ReplicaFetcher replicaId=2] Truncating partition orders-0 with TruncationState(offset=0, x)", False),
        ("[Broker id=1] Leader orders-0 with topic id Some(x) starts at leader epoch 1 from offset 10326 with", True),
        ("[Broker id=1] Leader orders-0 with topic id Some(x) starts at leader epoch 0 from offset 0 with", False),
        ("[Partition orders-0 broker=3] Shrinking ISR from 3,2,1 to 3. Leader: (highWatermark: 9956)", True),
        ("[Partition orders-0 broker=2] ISR updated to 2,1,3  and version updated to 2", True),
        ("[QuorumController id=102] Fencing broker 3 at epoch 10 because its session has timed out.", True),
        ("[QuorumController id=102] The request from broker 3 to unfence has been granted because it caught up", True),
        ("[ZooKeeperClient Kafka server] Session expired. (kafka.zookeeper.ZooKeeperClient)", True),
        ("[BrokerLifecycleManager id=3] Unable to send a heartbeat because the RPC got timed out", False),
        ("[ReplicaFetcherManager on broker 2] Added fetcher to broker 1 for partitions Map(orders-0 -> x)", False),
    ],
)
def test_log_lines_of_kafka_3_and_4_are_recognised(tmp_path: Path, said: str, chosen: bool) -> None:
    run = open_run(make_run(tmp_path, replace(SHAPES["small"], log_lines=(f"INFO {said}",))))
    found = about(read_log_lines(run), "orders", 0, LOAD, LOAD + 60 * S)
    assert any(said in line.text for line in found) is chosen
