"""A journal that was cut short or has wrong bits gives no wrong row and no crash, and the damage is named."""

from __future__ import annotations

import random
import shutil
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ackproof.journal.checksums import CHECKSUM, FILE_CHECKSUM, FOOTER_CHECKSUM
from ackproof.journal.files import rows_sealed
from ackproof.journal.seal import write_sealed
from ackproof.journal.stream import DIFFERS, END_MARK, is_from_crash, read_stream
from ackproof.journal.writer import Writer
from ackproof.judge.live_log import is_about_the_copy
from ackproof.judge.run_source import SMALL, damaged_inside, opened
from ackproof.model.journal_tables import TABLES
from ackproof.model.run_record import read_record, write_record
from ackproof.model.verdict import Fitness
from tests.support.histories import FIRST_RUN, History
from tests.support.proving import size

Told = Callable[[str, object], None]
Rows = list[dict[str, Any]]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    history = History().fault(("asked", 5), ("proved", 6), ("healed", 90))
    for seq in range(20):
        history.send(seq, seq).log(seq, seq).read(seq, seq)
    return history.write(tmp_path_factory.mktemp("damage") / "run")


@contextmanager
def instead(path: Path, content: bytes) -> Iterator[None]:
    whole = path.read_bytes()
    path.write_bytes(content)
    try:
        yield
    finally:
        path.write_bytes(whole)


def read_whole(path: Path) -> Rows:
    rows: Rows = pq.ParquetFile(path, page_checksum_verification=True).read().to_pylist()
    return rows


def named_or_right(run: Path, path: Path, right: Rows) -> str:
    """Assert that the judge names this file, or reads exactly the rows that were written."""
    with opened(run) as source:
        table = path.parent.name
        said = [line.text for line in source.remarks if not line.fit]
        if path not in source.files[table]:
            assert any(f"{table}/{path.name}" in text for text in said), said
            assert not source.small.get(table)
            return "named"
        if path in damaged_inside(source):
            assert table not in SMALL
            return "named"
        assert read_whole(path) == right
        assert source.small.get(table, right) == right
        return "right"


def sealed(run: Path) -> list[Path]:
    return sorted((run / "journal").glob("*/*.parquet"))


@pytest.mark.proves("B2")
def test_a_sealed_file_that_was_cut_anywhere_is_named(run: Path, record_property: Told) -> None:
    cuts = 0
    for path in sealed(run):
        whole, right = path.read_bytes(), read_whole(path)
        for length in range(0, len(whole), size(211, 1)):
            with instead(path, whole[:length]):
                assert named_or_right(run, path, right) == "named", (path.parent.name, length)
            cuts += 1
    record_property("figure", f"sealed files cut at {cuts:,} places: all named")


@pytest.mark.proves("B2")
def test_a_sealed_file_with_a_wrong_bit_is_named_or_read_as_it_was_written(run: Path, record_property: Told) -> None:
    lots = random.Random(1)  # noqa: S311 - the same bits every time
    files = {path: (path.read_bytes(), read_whole(path)) for path in sealed(run)}
    came = []
    for _ in range(size(200, 20_000)):
        path = lots.choice(list(files))
        whole, right = files[path]
        with instead(path, flipped(whole, lots.randrange(8 * len(whole)))):
            came.append(named_or_right(run, path, right))
    assert came.count("named") > len(came) / 4
    record_property(
        "figure", f"{len(came):,} bits of sealed files flipped: no wrong row, {came.count('named'):,} named"
    )


@pytest.mark.proves("B2")
def test_a_sealed_file_with_a_wrong_bit_in_its_footer_is_named(run: Path, record_property: Told) -> None:
    """This includes its statistics, which change no row but say where to look for one."""
    flips = 0
    for path in sealed(run):
        whole, right = path.read_bytes(), read_whole(path)
        begins = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
        for bit in range(8 * begins, 8 * len(whole), size(997, 11)):
            with instead(path, flipped(whole, bit)):
                assert named_or_right(run, path, right) == "named", (path.parent.name, bit)
            flips += 1
    record_property("figure", f"{flips:,} bits of footers flipped: all named")


