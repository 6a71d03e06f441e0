"""Fill templates into pages that stand alone: everything is escaped, and a content policy forbids every request.

Topics, keys, titles and log lines always show as text: the templates escape everything, data for the script is in a
block that no parser runs, and the content policy allows only our own style and script, by their hashes. Control
characters become visible signs. Each piece of data is isolated for the direction of writing, so that it cannot reverse
the text beside it.
"""

from __future__ import annotations

import base64
import errno
import hashlib
import os
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from ackproof.core.errors import naming

NOTHING = "\u2013"
TEMPLATES = Path(__file__).parent / "templates"


def visible(value: Any) -> Any:
    """Replace control characters by visible signs."""
    if isinstance(value, Markup) or not isinstance(value, str) or value.isprintable():
        return value
    return "".join(_sign(char) for char in value)


def _sign(char: str) -> str:
    code = ord(char)
    if char in "\n\t":
        return char
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return "\u2421"
    return "\ufffd" if 0x80 <= code < 0xA0 or 0xD800 <= code < 0xE000 or code & 0xFFFE == 0xFFFE else char


def json_block(document: Any) -> Markup:
    """Return a JSON document for a data block, without any character that could end the block."""
    text = msgspec.json.encode(document).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return Markup(text)  # noqa: S704 - nothing in it can leave the block


def thousands(value: Any) -> str:
    return NOTHING if value is None else f"{value:,}" if isinstance(value, int) else f"{value:,.1f}"


def duration(milliseconds: float | None) -> str:
    if milliseconds is None:
        return NOTHING
    return f"{milliseconds:.3g} ms" if milliseconds < 1000 else f"{milliseconds / 1000:,.2f} s"


def share(part: float, whole: float) -> str:
    """Return a percentage. Something is never rounded to 0 %, and not everything never to 100 %."""
    if not whole:
        return NOTHING
    exact = part / whole * 100
    if 0 < exact < 0.01:
        return "< 0.01 %"
    if 99.99 < exact < 100:
        return "> 99.99 %"
    return f"{exact:.2f}".rstrip("0").rstrip(".") + " %"


def render(template: str, **context: Any) -> str:
    """Return the page, with style and script inlined, and allowed by their hashes."""
    style, script = ((TEMPLATES / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    sources = "; ".join(
        (
            "default-src 'none'",
            f"style-src '{_hash(style)}'",
            f"script-src '{_hash(script)}'",
            "img-src data:",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )
    own = {"policy": sources, "style": Markup(style), "script": Markup(script)}  # noqa: S704 - our own two files
    return _environment().get_template(template).render(**own, **context)


@cache
def _environment() -> Environment:
    """Make the environment once: to compile the templates takes longer than to fill them."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"n": thousands, "ms": duration}
    environment.globals |= {"share": share}
    return environment


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def write_whole(path: Path, content: bytes) -> Path:
    """Write a file aside and rename it, so that it is never half written, and never written through a planted link.

    As root the rename would also replace a device, such as /dev/null, for the whole machine.
    """
    if path.exists() and not path.is_file() and not path.is_symlink():
        raise FileExistsError(errno.EEXIST, "a device, a pipe or a socket is there", str(path))
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name[:40]}.", dir=path.parent)
    try:
        with naming(path), os.fdopen(handle, "wb") as out:
            out.write(content)
        Path(temporary).chmod(0o644)  # mkstemp makes a private file, and this one is for others
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    return path
