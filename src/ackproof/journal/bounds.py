"""Bounds on the files of a journal, checked before a file is read.

A file of a few kilobytes can unpack to gigabytes: one text that is referenced two thousand times, a page of zeros that
compression made small, a row that a count repeats. The headers tell how large everything becomes: each page of a
Parquet file, each message of an Arrow stream. So they are read first. A file beyond the bounds of our writer is not
read, and one sentence says why. Within these bounds a row group takes a few hundred megabytes at most.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

MIB = 2**20
TEXT_MOST = 16_384  # bytes of one text; our writer cuts longer ones
FOOTER_MOST = 8 * MIB
COLUMNS_MOST = 200
GROUPS_MOST = 10_000
GROUP_ROWS_MOST = MIB  # our writer's have a quarter of this
PAGE_MOST = 32 * MIB  # unpacked; our writer's have 1 MiB
DICTIONARY_MOST = 2 * MIB
CHUNK_MOST = 128 * MIB
VALUES_MOST = 4 * MIB  # of one column in one row group; a row of a list column has several
TEXTS_MOST = 64 * MIB  # of one column in one row group, in memory
STREAM_MOST = 256 * MIB  # our writer begins the next stream after half of that
HEADER_MOST = MIB // 4

# PLAIN, PLAIN_DICTIONARY, RLE, DELTA_BINARY_PACKED, DELTA_LENGTH_BYTE_ARRAY, RLE_DICTIONARY, BYTE_STREAM_SPLIT: with
# each of them, bytes and values bound the unpacked size of a page. DELTA_BYTE_ARRAY can repeat text without limit.
_ENCODINGS = {0, 2, 3, 5, 6, 8, 9}
_DICTIONARY_PAGE = 2
_BY_DICTIONARY = {2, 8}
_NO_HEADER = "the header of a page is not valid Parquet"


class _Beyond(Exception):
    """The file exceeds a bound; the text says which."""


def footer_bomb(path: Path) -> str | None:
    """Why even the footer of a Parquet file cannot be read safely; None if it can."""
    try:
        with path.open("rb") as file:
            _check_footer(file)
    except _Beyond as beyond:
        return str(beyond)
    return None


def parquet_bomb(path: Path, whole_rows: int = 0) -> str | None:
    """Why a Parquet file cannot be read safely: its headers exceed a bound. None if it can.

    The judge reads a file of up to `whole_rows` rows at once, not one row group after the other. Then all its texts
    together have one bound.
    """
    try:
        with path.open("rb") as file:
            _check_footer(file)
            footer = pq.read_metadata(path)
            _check_counts(footer)
            texts = 0
            for group in range(footer.num_row_groups):
                for column in range(footer.row_group(group).num_columns):
                    texts += _check_chunk(file, path, footer, group, column)
                    if texts > TEXTS_MOST and footer.num_rows <= whole_rows:
                        raise _Beyond(f"its texts are larger than {TEXTS_MOST // MIB} MiB")
    except _Beyond as beyond:
        return str(beyond)
    except (struct.error, IndexError, pa.ArrowException, OSError, OverflowError) as error:
        return f"its headers cannot be read ({str(error).splitlines()[0] if str(error) else type(error).__name__})"
    return None


def _check_counts(footer: pq.FileMetaData) -> None:
    if footer.num_columns > COLUMNS_MOST:
        raise _Beyond(f"it has more than {COLUMNS_MOST} columns")
    if footer.num_row_groups > GROUPS_MOST:
        raise _Beyond(f"it has more than {GROUPS_MOST:,} row groups")
    rows = [footer.row_group(group).num_rows for group in range(footer.num_row_groups)]
    if any(not 0 <= own <= GROUP_ROWS_MOST for own in rows) or sum(rows) != footer.num_rows:
        raise _Beyond(f"its row count is wrong, or a row group has more than {GROUP_ROWS_MOST:,} rows")


def _check_footer(file: BinaryIO) -> None:
    size = file.seek(0, 2)
    if size < 12:
        raise _Beyond("it is not a Parquet file")
    file.seek(-8, 2)
    length, magic = struct.unpack("<I4s", file.read(8))
    if magic != b"PAR1":
        raise _Beyond("it has no Parquet footer: it was truncated, or it is another kind of file")
    if length > min(size - 12, FOOTER_MOST):
        raise _Beyond(f"its footer claims a size of {length:,} bytes")


def cut_texts(column: pa.Array) -> pa.Array:
    """The column with its texts cut to the length that a judge reads. A character has up to four bytes."""
    if pa.types.is_string(column.type) and (pc.max(pc.binary_length(column)).as_py() or 0) > TEXT_MOST:
        return pc.utf8_slice_codeunits(column, 0, TEXT_MOST // 4)
    return column


def text_beyond(table: pa.Table) -> str | None:
    """Which column of a table in memory has a text beyond the bound; None if there is none."""
    for name in table.column_names:
        column = table[name]
        texts = pc.list_flatten(column) if pa.types.is_list(column.type) else column
        if pa.types.is_string(texts.type) and (pc.max(pc.binary_length(texts)).as_py() or 0) > TEXT_MOST:
            return f"column {name} has a text of more than {TEXT_MOST:,} bytes"
    return None


@dataclass(frozen=True)
class _Page:
    kind: int
    encoding: int
    values: int
    unpacked: int
    packed: int
    begins: int


def _check_chunk(file: BinaryIO, path: Path, footer: pq.FileMetaData, group: int, number: int) -> int:
    """Check one column of one row group. Return an upper bound of the bytes that its texts take in memory."""
    column = footer.row_group(group).column(number)
    name = column.path_in_schema.partition(".")[0]
    is_text = column.physical_type == "BYTE_ARRAY"
    values = unpacked = longest = referenced = plain = 0
    for page in _pages(file, column):
        if page.unpacked > PAGE_MOST or (unpacked := unpacked + page.unpacked) > CHUNK_MOST:
            raise _Beyond(f"column {name} unpacks to more than {CHUNK_MOST // MIB} MiB")
        if page.encoding not in _ENCODINGS:
            raise _Beyond(f"column {name} has an encoding that can repeat text without limit")
        if page.kind == _DICTIONARY_PAGE:
            longest = max(longest, _longest(file, column.compression, page, name)) if is_text else 0
            continue
        if (values := values + page.values) > VALUES_MOST:
            raise _Beyond(f"column {name} has more than {VALUES_MOST:,} values in one row group")
        if page.encoding in _BY_DICTIONARY:
            referenced += page.values
        else:
            plain += page.unpacked
    if not is_text:
        return 0
    if longest > TEXT_MOST:
        raise _Beyond(f"column {name} has a text of {longest:,} bytes; a journal's texts have at most {TEXT_MOST:,}")
    size = longest * referenced + plain
    if size > TEXTS_MOST and (size := _text_bytes(path, group, column.path_in_schema)) > TEXTS_MOST:
        raise _Beyond(f"the texts of column {name} are larger than {TEXTS_MOST // MIB} MiB in one row group")
    return size


def _pages(file: BinaryIO, column: Any) -> Iterator[_Page]:
    if not column.num_values:  # it has no page, and its offsets mean nothing
        return
    first = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < first:
        first = column.dictionary_page_offset
    place, end = first, first + column.total_compressed_size
    while place < end:
        file.seek(place)
        head = file.read(min(HEADER_MOST, 1024))
        try:
            fields, length = _Compact(head).struct()
        except IndexError:  # statistics of long texts make a header longer
            file.seek(place)
            fields, length = _Compact(file.read(HEADER_MOST)).struct()
        about = fields.get(5) or fields.get(7) or fields.get(8) or {}
        if not isinstance(about, dict):
            raise _Beyond(_NO_HEADER)
        encoding = _number(about, 4 if 8 in fields else 2, -1)
        kind, unpacked, packed = (_number(fields, each, -1) for each in (1, 2, 3))
        page = _Page(kind, encoding, _number(about, 1, 0), unpacked, packed, place + length)
        if min(page.values, page.unpacked, page.packed) < 0:
            raise _Beyond("a page claims a negative size")
        yield page
        place += length + page.packed


def _number(fields: dict[int, Any], place: int, default: int) -> int:
    value = fields.get(place, default)
    if not isinstance(value, int):
        raise _Beyond(_NO_HEADER)
    return value


def _longest(file: BinaryIO, codec: str, page: _Page, name: str) -> int:
    """The length of the longest text in a dictionary page, which holds each text once: its length, then its bytes."""
    if page.unpacked > DICTIONARY_MOST or page.packed > DICTIONARY_MOST:
        raise _Beyond(f"the distinct texts of column {name} are larger than {DICTIONARY_MOST // MIB} MiB")
    file.seek(page.begins)
    packed = file.read(page.packed)
    texts = packed
    if codec != "UNCOMPRESSED":
        texts = pa.Codec(codec.lower()).decompress(packed, decompressed_size=page.unpacked, asbytes=True)
    place = longest = 0
    while place + 4 <= len(texts):
        (length,) = struct.unpack_from("<I", texts, place)
        longest = max(longest, length)
        place += 4 + length
    return longest


def _text_bytes(path: Path, group: int, column: str) -> int:
    """How many bytes a column's texts take in memory: the length of each text, times how often it is referenced."""
    with pq.ParquetFile(path, read_dictionary=[column]) as file:
        table = file.read_row_group(group, columns=[column], use_threads=False)
    total = 0
    for chunk in table.column(0).chunks:
        own = chunk.flatten() if pa.types.is_list(chunk.type) else chunk
        if not pa.types.is_dictionary(own.type):
            return TEXTS_MOST + 1  # pyarrow did not keep the dictionary, so each text is in memory many times
        total += pc.sum(pc.take(pc.binary_length(own.dictionary), own.indices)).as_py() or 0
    return total


