"""Alerts and rates on the page: strips on the common axis, and what each fault did."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from ackproof.journal.seal import write_sealed
from ackproof.journal.writer import Writer
from ackproof.model.run_record import read_record, write_record
from ackproof.model.verdict import CheckResult, read_verdict
from ackproof.report.health_panels import toll_rows
from ackproof.report.page import write_report
from ackproof.report.run_reader import open_run
from ackproof.report.time_series import BEFORE_S, read_traffic
from tests.support.made_story import LOAD, RUN, SHAPES, S
from tests.support.make_run import make_run
from tests.support.plans import plan_of

ALERTS = [("rate", 4, "raised"), ("rate", 7, "cleared"), ("no-leader", 8, "raised")]
JUDGED: list[dict[str, Any]] = [
    {"rule": "rate", "fault": 1, "result": "hit", "told": "at once", "bad": False, "after_s": 0.85, "stood_s": 3.0},
    {"rule": "no-leader", "fault": None, "result": "false", "bad": True, "after_s": None, "stood_s": None},
]
SECONDS = [(0, 200, 200, None), (1, 200, 190, None), (2, 200, 3, 1), (3, 200, 0, 1), (4, 10, 10, None)]


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """A small run whose health check raised two alerts, one of them false."""
    made = make_run(tmp_path, SHAPES["small"])
    writer = Writer(made, "alerts", RUN, "health")
    for rule, at, event in ALERTS:
        writer.add(at_ns=LOAD + at * S, rule=rule, event=event, text=f"{rule} is <b>bad</b>")
    writer.close()
    record = read_record(made)
    write_record(made, msgspec.structs.replace(record, plan=plan_of({"judge": {"rate_line": 195}})))
    verdict = read_verdict(made)
    check = CheckResult("alerts", "forbidden", 1, "refuted", "1 alert missed, late, stuck or false", JUDGED)
    changed = msgspec.structs.replace(verdict, checks=[*verdict.checks, check])
    (made / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(changed))
    (made / "verdict" / "rate").mkdir()
    second, sent, acked, fault = (list(column) for column in zip(*SECONDS, strict=True))
    at_ns = [LOAD + S // 1000 + each * S for each in second]  # the first send is a millisecond after the load begins
    columns = {
        "second": second,
        "at_ns": at_ns,
        "sent": sent,
        "acked": acked,
        "read": [0] * 5,
        "fault": pa.array(fault, pa.int32()),
    }
    rows = pa.table({**columns, "below": [False] * 5})
    write_sealed(rows, made / "verdict" / "rate" / "part-0.parquet", ["second"])
    return made


def test_alerts_are_strips_on_the_common_axis(directory: Path) -> None:
    page = write_report(directory).read_text(encoding="utf-8")
    figure = page[page.index('id="panel-alerts"') :].split("</figure>")[0]
    told = re.findall(r"<title>(rate is[^<]*|no-leader is[^<]*)</title></rect>", figure)
    assert len(told) == 2
    assert told[1] == "rate is &lt;b&gt;bad&lt;/b&gt;: 4.00 to 7.00 s"
    assert told[0].startswith("no-leader is &lt;b&gt;bad&lt;/b&gt;: 8.00 to ")  # to the end: it was never cleared


def test_the_judges_result_for_each_alert_is_a_table(directory: Path) -> None:
    page = write_report(directory).read_text(encoding="utf-8")
    table = page[page.index('<section id="alerts">') :].split("</section>")[0]
    rows = [re.sub(r"<[^>]*>", " ", row).split() for row in table.split("<tbody>")[1].split("</tr>")[:2]]
    assert rows == [["rate", "at", "once", "1", "hit", "0.8", "3.0"], ["no-leader", "false"]]


def test_the_rates_are_those_that_the_judge_counted(directory: Path) -> None:
    traffic = read_traffic(open_run(directory))
    assert traffic.sent.counts[BEFORE_S:].tolist() == [200, 200, 200, 200, 10]
    assert traffic.acked.span() == (0, 5)
    assert traffic.read.span() is None
    assert traffic.counts["sent"] == 2_000, "the journal's own"


def test_what_each_fault_did_to_the_rates(directory: Path) -> None:
    without, during = toll_rows(open_run(directory))
    assert without.fault == "no fault"
    assert (without.lowest, without.below["acked"]) == ({"sent": 200, "acked": 190}, [1])
    assert during.fault.startswith("1: isolate")
    assert (during.seconds, during.lowest["acked"], during.below["acked"]) == (2, 0, [2, 3])


def test_a_run_without_a_rate_line_has_no_table_of_rates(tmp_path: Path) -> None:
    page = write_report(make_run(tmp_path, SHAPES["small"])).read_text(encoding="utf-8")
    assert 'id="toll"' not in page
    assert 'id="panel-alerts"' not in page
