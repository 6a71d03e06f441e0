"""A live health check: what it knows of a cluster and its traffic, when a person is told, and where the word goes.

    rate_query     counts the topic's messages second by second, with Spark                ─┐
    cluster_probe  each broker's own view of leaders and replicas, and the controller       ─┴─> View -> RULES -> alerts

`clients/health_check.py` is the process that does this; it stands where no fault reaches. `alert_sinks` carries the
word on.
"""
