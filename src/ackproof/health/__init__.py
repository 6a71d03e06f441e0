"""A live health check: measure a cluster and its traffic, decide when to alert a person, and deliver the alerts.

    rate_query     counts the messages of a topic each second, with Spark       ─┐
    cluster_probe  asks the brokers for leaders and replicas, and the controller ─┴─> Snapshot -> RULES -> alerts

`check` runs this loop, and `config` has its settings. `clients/health_check.py` is its process, which runs where no
fault reaches it; `alert_sinks` delivers the alerts on the host.
"""
