"""The page of a run: what it shows, and that it needs no other file and no network."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from ackproof.cli.ui.verdict_view import terminal_summary
from ackproof.core.errors import UsageProblem
from ackproof.journal.files import sealed_files
from ackproof.journal.writer import Writer
from ackproof.model.run_record import ConsumerRecord, read_record, write_record
from ackproof.model.verdict import CheckResult, FailoverTimes, Fitness, OwnedTime, not_judged, read_verdict
from ackproof.report.drawn_timeline import labelled
from ackproof.report.json_junit import run_json
from ackproof.report.page import write_report
from ackproof.report.phrases import failover_steps
from ackproof.report.run_reader import SECOND, open_run
from ackproof.report.svg import Band, Panel
from ackproof.report.time_series import read_traffic
from ackproof.report.timeline import make_timeline
from tests.support.made_story import SHAPES, Shape
from tests.support.make_run import make_run
from tests.support.proving import size

Told = Callable[[str, object], None]
PANELS = ("rates", "leader", "isr", "offsets", "latency")


def page_of(runs: Path, shape: Shape) -> str:
    return write_report(make_run(runs, shape)).read_text(encoding="utf-8")


def words(page: str) -> str:
    """Return the text of a page without its tags."""
    body = page[page.index("<body>") : page.rindex("<script>")]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", body))


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> str:
    return page_of(tmp_path_factory.mktemp("runs"), SHAPES["base"])


def test_the_verdict_comes_first_and_in_one_sentence(base: str) -> None:
    text = words(base)
    assert (
        text.index("Of 100,000 acknowledged messages 69,412 are lost")
        < text.index("The numbers")
        < text.index("Timeline")
    )


@pytest.mark.proves("B2")
def test_a_file_with_a_wrong_bit_is_named_and_not_drawn(tmp_path: Path, record_property: Told) -> None:
    directory = make_run(tmp_path, SHAPES["base"])
    writer = Writer(directory, "probes", 7, "another")
    for fault in (1, 2, 3):
        writer.add(fault=fault, at_ns=fault, held=True, text="seen")
    writer.close()
    for other in sealed_files(directory, "probes"):
        if other.stem != "another":
            other.unlink()
    path = directory / "journal" / "probes" / "another.parquet"
    whole, columns = path.read_bytes(), ["fault", "held"]
    right = open_run(directory).table("probes", columns).to_pylist()
    assert [row["fault"] for row in right] == [1, 2, 3]
    bits = range(0, 8 * len(whole), size(61, 1))
    for bit in bits:
        path.write_bytes(whole[: bit // 8] + bytes([whole[bit // 8] ^ 1 << bit % 8]) + whole[bit // 8 + 1 :])
        run = open_run(directory)
        problems, rows = len(run.problems), run.table("probes", columns).to_pylist()
        assert rows == ([] if len(run.problems) > problems else right), bit
    record_property("figure", f"{len(bits):,} bits of a sealed file flipped: no wrong row in a report")


def test_every_panel_is_drawn_without_a_script(base: str) -> None:
    for name in PANELS:
        figure = base[base.index(f'id="panel-{name}"') :].split("</figure>")[0]
        assert re.search(r'<path class="line [^"]+" d="M|<rect class="strip ', figure), name
        assert '<rect class="band fault"' in figure


def owners_panel(directory: Path) -> list[Panel]:
    run = open_run(directory)
    return [panel for panel in make_timeline(run, read_traffic(run), [], None).panels if panel.name == "owners"]


def test_ownership_is_drawn_as_the_judge_measured_it(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["base"])
    record = read_record(directory)
    begun = record.marks.load_begun_ns or 0
    consumers = [ConsumerRecord(number, f"consumer{number + 1}", 0, 0) for number in (0, 1)]
    write_record(directory, msgspec.structs.replace(record, groups=["workers"], consumers=consumers))
    assert owners_panel(directory) == []  # this verdict has no owners, like an older one
    owners = [
        OwnedTime(
            from_ns=begun + first * SECOND,
            to_ns=begun + last * SECOND,
            group="workers",
            topic="orders",
            partition=0,
            consumer=name,
        )
        for first, last, name in ((1, 2, "consumer1"), (3, 5, "consumer2"))
    ]
    verdict = msgspec.structs.replace(read_verdict(directory), owners=owners, owners_left_out=1_200)
    path = directory / "verdict" / "verdict.json"
    path.write_bytes(msgspec.json.encode(verdict))
    (panel,) = owners_panel(directory)
    (strip,) = panel.strips
    assert strip.name == "orders/0"
    assert [(round(part.begins), round(part.ends), part.label, part.style) for part in strip.segments] == [
        (1, 2, "consumer1", "b1"),
        (3, 5, "consumer2", "b2"),
    ]
    assert "1,200 later periods of ownership are not shown" in panel.note
    path.unlink()
    assert owners_panel(directory) == []


def test_a_lost_range_has_its_story_and_the_brokers_own_line(base: str) -> None:
    text = words(base)
    assert "orders/0, offsets 30,588 to 99,999" in text
    assert "acknowledged by kafka2, which said that it led in epoch 0" in text
    assert "kafka1 was seen to lead in epoch 1" in text
    assert "kafka2's log, which had ended at 100,000, was seen to end at or before 30,588" in text.replace("&#39;", "'")
    assert "Truncating to offset 30588" in text


def test_an_unknown_step_of_a_failover_is_left_out(tmp_path: Path) -> None:
    run = open_run(make_run(tmp_path, SHAPES["small"]))
    steps = failover_steps(
        run, FailoverTimes(fault=1, kind="kill", topic="orders", partition=0, proved_ns=0, new_epoch_ms=4.0)
    )
    assert [(step.name, step.never) for step in steps] == [
        ("fault proved", ""),
        ("first error at a client", "no client saw an error"),
        ("a new leader epoch", ""),
        ("all replicas in sync again", "never complete again"),
    ]


def test_the_page_has_failover_public_result_and_the_command_to_run_it_again(base: str) -> None:
    text = words(base)
    assert "a new leader epoch (0 → 1)" in text
    assert "no client saw an error" in text
    assert "95,513 59,925 35,588 37.26 %" in text
    assert "17.4 s \u00d7 4,000 messages/s = 69,412 lost" in text
    assert "./ackproof run acks1-leader-isolated --seed 7" in text


def test_the_page_is_small_and_refers_to_no_network(base: str) -> None:
    assert len(base.encode()) < 5_000_000
    assert "http:" not in base.replace('"http"', "")
    assert "https:" not in base
    assert re.findall(r'(?:src|href)="([^"]*)"', base) == ["data:,"]


def test_the_policy_names_our_style_and_script_and_forbids_the_rest(base: str) -> None:
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', base)
    assert policy is not None
    said = policy[1].replace("&#39;", "'")
    assert said.startswith("default-src 'none'")
    assert "unsafe" not in said
    for tag in ("style", "script"):
        inlined = re.findall(rf"<{tag}>(.*?)</{tag}>", base, re.DOTALL)
        assert len(inlined) == 1
        digest = base64.b64encode(hashlib.sha256(inlined[0].encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in said
    assert not re.search(r"\son\w+=|\sstyle=", base)


def test_an_interrupted_run_says_not_judged_and_shows_what_is_known(tmp_path: Path) -> None:
    text = words(page_of(tmp_path, SHAPES["interrupted"]))
    assert "Not judged The run was interrupted" in text
    assert "acknowledged 2,000" in text
    assert "stopped by Ctrl-C at 10.2 s" in text
    assert "as expected" not in text
    assert "Lost messages" not in text


def test_an_unjudged_run_does_not_claim_that_no_producer_waited(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["interrupted"])
    verdict = not_judged(read_record(directory), Fitness("judge", False, "The judge broke."))
    (directory / "verdict").mkdir(exist_ok=True)
    (directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(verdict))
    text = words(write_report(directory).read_text())
    assert "it is not known how long producers waited for acknowledgements" in text
    assert "no producer waited too long" not in text
    assert any("Unknown" in str(part) for part in terminal_summary(verdict))
    assert run_json(verdict, None)["unavailable_ms"] is None


def test_an_unknown_run_says_why_and_shows_no_result_as_evidence(tmp_path: Path) -> None:
    text = words(page_of(tmp_path, SHAPES["unknown"]))
    assert "Unfit, faults : fault 1 was never proved" in text
    assert "? no evidence" in text
    assert "as expected" not in text


def test_a_required_loss_that_did_not_happen_is_refuted(tmp_path: Path) -> None:
    text = words(page_of(tmp_path, SHAPES["refuted"]))
    assert "Refuted" in text
    assert "lost 0 required ✗ not as expected" in text
    assert "None: every acknowledged message is in the healed log." in text


def test_reads_have_a_line_of_their_own(tmp_path: Path) -> None:
    page = page_of(tmp_path, replace(SHAPES["small"], consumers=True))
    assert 'class="line read"' in page


def test_a_run_that_was_not_judged_at_all_is_read_from_its_streams(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["interrupted"])
    stream = directory / "journal" / "sends" / "producers.arrows"
    stream.write_bytes(stream.read_bytes()[:-5_000])
    assert "bytes could not be read" in words(write_report(directory).read_text())


def test_a_damaged_table_or_verdict_is_named_and_hides_nothing_else(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["small"])
    (directory / "journal" / "state" / "observer.parquet").write_bytes(b"PAR1 not really")
    (directory / "verdict" / "verdict.json").write_text("{")
    text = words(write_report(directory).read_text())
    assert "journal/state/observer.parquet" in text
    assert "the run counts as not judged" in text
    assert "acknowledged 2,000" in text


def test_an_empty_journal_still_has_a_page(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["interrupted"])
    for path in (directory / "journal").rglob("*.arrows"):
        path.unlink()
    assert "acknowledged 0" in words(write_report(directory).read_text())


def test_a_directory_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageProblem, match=r"no run\.json"):
        write_report(tmp_path)


@pytest.mark.proves("F3")
def test_a_planted_link_is_neither_followed_nor_read(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["small"])
    secret = tmp_path / "secret"
    secret.write_text("[2026-11-15 10:03:50,000] INFO Truncating to offset 1 of orders-0 SECRET\n")
    (directory / "logs" / "kafka9.log").symlink_to(secret)
    (directory / "report.html").symlink_to(secret)
    page = write_report(directory)
    assert "SECRET" not in page.read_text()
    assert "SECRET" in secret.read_text()
    assert not page.is_symlink()


def test_labels_that_fit_are_in_rows_of_their_own() -> None:
    made = labelled([(0.1, Band(1, 2, "cut kafka1", number=1)), (0.11, Band(1, 2, "kill kafka2", number=2))])
    assert [(band.label, band.y, band.meant) for band in made] == [
        ("cut kafka1", 14, ""),
        ("kill kafka2", 29, ""),
    ]


def test_if_labels_do_not_fit_faults_are_shown_by_their_numbers() -> None:
    crowd = [(0.1 + n / 50, Band(n, n + 1, f"stop producer{n} and consumer{n}", number=n)) for n in range(1, 13)]
    made = labelled([*crowd, (0.9, Band(20, 20, "last send", "mark"))])
    assert [band.label for band in made] == [*map(str, range(1, 13)), "last send"]
    assert made[0].meant == "stop producer1 and consumer1"


def test_a_check_with_nothing_to_look_at_is_only_named(tmp_path: Path) -> None:
    directory = make_run(tmp_path, SHAPES["base"])
    verdict = read_verdict(directory)
    silent = CheckResult("torn_transaction", "allowed", None, "confirmed", "")
    more = msgspec.structs.replace(verdict, checks=[*verdict.checks, silent])
    (directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(more))
    page = write_report(directory).read_text(encoding="utf-8")
    assert "Nothing to look at in this run for: torn transaction ." in words(page)
    assert page.count("torn transaction") == 1
