"""The Python examples of a page of docs, to be run by tests."""

from __future__ import annotations

import re
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"
NEEDS_CLUSTER = "<!-- needs a cluster -->\n"
_BLOCK = re.compile(rf"({re.escape(NEEDS_CLUSTER)})?```python\n(.*?)```", re.DOTALL)


def examples(page: str, *, cluster: bool) -> str:
    """The examples of a page in their order, as one program: those that need a cluster, or the others."""
    text = (DOCS / page).read_text(encoding="utf-8")
    return "\n".join(code for needs, code in _BLOCK.findall(text) if bool(needs) == cluster)
