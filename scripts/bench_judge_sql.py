"""The questions of the base report as plain SQL, for DuckDB: row by row, exact, as one would write them down.

Each answers what the check of its name answers, and `fates` how many sends met each: `scripts/bench judge` compares
these counts with what was planted and with what the others count, and measures all of them together. Names that are no
check's are what the report tells besides.
"""

from __future__ import annotations

_PLACED = "outcome = 'ok' AND \"offset\" IS NOT NULL AND partition >= 0"
_VALUES = (
    'SELECT producer, seq, count(*) AS copies, min("offset") AS first_offset FROM log'
    " WHERE producer >= 0 AND seq >= 0 GROUP BY producer, seq"
)
_FATES = f"""
WITH found AS ({_VALUES})
SELECT s.*, found.copies, held.producer AS holder_producer, held.seq AS holder_seq,
    CASE
        WHEN outcome = 'ok' AND found.copies IS NOT NULL AND held.producer = s.producer AND held.seq = s.seq THEN 'survived'
        WHEN outcome = 'ok' AND found.copies IS NOT NULL THEN 'survived_moved'
        WHEN outcome = 'ok' AND held.producer IS NOT NULL THEN 'lost_overwritten'
        WHEN outcome = 'ok' AND s."offset" >= e.high_watermark THEN 'lost_truncated'
        WHEN outcome = 'ok' THEN 'lost_hole'
        WHEN outcome = 'info' AND found.copies IS NOT NULL THEN 'recovered'
        WHEN outcome = 'info' THEN 'not_written'
        WHEN found.copies IS NOT NULL THEN 'resurrected'
        ELSE 'rejected'
    END AS fate
FROM sends s
LEFT JOIN found USING (producer, seq)
LEFT JOIN log held ON held.topic = s.topic AND held.partition = s.partition AND held."offset" = s."offset"
LEFT JOIN ends e ON e.topic = s.topic AND e.partition = s.partition
"""

_ODD_STEPS = """
WITH steps AS (
    SELECT *, lag("offset") OVER (
        PARTITION BY consumer, assignment, topic, partition ORDER BY poll, read_ns, "offset"
    ) AS previous FROM reads
)
SELECT * FROM steps WHERE "offset" <> previous + 1
"""

SETUP = [f"CREATE TEMP TABLE fates AS {_FATES}", f"CREATE TEMP TABLE odd_steps AS {_ODD_STEPS}"]


def _took(basis: str) -> str:
    took = f"done_ns - {basis}_ns"
    return f"""
        SELECT '{basis}' AS basis, quantile_disc({took}, [0.5, 0.9, 0.99, 0.999]), max({took}),
            count_if({took} > 1000000000) AS late FROM sends WHERE outcome = 'ok'
    """


