"""What a fault is to the lab: a context manager that breaks something, proves that it is broken, and mends it.

A proof is positive. That a probe got no answer proves nothing by itself: the far end may be dead, or the probe wrong.
What cannot be proved is undone and raises NotProved.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class FaultProof:
    """What an active fault proved when it began, how to prove it again, and how to prove that it is over."""

    proved: str
    prove: Callable[[], str]
    prove_over: Callable[[], str]