class _Compact:
    """The part of Thrift's compact protocol that page headers use."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._place = 0

    def struct(self, depth: int = 0) -> tuple[dict[int, Any], int]:
        """The fields of a struct by number, and the place after it."""
        if depth > 4:
            raise _Beyond("the header of a page is nested too deeply")
        fields: dict[int, Any] = {}
        number = 0
        while (head := self._byte()) != 0:
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15, depth)
        return fields, self._place

    def _value(self, kind: int, depth: int) -> Any:
        if kind in (1, 2):
            return kind == 1
        if kind == 3:
            return self._byte()
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 8:
            length = self._unsigned()
            self._place += length
            return None
        if kind == 12:
            return self.struct(depth + 1)[0]
        raise _Beyond(_NO_HEADER)

    def _byte(self) -> int:
        self._place += 1
        return self._data[self._place - 1]

    def _unsigned(self) -> int:
        found = shift = 0
        while True:
            byte = self._byte()
            found |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return found
            if shift > 63:
                raise _Beyond("a number in the header of a page does not end")

    def _signed(self) -> int:
        found = self._unsigned()
        return (found >> 1) ^ -(found & 1)


# -- streams -----------------------------------------------------------------------------------------------------------


def stream_bomb(path: Path) -> str | None:
    """Why an Arrow stream cannot be read safely; None if it can. A compressed stream could unpack to any size."""
    size = path.stat().st_size
    if size > STREAM_MOST:
        return f"it has {size:,} bytes, and Ackproof's writer never goes beyond {STREAM_MOST:,}"
    with path.open("rb") as file:
        for metadata in _messages(file, size):
            if _is_compressed(metadata):
                return "its batches are compressed, and Ackproof's writer never compresses them"
    return None


def _messages(file: BinaryIO, size: int) -> Iterator[bytes]:
    """The metadata of each message, up to the first that is not whole; `read_stream` reports the rest as torn."""
    place = 0
    while place + 8 <= size:
        file.seek(place)
        mark, length = struct.unpack("<Ii", file.read(8))
        if mark != 0xFFFFFFFF or not 0 < length <= size - place - 8:
            return
        metadata = file.read(length)
        yield metadata
        try:
            body = _body_length(metadata)
        except (struct.error, IndexError):
            return
        if body < 0:
            return
        place += 8 + length + body


def _field(data: bytes, table: int, number: int) -> int:
    """The place of a field in a flatbuffer's table; 0 if the field is omitted."""
    slots = table - struct.unpack_from("<i", data, table)[0]
    if slots < 0 or 4 + 2 * number >= struct.unpack_from("<H", data, slots)[0]:
        return 0
    offset = struct.unpack_from("<H", data, slots + 4 + 2 * number)[0]
    return table + offset if offset else 0


def _body_length(metadata: bytes) -> int:
    message = struct.unpack_from("<I", metadata)[0]
    place = _field(metadata, message, 3)
    return int(struct.unpack_from("<q", metadata, place)[0]) if place else 0


def _is_compressed(metadata: bytes) -> bool:
    """Whether a message is a batch with compressed buffers."""
    record_batch, compression = 3, 3
    try:
        message = struct.unpack_from("<I", metadata)[0]
        kind, header = _field(metadata, message, 1), _field(metadata, message, 2)
        if not kind or not header or metadata[kind] != record_batch:
            return False
        batch = header + struct.unpack_from("<I", metadata, header)[0]
        return _field(metadata, batch, compression) != 0
    except (struct.error, IndexError):
        return False
