"""The judge against a plain one: a few hundred random small histories, all of them in one Spark job for each check."""

from __future__ import annotations

from collections import defaultdict
from functools import cache
from typing import Any

import pytest
import reference
from asking import spark, tables_of
from histories import FIRST_RUN, History
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from ackproof.judge.checks import CHECKS
from ackproof.judge.fates import FATES
from ackproof.judge.spark import collected
from ackproof.judge.tables import Tables

HISTORIES = 400

offsets = st.integers(0, 6)
partitions = st.sampled_from([0, 0, 0, 1])
moments = st.integers(0, 12).map(lambda half_seconds: 400.0 * half_seconds)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Few values, few offsets, few moments, so that everything collides with everything."""
    history = History()
    outcomes = st.sampled_from(["ok", "ok", "ok", "info", "fail"])
    for producer in range(draw(st.integers(1, 2))):
        for seq in range(draw(st.integers(0, 5))):
            outcome = draw(outcomes)
            placed = outcome == "ok" and draw(st.integers(0, 9)) > 0
            said = outcome == "ok" or draw(st.booleans())
            sent = draw(moments)
            history.send(
                seq,
                draw(offsets) if placed else None,
                producer=producer,
                outcome=outcome,
                partition=draw(partitions) if said else -1,
                key=draw(st.one_of(st.none(), st.integers(0, 1))),
                sent=sent,
                done=sent + draw(moments),
                never_done=outcome == "info" and draw(st.booleans()),
            )
    for partition in (0, 1):
        start = draw(st.integers(0, 2))
        end = start + draw(st.integers(0, 5))
        for offset in range(start, end):
            if draw(st.integers(0, 5)) > 0:
                seq, producer = draw(st.integers(0, 5)), draw(st.integers(0, 1))
                history.log(offset, seq, producer=producer, partition=partition)
        if draw(st.booleans()) or partition == 0:
            kind = draw(st.sampled_from(["plain", "plain", "compacted", "transactional"]))
            history.end(
                end,
                partition=partition,
                log_start=start,
                compacted=kind == "compacted",
                transactional=kind == "transactional",
            )
    for _ in range(draw(st.integers(0, 6))):
        history.read(
            draw(offsets),
            draw(st.integers(0, 5)),
            partition=draw(partitions),
            consumer=draw(st.integers(0, 1)),
            assignment=draw(st.integers(1, 2)),
        )
    return history


@cache
def drawn() -> list[History]:
    found: list[History] = []

    @settings(
        max_examples=HISTORIES,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(histories())
    def draw_one(history: History) -> None:
        history.run = FIRST_RUN + len(found)
        found.append(history)

    draw_one()
    return found


@cache
def tables() -> Tables:
    return tables_of(spark(), *drawn())


COLUMNS = {
    "lost": ("producer", "seq", "fate"),
    "duplicated": ("producer", "seq", "copies"),
    "reordered": ("topic", "partition", "producer", "seq"),
    "inconsistent_offset": ("topic", "partition", "offset"),
    "offset_gap": ("topic", "partition", "first_missing", "missing"),
    "realtime_order": ("producer", "seq", "acked_before"),
    "skipped_read": ("consumer", "poll", "skipped"),
    "repeated_read": ("consumer", "poll"),
    "unavailable": ("topic", "partition", "from_ns", "to_ns"),
}


def by_run(rows: list[Any], columns: tuple[str, ...]) -> dict[int, set[tuple[Any, ...]]]:
    found: dict[int, set[tuple[Any, ...]]] = defaultdict(set)
    for row in rows:
        found[row["run"]].add(tuple(row[name] for name in columns))
    return found


@pytest.mark.parametrize("check", COLUMNS)
def test_both_judges_find_the_same(check: str) -> None:
    found = by_run(collected(CHECKS[check].function(tables())), COLUMNS[check])
    plain = getattr(reference, check)
    hits = 0
    for history in drawn():
        expected = plain(history.complete())
        hits += bool(expected)
        assert found[history.run] == expected, history.complete()
    assert hits >= HISTORIES // 20, "the histories hardly ever have this anomaly: they prove little"


def test_both_judges_give_every_send_the_same_fate_and_only_one() -> None:
    rows = collected(tables().fates.select("run", "producer", "seq", "fate"))
    found = by_run(rows, ("producer", "seq", "fate"))
    for history in drawn():
        assert found[history.run] == reference.fates(history.complete()), history.complete()
    assert len(rows) == sum(len(history.rows["sends"]) for history in drawn())
    assert {row["fate"] for row in rows} == set(FATES)
