"""The programs below `scripts/`, as modules that a test can call. pytest's `pythonpath` holds the folder."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


def script(name: str) -> ModuleType:
    """Import `scripts/<name>.py`."""
    return importlib.import_module(name)