def test_a_sealed_file_from_before_checksums_is_read(run: Path) -> None:
    path = run / "journal" / "sends" / "writer.parquet"
    whole, right = path.read_bytes(), read_whole(path)
    begins = whole.index(FILE_CHECKSUM)
    pages, footer = whole[:begins], whole[begins + len(FILE_CHECKSUM) + 8 :]
    with instead(path, pages + footer):
        assert named_or_right(run, path, right) == "right"
    of_the_footer = FOOTER_CHECKSUM + f"{zlib.crc32(footer):08x}".encode()  # as later versions wrote it
    with instead(path, pages + of_the_footer + footer):
        assert named_or_right(run, path, right) == "right"
    with instead(path, pages + of_the_footer + flipped(footer, 99)):
        assert named_or_right(run, path, right) == "named"


@pytest.mark.proves("B2")
def test_a_wrong_bit_in_the_header_of_a_page_is_named(run: Path) -> None:
    """The header says how to read the page, and Parquet's own checksum does not cover it."""
    path = run / "journal" / "ends" / "writer.parquet"
    whole, right = path.read_bytes(), read_whole(path)
    misread = 0
    for bit in range(0, 8 * whole.index(FILE_CHECKSUM), size(11, 1)):
        with instead(path, flipped(whole, bit)):
            with suppress(OSError, pa.ArrowException):
                misread += read_whole(path) != right
            assert named_or_right(run, path, right) == "named", bit
    assert misread or size(True, False), "the Parquet reader itself notices each of them"


def flipped(whole: bytes, bit: int) -> bytes:
    changed = bytearray(whole)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


@pytest.fixture
def stream(tmp_path: Path) -> Path:
    return written(tmp_path)[0]


def written(directory: Path) -> tuple[Path, list[int]]:
    """Write four batches of three rows, and return the length of the stream after each."""
    writer = Writer(directory, "sends", 7, "producer1")
    ends = []
    for seq in range(12):
        outcome = {"outcome": "info", "error": "_TIMED_OUT"} if seq % 5 == 4 else {"outcome": "ok", "offset": seq}
        times = {"due_ns": seq, "sent_ns": seq, "done_ns": seq + 1}
        writer._flushed = float("inf")  # the writer flushes after every third row
        writer.add(producer=0, seq=seq, topic=0, partition=0, **times, **outcome)
        if seq % 3 == 2:
            writer.flush()
            ends.append(writer.path.stat().st_size)
    writer.close(seal=False)
    return writer.path, ends


@pytest.mark.proves("B2")
def test_a_stream_that_was_cut_anywhere_gives_its_whole_batches_and_the_number_of_torn_bytes(
    tmp_path: Path, record_property: Told
) -> None:
    stream, ends = written(tmp_path)
    whole, right = stream.read_bytes(), read_stream(stream)[0].to_pylist()
    assert [row["seq"] for row in right] == list(range(12))
    # Nothing is torn at the end of the schema, of a batch or of the end mark, nor in an empty file.
    untorn = [0, TABLES["sends"].schema.serialize().size, *ends, len(whole)]
    assert untorn == sorted(set(untorn))
    beside = {place + by for place in untorn for by in (-1, 0, 1) if 0 <= place + by <= len(whole)}
    cuts = sorted({*range(0, len(whole), size(7, 1)), *beside})
    for length in cuts:
        stream.write_bytes(whole[:length])
        table, damage = read_stream(stream)
        assert table.to_pylist() == right[: 3 * sum(end <= length for end in ends)], length
        torn = length - max(place for place in untorn if place <= length)
        assert (damage and damage.bytes_torn) == (torn or None), length
        assert damage is None or is_from_crash(damage.what), (length, damage)
    record_property(
        "figure", f"a stream of {len(whole):,} bytes cut at {len(cuts):,} places: whole batches, torn bytes counted"
    )


