"""Settings of a client, as librdkafka takes them."""

from __future__ import annotations

Value = str | int | float | bool


def kafka_settings(values: dict[str, Value]) -> dict[str, Value]:
    """The settings in librdkafka's notation: `true`, not Python's True."""
    return {key: str(value).lower() if isinstance(value, bool) else value for key, value in values.items()}
