"""A run follows the log of its health check. It takes only whole lines, and each line once."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from ackproof.health.alert_sinks import in_words
from ackproof.health.alerting import Alert
from ackproof.model.scenario import HealthPlan
from ackproof.run.health_check import HealthFeed

RAISED = Alert("rate", "raised", 0.0, "silence", True)
CLEARED = Alert("rate", "cleared", None, "all is well again", True)


def test_each_line_of_the_log_is_delivered_once_and_only_when_it_is_complete(tmp_path: Path) -> None:
    told: list[str] = []
    feed = HealthFeed(HealthPlan("orders"), tmp_path, told.append)
    feed.follow()  # there is no log yet
    (tmp_path / "logs").mkdir()
    first, second = (msgspec.json.encode(alert) + b"\n" for alert in (RAISED, CLEARED))
    with (tmp_path / "logs" / "health.log").open("wb", buffering=0) as log:
        log.write(b"some warning\n" + first + second[:9])
        feed.follow()
        feed.follow()
        assert told == [in_words(RAISED)]
        log.write(second[9:])
        feed.follow()
    assert told == [in_words(RAISED), in_words(CLEARED)]
    feed.close()


def test_without_a_health_check_nothing_is_followed(tmp_path: Path) -> None:
    feed = HealthFeed(None, tmp_path, lambda said: pytest.fail(said))
    feed.follow()
    feed.close()
