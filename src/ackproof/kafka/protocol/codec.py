"""Kafka's messages as bytes and back, in any version.

The shapes of all messages come from kio, generated from Kafka's own definitions: for each version of each message a
dataclass whose fields carry their wire type. Requests are written by kio. Answers are read here, because kio's reader
reserves memory for as many array elements as the bytes announce, and aborts the whole process if the kernel refuses.
One damaged answer must not end the supervisor of a lab. This reader reads element by element, so it never holds more
than the bytes do.
"""

from __future__ import annotations

import dataclasses
import io
import struct
import uuid
from collections.abc import Callable
from functools import cache
from types import ModuleType, NoneType, UnionType
from typing import Any, NamedTuple, get_args, get_origin

from kio.index import load_entity_schema, load_payload_module, load_response_schema
from kio.schema.errors import ErrorCode
from kio.schema.index import schema_name_map
from kio.serial import entity_writer
from kio.static.constants import EntityType

CLIENT_ID = "ackproof"

Reader = Callable[["Cursor"], Any]


class Malformed(Exception):
    """The bytes are not the expected message."""


class Api(NamedTuple):
    key: int
    name: str
    oldest: int
    """Below this version the answer lacks what we ask for."""

    def common_version(self, theirs: tuple[int, int] | None) -> int | None:
        """The newest version that both sides know."""
        if theirs is None:
            return None
        oldest, newest = theirs
        ours = [version for version in schema_name_map[self.name] if version >= self.oldest]
        return max((version for version in ours if oldest <= version <= newest), default=None)


class Make:
    """Makes messages of one version. Fields that this version does not have are left out."""

    def __init__(self, module: ModuleType) -> None:
        self._module = module

    def __call__(self, message_name: str, /, **values: object) -> Any:
        message = getattr(self._module, message_name)
        return message(**{field: value for field, value in values.items() if field in message.__dataclass_fields__})


class Codec:
    """One version of one api."""

    def __init__(self, key: int, version: int) -> None:
        self.make = Make(load_payload_module(key, version, EntityType.request))
        response: Any = load_response_schema(key, version)
        self._read_header = entity_reader(response.__header_schema__)
        self._read_body = entity_reader(response)

    def encode(self, request: Any, number: int) -> bytes:
        header = request.__header_schema__(
            request_api_key=request.__api_key__,
            request_api_version=request.__version__,
            correlation_id=number,
            client_id=CLIENT_ID,
        )
        buffer = io.BytesIO()
        entity_writer(type(header))(buffer, header)
        entity_writer(type(request))(buffer, request)
        return buffer.getvalue()

    def decode(self, frame: bytes) -> Any:
        """The answer; its numbers are plain integers, error codes and durations in milliseconds among them."""
        cursor = Cursor(frame)
        self._read_header(cursor)
        return self._read_body(cursor)


@cache
def codec(key: int, version: int) -> Codec:
    return Codec(key, version)


def error_name(code: int) -> str | None:
    """The name that Kafka's documentation uses, or None for no error."""
    if code == 0:
        return None
    try:
        return ErrorCode(code).name.upper()
    except ValueError:
        return f"ERROR_{code}"  # of a broker that is newer than our table


def assigned_partitions(assignment: bytes) -> tuple[tuple[str, int], ...]:
    """The partitions assigned to a member of a classic consumer group. The broker stores these bytes unread."""
    if not assignment:  # a member that waits for its first assignment
        return ()
    cursor = Cursor(assignment)
    newest = max(schema_name_map["consumer_protocol_assignment"])
    # Newer versions only add at the end, and readers must accept them.
    version = min(max(cursor.number(INT16), 0), newest)
    schema: Any = load_entity_schema("consumer_protocol_assignment", version, EntityType.data)
    message = entity_reader(schema)(cursor)
    return tuple((topic.topic, each) for topic in message.assigned_partitions for each in topic.partitions)