QUESTIONS = {
    "fates": "SELECT fate, count(*) FROM fates GROUP BY fate",
    "records": "SELECT topic, partition, count(*) FROM log GROUP BY topic, partition",
    "lost": "SELECT * FROM fates WHERE fate LIKE 'lost%'",
    "resurrected": "SELECT * FROM fates WHERE fate = 'resurrected'",
    "duplicated": "SELECT producer, seq, count(*) AS copies FROM log WHERE producer >= 0 GROUP BY ALL HAVING copies > 1",
    "reordered": """
        WITH arrivals AS (
            SELECT producer, topic, partition, seq, min("offset") AS first_offset FROM log WHERE producer >= 0 GROUP BY ALL
        ), steps AS (
            SELECT *, lag(first_offset) OVER (PARTITION BY producer, topic, partition ORDER BY seq) AS previous FROM arrivals
        )
        SELECT * FROM steps WHERE first_offset <= previous
    """,
    "inconsistent_offset": f"""
        WITH seen AS (
            SELECT topic, partition, "offset", producer::BIGINT << 40 | seq AS value FROM sends WHERE {_PLACED}
            UNION ALL SELECT topic, partition, "offset", producer::BIGINT << 40 | seq FROM log
            UNION ALL SELECT topic, partition, "offset", producer::BIGINT << 40 | seq FROM reads
        )
        SELECT topic, partition, "offset" FROM seen GROUP BY ALL HAVING min(value) <> max(value)
    """,
    "phantom": """
        SELECT DISTINCT topic, partition, "offset", producer, seq FROM (FROM log UNION ALL BY NAME FROM reads) r
        WHERE NOT EXISTS (
            FROM blocks b WHERE b.producer = r.producer AND r.seq >= b.first_seq AND r.seq < b.first_seq + b.count
        )
    """,
    "unstable_read": """
        SELECT r.* FROM reads r LEFT JOIN log l USING (topic, partition, "offset")
        WHERE l.producer IS NULL OR l.producer <> r.producer OR l.seq <> r.seq
    """,
    "aborted_read": "SELECT r.* FROM reads r JOIN sends s USING (producer, seq) WHERE s.outcome = 'fail'",
    "offset_gap": """
        WITH steps AS (
            SELECT topic, partition, "offset", lag("offset") OVER (PARTITION BY topic, partition ORDER BY "offset") AS previous
            FROM log
        )
        SELECT * FROM steps WHERE "offset" > previous + 1
    """,
    "realtime_order": f"""
        WITH acked AS (SELECT * FROM sends WHERE {_PLACED} AND done_ns IS NOT NULL), moments AS (
            SELECT topic, partition, "offset", producer, seq, sent_ns AS at_ns, 0 AS kind, NULL AS acked FROM acked
            UNION ALL SELECT topic, partition, "offset", producer, seq, done_ns, 1, "offset" FROM acked
        ), ordered AS (
            SELECT *, max(acked) OVER (
                PARTITION BY topic, partition ORDER BY at_ns, kind ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
            ) AS before FROM moments
        )
        SELECT * FROM ordered WHERE kind = 0 AND "offset" <= before
    """,
    "poll_skip": """
        SELECT DISTINCT s.* FROM log l JOIN odd_steps s
        ON l.topic = s.topic AND l.partition = s.partition AND l."offset" > s.previous AND l."offset" < s."offset"
    """,
    "nonmonotonic_poll": 'SELECT * FROM odd_steps WHERE "offset" <= previous',
    "undelivered": """
        SELECT l.* FROM log l WHERE producer >= 0
        AND NOT EXISTS (FROM reads r WHERE r."group" = 0 AND r.producer = l.producer AND r.seq = l.seq)
    """,
    "delivered_twice": """
        SELECT "group", topic, partition, "offset", count(*) AS times FROM reads GROUP BY ALL HAVING times > 1
    """,
    "stale_leader_ack": """
        WITH epochs AS (
            SELECT topic, partition, leader_epoch, min(at_ns + took_ns) AS seen_ns FROM state GROUP BY ALL
        )
        SELECT s.producer, s.seq FROM fates s
        JOIN log l ON l.topic = s.topic AND l.partition = s.partition AND l."offset" = s."offset"
        JOIN epochs e ON e.topic = s.topic AND e.partition = s.partition AND e.leader_epoch >= l.leader_epoch
        WHERE s.done_ns > e.seen_ns AND (s.fate = 'lost_overwritten' OR s.fate = 'survived' AND e.leader_epoch > l.leader_epoch)
        GROUP BY ALL
    """,
    "first_ack": """
        SELECT f.topic, f.partition, l.leader_epoch, min(f.done_ns) FROM fates f
        JOIN log l ON l.producer = f.producer AND l.seq = f.seq WHERE f.outcome = 'ok' AND f.copies = 1 GROUP BY ALL
    """,
    "unavailable": """
        WITH acks AS (
            SELECT topic, partition, done_ns, lag(done_ns) OVER (PARTITION BY topic, partition ORDER BY done_ns) AS previous
            FROM sends WHERE outcome = 'ok'
        ), pauses AS (
            SELECT topic, partition, previous AS opens, done_ns AS closes FROM acks WHERE done_ns - previous > 1000000000
        )
        SELECT p.*, count(*) AS waiting, min(greatest(s.sent_ns, opens)) AS since, max(least(s.done_ns, closes)) AS until
        FROM sends s JOIN pauses p ON s.topic = p.topic AND s.partition = p.partition AND sent_ns < closes AND done_ns > opens
        GROUP BY ALL HAVING until - since > 1000000000
    """,
    "ack_latency": f"FROM ({_took('due')} UNION ALL {_took('sent')}) WHERE late > 0",
    "sent": "SELECT (sent_ns - (SELECT min(sent_ns) FROM sends)) // 1000000000 AS second, count(*) FROM sends GROUP BY ALL",
    "acked": "SELECT (done_ns - (SELECT min(sent_ns) FROM sends)) // 1000000000 AS second, count(*) FROM sends GROUP BY ALL",
    "read": "SELECT (read_ns - (SELECT min(sent_ns) FROM sends)) // 1000000000 AS second, count(*) FROM reads GROUP BY ALL",
    "given": "SELECT consumer, count(*), count(DISTINCT partition) FROM reads GROUP BY consumer",
    "producers": """
        SELECT producer, count(*), bit_xor(hash(seq)), count_if(outcome = 'ok'), min(sent_ns), max(sent_ns), max(done_ns),
            count_if(done_ns < sent_ns) FROM sends GROUP BY producer
    """,
}