@pytest.mark.proves("B2")
@pytest.mark.parametrize("ended", [True, False], ids=["ended", "of a killed writer"])
def test_a_stream_with_a_wrong_bit_gives_no_wrong_row(ended: bool, stream: Path, record_property: Told) -> None:
    """And is not taken for torn where rows are gone. Only in the last batch of a writer that was killed are there bits,
    those that tell how long it is, by which what is whole looks like what was cut short."""
    lots = random.Random(2)  # noqa: S311
    whole, right = stream.read_bytes(), read_stream(stream)[0].to_pylist()
    assert whole.endswith(END_MARK)
    whole = whole if ended else whole.removesuffix(END_MARK)
    every = range(8 * len(whole))
    second = whole.index(CHECKSUM, whole.index(CHECKSUM) + 1)
    lengths = range(
        8 * (second - 64), 8 * (second - 40)
    )  # one of the bits makes its batch longer, so that the next one seems cut off
    bits = size([*lots.sample(every, 400), *lengths], list(every))
    named, as_torn = 0, 0
    for bit in bits:
        stream.write_bytes(flipped(whole, bit))
        table, damage = read_stream(stream)
        rows = table.to_pylist()
        assert rows == right[: len(rows)], bit
        assert damage is not None or rows == right, bit
        named += damage is not None
        if damage is not None and is_from_crash(damage.what) and rows != right:
            assert not ended, (bit, damage)
            assert len(rows) == len(right) - 3, (bit, damage)
            as_torn += 1
    assert as_torn < len(bits) / 100
    record_property(
        "figure",
        f"{len(bits):,} bits of a stream {'' if ended else 'of a killed writer '}flipped: no wrong row, "
        f"{named:,} named, {as_torn:,} as a torn tail",
    )


@pytest.mark.proves("B2")
def test_a_wrong_bit_before_a_whole_batch_makes_a_run_unfit(run: Path) -> None:
    """The rows behind it would be missing, for example that a fault no longer held."""
    writer = Writer(run, "probes", FIRST_RUN, "another")
    ends = []
    for fault in range(4):
        writer.add(fault=fault, at_ns=1_234_567, held=fault < 3, text="seen")
        writer.flush()
        ends.append(writer.path.stat().st_size)
    writer.close(seal=False)
    whole, sealed_file = writer.path.read_bytes(), writer.path.with_suffix(".parquet")
    said = set()
    for bit in range(8 * ends[0], 8 * ends[1], size(97, 7)):
        writer.path.write_bytes(flipped(whole, bit))
        with opened(run) as source:
            kept = [row["fault"] for row in source.small["probes"]]
            lines = [line for line in source.remarks if "another" in line.text]
            assert kept == [0, 1, 2, 3] or not all(line.fit for line in lines), (bit, lines)
            said |= {line.text for line in lines}
        sealed_file.unlink()
    assert len(said) > 5


def test_a_batch_that_differs_from_its_checksum_makes_a_run_unfit(run: Path, tmp_path: Path) -> None:
    writer = Writer(run, "probes", FIRST_RUN, "another")
    for fault in (1, 2):
        writer.add(fault=fault, at_ns=1_234_567, held=True, text="a proof that can be found in the file")
        writer.flush()
    writer.close(seal=False)
    whole = writer.path.read_bytes()
    second = whole.rindex(b"a proof that")
    writer.path.write_bytes(flipped(whole, 8 * second))
    with opened(run) as source:
        (line,) = [line for line in source.remarks if "another" in line.text]
        assert not line.fit
        assert DIFFERS in line.text
        assert [row["fault"] for row in source.small["probes"]] == [1]
    (run / "journal" / "probes" / "another.parquet").unlink()


def test_a_row_without_its_required_values_causes_no_crash(run: Path) -> None:
    """A journal may come from a stranger."""
    path = run / "journal" / "faults" / "another.parquet"
    rows = pq.read_table(run / "journal" / "faults" / "writer.parquet").to_pylist()
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    columns["at_ns"] = [None, *columns["at_ns"][1:]]
    loose = pa.schema([field.with_nullable(True) for field in TABLES["faults"].schema])
    write_sealed(pa.table(columns, loose), path, TABLES["faults"].order)
    with opened(run) as source:
        assert [line.text for line in source.remarks if not line.fit] == [
            "faults/another.parquet cannot be read and was left out: it has rows with no at_ns."
        ]
    path.unlink()


def mixed(run: Path, other: Path) -> None:
    """Return a file whose rows are half from another run."""
    path = run / "journal" / "log" / "a+b.parquet"
    halves = [pq.read_table(each / "journal" / "log" / "writer.parquet") for each in (run, other)]
    write_sealed(pa.concat_tables(halves), path, TABLES["log"].order)
    (run / "journal" / "log" / "writer.parquet").unlink()


def without_statistics(run: Path, other: Path) -> None:
    rows = pq.read_table(other / "journal" / "log" / "writer.parquet")
    pq.write_table(rows, run / "journal" / "log" / "writer.parquet", write_statistics=False)