class Cursor:
    """A position in a message."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    @property
    def left(self) -> int:
        return len(self._data) - self._at

    def take(self, count: int) -> bytes:
        if not 0 <= count <= self.left:
            raise Malformed(f"{count} bytes announced, {self.left} left")
        self._at += count
        return self._data[self._at - count : self._at]

    def number(self, layout: struct.Struct) -> int:
        value: int = layout.unpack(self.take(layout.size))[0]
        return value

    def varint(self) -> int:
        value = 0
        for shift in range(0, 35, 7):
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise Malformed("a length of more than five bytes")


INT8, INT16, INT32, INT64, UINT16 = (struct.Struct(f">{letter}") for letter in "bhiqH")
NUMBERS = {
    "int8": INT8,
    "int16": INT16,
    "int32": INT32,
    "int64": INT64,
    "uint16": UINT16,
    "error_code": INT16,
    "timedelta_i32": INT32,
}


@cache
def entity_reader(entity: Any) -> Reader:
    """Reads one message or one part of a message, given its dataclass in kio."""
    flexible: bool = entity.__flexible__
    plain: list[tuple[str, Reader]] = []
    tagged: dict[int, tuple[str, Reader]] = {}
    for field in dataclasses.fields(entity):
        reader = _field_reader(field.type, field.metadata.get("kafka_type"), flexible)
        if (tag := field.metadata.get("tag")) is None:
            plain.append((field.name, reader))
        else:
            tagged[tag] = (field.name, reader)

    def read(cursor: Cursor) -> Any:
        values = {name: reader(cursor) for name, reader in plain}
        for _ in range(cursor.varint() if flexible else 0):
            tag, size = cursor.varint(), cursor.varint()
            value = Cursor(cursor.take(size))
            if tag in tagged:
                name, reader = tagged[tag]
                values[name] = reader(value)
        return entity(**values)

    return read


def _field_reader(kind: Any, wire_type: str | None, flexible: bool) -> Reader:
    if get_origin(kind) is UnionType:
        (inner,) = (option for option in get_args(kind) if option is not NoneType)
        reader = _nullable_reader(inner, wire_type, flexible)
        return _if_there(reader) if hasattr(inner, "__flexible__") else reader
    return _required(_nullable_reader(kind, wire_type, flexible))


def _nullable_reader(kind: Any, wire_type: str | None, flexible: bool) -> Reader:
    if get_origin(kind) is tuple:
        return _array_reader(_field_reader(get_args(kind)[0], wire_type, flexible), flexible)
    if hasattr(kind, "__flexible__"):
        return entity_reader(kind)
    if wire_type in NUMBERS:
        layout = NUMBERS[wire_type]
        return lambda cursor: cursor.number(layout)
    if wire_type == "bool":
        return lambda cursor: cursor.number(INT8) != 0
    if wire_type == "uuid":
        return lambda cursor: uuid.UUID(bytes=cursor.take(16))
    if wire_type == "string":
        return _text_reader(flexible)
    if wire_type == "bytes":
        return _bytes_reader(flexible, INT32)
    raise Malformed(f"no reader for {wire_type}")


def _if_there(reader: Reader) -> Reader:
    """Read a part that may be null: a byte before it says whether it is."""
    return lambda cursor: None if cursor.number(INT8) < 0 else reader(cursor)


def _required(reader: Reader) -> Reader:
    def read(cursor: Cursor) -> Any:
        value = reader(cursor)
        if value is None:
            raise Malformed("null where a value must be")
        return value

    return read


def _array_reader(reader: Reader, flexible: bool) -> Reader:
    def read(cursor: Cursor) -> tuple[Any, ...] | None:
        count = _length(cursor, flexible, INT32)
        # Element by element, without reserving memory for the count: a false count ends with the bytes.
        return None if count < 0 else tuple(reader(cursor) for _ in range(count))

    return read


def _bytes_reader(flexible: bool, layout: struct.Struct) -> Reader:
    def read(cursor: Cursor) -> bytes | None:
        length = _length(cursor, flexible, layout)
        return None if length < 0 else cursor.take(length)

    return read


def _text_reader(flexible: bool) -> Reader:
    read_bytes = _bytes_reader(flexible, INT16)

    def read(cursor: Cursor) -> str | None:
        data = read_bytes(cursor)
        try:
            return None if data is None else data.decode()
        except UnicodeDecodeError:
            raise Malformed("text that is not UTF-8") from None

    return read


def _length(cursor: Cursor, flexible: bool, layout: struct.Struct) -> int:
    """Read a length; null is -1. The compact encoding stores the length plus one."""
    return cursor.varint() - 1 if flexible else cursor.number(layout)
