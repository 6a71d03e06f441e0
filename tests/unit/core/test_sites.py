"""What topics of two sites are called."""

from __future__ import annotations

from ackproof.core.sites import named, placed


def test_a_topic_is_told_from_one_of_the_same_name_elsewhere() -> None:
    assert placed("dc2:orders") == ("dc2", "orders")
    assert placed("dc1:orders") == placed("orders") == ("dc1", "orders")
    assert placed("dc3:orders") == ("dc1", "dc3:orders")
    assert [named("dc1", "orders"), named("dc2", "dc1.orders")] == ["orders", "dc2:dc1.orders"]
