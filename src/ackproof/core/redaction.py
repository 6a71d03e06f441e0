"""Hides the values of client settings in texts that Ackproof shows or stores."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from urllib.parse import unquote


def redacted(text: str, settings: Mapping[str, str]) -> str:
    """The text with the values of these settings replaced, whole or in part. A JAAS line has its password inside."""
    values = list(settings.values())
    parts = [part for value in values for part in _parts(value)]
    for value in sorted({*values, *parts}, key=len, reverse=True):
        if len(value) > 3:
            text = text.replace(value, "***")
    return text


def _parts(value: str) -> Iterator[str]:
    """The parts of a setting that may be a secret. Other parts of an address or a path are not: errors need words such
    as `https` and `kafka` to be understood."""
    yield from re.split(r"""[\s"';,=]+""", value)
    yield from re.split(r"""[\s"';,=?&]+|\\[rn]|-{5}""", value)  # of a query, and of a PEM in one line
    for _, quoted in re.findall(r"""(?s)(["'])((?:\\.|(?!\1)[^\\])*)\1""", value):
        yield re.sub(r"(?s)\\(.)", r"\1", quoted)  # as a reader of the quoted text takes it
    for login in re.findall(r"//([^\s/]+)@", value):
        yield from login.split(":", 1)
        yield unquote(login.partition(":")[2])
