"""The judge: run directories in, verdicts out. Needs Java for Spark; no Kafka, no root, nothing of the lab."""

from __future__ import annotations

from ackproof.judge.checks import CHECKS, Check
from ackproof.judge.from_kafka import Kafka
from ackproof.judge.main import judge
from ackproof.judge.rehearsal import rehearse
from ackproof.judge.spark import Extras, Session, warm

__all__ = ["CHECKS", "Check", "Extras", "Kafka", "Session", "judge", "rehearse", "warm"]
