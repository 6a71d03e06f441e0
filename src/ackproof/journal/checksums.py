"""Checksums of the journal: one for each batch of a stream, and one for a whole sealed file.

Parquet has checksums for its pages, but none for the page headers, which say how to read a page, and none for the
footer, which says where each page is. So a sealed file has a CRC-32 of all its bytes. It stands between the last page
and the footer, where no Parquet reader looks.
"""

from __future__ import annotations

import os
import zlib
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

CHECKSUM = b"ackproof.crc32"  # in the metadata of a stream's batch; older streams have none
FILE_CHECKSUM = b"ackproof.file.crc32="  # before a sealed file's footer: the CRC of everything else in the file
FOOTER_CHECKSUM = b"ackproof.footer.crc32="  # in older files: the CRC of the footer only; the oldest files have none
READ_BYTES = 2**20


def of_batch(batch: pa.RecordBatch) -> bytes:
    return _crc(batch.serialize())


def sign(file: BinaryIO) -> None:
    """Insert the checksum of a Parquet file before its footer."""
    footer = _footer(file)
    pages = file.tell() - len(footer)
    signature = FILE_CHECKSUM + _crc(footer, _crc_of_pages(file, pages))
    file.seek(pages)
    file.write(signature + footer)


def differs_from_checksum(path: Path) -> bool:
    """Whether the bytes of a sealed file are not those that were written."""
    with path.open("rb") as file:
        footer = _footer(file)
        footer_begins = file.tell() - len(footer)
        for name in (FILE_CHECKSUM, FOOTER_CHECKSUM):
            pages = max(0, footer_begins - len(name) - len(_crc(b"")))
            file.seek(pages)
            signature = file.read(footer_begins - pages)
            if signature.startswith(name):
                return signature != name + _crc(footer, _crc_of_pages(file, pages) if name == FILE_CHECKSUM else 0)
    return False


def _footer(file: BinaryIO) -> bytes:
    """Everything after a Parquet file's last page: the footer, its length and the four letters PAR1."""
    file.seek(-8, os.SEEK_END)
    length = int.from_bytes(file.read(4), "little")
    file.seek(-8 - length, os.SEEK_END)
    return file.read()


def _crc(content: bytes, before: int = 0) -> bytes:
    return f"{zlib.crc32(content, before):08x}".encode()


def _crc_of_pages(file: BinaryIO, length: int) -> int:
    """The CRC of the first `length` bytes."""
    file.seek(0)
    crc = 0
    while length and (part := file.read(min(length, READ_BYTES))):
        crc, length = zlib.crc32(part, crc), length - len(part)
    return crc
