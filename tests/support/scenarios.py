"""A good scenario, changed by tests into bad ones."""

from __future__ import annotations

import pytest

from ackproof.core.errors import UsageProblem
from ackproof.scenario.load import load
from ackproof.scenario.source import read_source

GOOD = """name = "good"
section = "X"
title = "A good one"
summary = "Nothing wrong with it."

[[topics]]
name = "orders"
partitions = 2

[[producers]]
topic = "orders"
count = 1000
rate = 100

[[faults]]
kind = "isolate"
targets = ["leader:orders/1"]
at_messages = 300
until = "load-ended"
not_before_new_epoch = "orders/1"

[expect]
lost = "allowed"

[[shapes.slow.producers]]
count = 10
rate = 1

[[shapes.slow.faults]]
at_s = 2
until_s = 5
"""
READS = """
[[consumers]]
topic = "orders"
group = "g"
"""


def problems_of(text: str) -> str:
    with pytest.raises(UsageProblem) as caught:
        load(read_source("bad.toml", text))
    return "\n".join([caught.value.message, *caught.value.details])


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new, 1)
