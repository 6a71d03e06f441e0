"""QUESTIONS: the function of each check in `model/checks.py`, found by its name.

The file `judge/checks/<topic>/<name>.py` holds the function `<name>`. It takes the tables of one or more runs and
returns the witnesses.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from pyspark.sql import DataFrame

from ackproof.judge.frames import Tables
from ackproof.model.checks import CHECKS, CheckKind

Question = Callable[[Tables], DataFrame]


def _question(name: str, check: CheckKind) -> Question:
    module = import_module(f"ackproof.judge.checks.{check.topic}.{name}")
    return cast(Question, getattr(module, name))


QUESTIONS: dict[str, Question] = {name: _question(name, check) for name, check in CHECKS.items()}
