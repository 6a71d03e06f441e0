"""QUESTIONS: the function of each check in `model/checks/`, found by its name.

The file `judge/checks/<topic>/<name>.py` holds the function `<name>`. It takes the tables of one or more runs and
returns the witnesses.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import cast

from pyspark.sql import DataFrame

from ackproof.judge.frames import Tables
from ackproof.model.checks import TOPICS

Question = Callable[[Tables], DataFrame]


def _question(topic: str, name: str) -> Question:
    return cast(Question, getattr(import_module(f"ackproof.judge.checks.{topic}.{name}"), name))


QUESTIONS: dict[str, Question] = {name: _question(topic, name) for topic, checks in TOPICS.items() for name in checks}
