"""The names of topics at two sites."""

from __future__ import annotations

from ackproof.core.sites import named, placed


def test_topics_of_one_name_at_two_sites_are_told_apart() -> None:
    assert placed("dc2:orders") == ("dc2", "orders")
    assert placed("dc1:orders") == placed("orders") == ("dc1", "orders")
    assert placed("dc3:orders") == ("dc1", "dc3:orders")
    assert [named("dc1", "orders"), named("dc2", "dc1.orders")] == ["orders", "dc2:dc1.orders"]