def unsealed(run: Path, other: Path) -> None:
    writer = Writer(run, "log", FIRST_RUN + 1, "b")
    rows = pq.read_table(other / "journal" / "log" / "writer.parquet").drop_columns(["run"])
    writer.add(**rows.to_pylist()[0])
    writer.close(seal=False)


def copied(run: Path, other: Path) -> None:
    for table in ("log", "ends"):
        place = Path("journal") / table / "writer.parquet"
        shutil.copy(other / place, run / place)


@pytest.mark.parametrize(
    ("plant", "name"),
    [(copied, "writer"), (mixed, "a+b"), (without_statistics, "writer"), (unsealed, "b")],
)
@pytest.mark.proves("B2")
def test_a_file_of_another_run_is_named_and_left_out(
    plant: Callable[[Path, Path], None], name: str, tmp_path: Path
) -> None:
    one, other = (
        History(run=FIRST_RUN + place).send(0, 0).log(0, 0).write(tmp_path / str(place)) for place in range(2)
    )
    plant(one, other)
    with opened(one) as source:
        assert [path.stem for path in source.files["log"] if path.stem == name] == []
        said = Fitness("journal", False, f"log/{name}.parquet is of another run and was left out.")
        assert said in source.remarks
        assert is_about_the_copy(said)
        assert [row["run"] for row in source.small["ends"] if row["run"] != FIRST_RUN] == []


def test_files_of_this_run_are_read_even_if_they_are_empty_or_have_no_statistics(tmp_path: Path) -> None:
    run = History().send(0, 0).log(0, 0).write(tmp_path / "run")
    without_statistics(run, run)
    Writer(run, "log", FIRST_RUN, "empty").close(seal=True)
    with opened(run) as source:
        assert [path.stem for path in source.files["log"]] == ["empty", "writer"]
        assert source.remarks == ()


def test_a_stream_from_before_checksums_is_read(tmp_path: Path) -> None:
    path = tmp_path / "journal" / "members" / "w.arrows"
    path.parent.mkdir(parents=True)
    schema = TABLES["members"].schema
    rows = pa.Table.from_pylist([{"run": 1, "at_ns": 2, "source": "zk1", "brokers": [1]}], schema)
    with path.open("wb") as out, pa.ipc.new_stream(out, schema) as old:
        old.write_table(rows)
    assert read_stream(path) == (rows, None)


@pytest.mark.proves("B2")
def test_a_missing_file_is_named(run: Path) -> None:
    record = read_record(run)
    rows = rows_sealed(run)
    write_record(run, msgspec.structs.replace(record, rows=rows))
    assert set(rows) >= {"blocks", "sends", "reads", "log", "ends", "faults"}
    for path in sealed(run):
        table, whole = path.parent.name, path.read_bytes()
        with opened(run) as source:
            assert [line.text for line in source.remarks if not line.fit] == []
        path.unlink()
        with opened(run) as source:
            told = [line.text for line in source.remarks if not line.fit]
            had = f"it had {rows[table]:,} when it was sealed: part of it is gone."
            assert f"The journal has 0 rows of `{table}`, and {had}" in told
        path.write_bytes(b"")
        with opened(run) as source:  # a file that is named already is not named again
            told = [line.text for line in source.remarks if not line.fit]
            assert not any(had in text for text in told)
            assert any(f"{table}/{path.name} cannot be read" in text for text in told)
        path.write_bytes(whole)
    write_record(run, record)


@pytest.mark.proves("B2")
def test_a_torn_tail_in_one_file_does_not_hide_another_missing_file(run: Path, tmp_path: Path) -> None:
    there = tmp_path / "run"
    shutil.copytree(run, there)
    writer = Writer(there, "probes", FIRST_RUN, "another")
    writer.add(fault=1, at_ns=1, held=True, text="seen")
    writer.close(seal=False)
    writer.path.write_bytes(writer.path.read_bytes().removesuffix(END_MARK) + b"\xff\xff")
    write_record(there, msgspec.structs.replace(read_record(there), rows={"probes": 2}))
    with opened(there) as source:
        assert any("was torn" in line.text and line.fit for line in source.remarks)
        assert any("`probes`" in line.text and "part of it is gone" in line.text for line in source.remarks)
