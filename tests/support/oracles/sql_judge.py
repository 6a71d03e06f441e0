"""A third judge, in DuckDB's SQL: written from the definitions in docs/judge.md, without code of the other two.

Each question is one statement over the journal's tables, of all histories at once; its rows begin with `run`.
"""

from __future__ import annotations

_PLACED = """placed as (
    select run, producer, seq, topic, partition, "offset", sent_ns, done_ns
    from sends where outcome = 'ok' and "offset" is not null and partition >= 0)"""

_STEPS = """steps as (
    select *, lag("offset") over (partition by run, consumer, assignment, topic, partition order by poll) as before
    from reads)"""

_FATES_OF = f"""
with {_PLACED},
copies as (select run, producer, seq, count(*) as copies from log group by all),
newest as (
    select l.run, l.topic, l.partition, s.key, max(l."offset") as newest
    from {{sends}} s join log l using (run, producer, seq) where s.key is not null group by all)
select s.run, s.producer, s.seq, case
    when s.outcome = 'info' then if(c.copies is null, 'not_written', 'recovered')
    when s.outcome = 'fail' then if(c.copies is null, 'rejected', 'resurrected')
    when p.run is null then if(c.copies is null, 'lost_unplaced', 'survived')
    when (h.producer, h.seq) = (s.producer, s.seq) then 'survived'
    when c.copies is not null then 'survived_moved'
    when h.run is not null then 'lost_overwritten'
    when e.run is null then 'lost_hole'
    when s."offset" >= e.high_watermark then 'lost_truncated'
    when s."offset" < e.log_start then 'expired'
    when e.compacted and k.newest > s."offset" then 'expired'
    else 'lost_hole' end as fate
from {{sends}} s
left join copies c using (run, producer, seq)
left join placed p using (run, producer, seq)
left join log h on (h.run, h.topic, h.partition, h."offset") = (p.run, p.topic, p.partition, p."offset")
left join ends e on (e.run, e.topic, e.partition) = (s.run, s.topic, s.partition)
left join newest k on (k.run, k.topic, k.partition, k.key) = (s.run, s.topic, s.partition, s.key)
"""
FATES_OF_REPORTED = _FATES_OF.format(sends="sends")
_FATES = _FATES_OF.format(sends="sent")

VIEWS = {
    "used": """
select run, producer, unnest(range(first_seq, first_seq + coalesce(max(used), max(count)))) as seq
from blocks group by run, producer, first_seq""",
    "sent": """
select * from sends
union all by name
select u.run, u.producer, u.seq, w.topic, -1 as partition, 'info' as outcome
from used u join writers w using (run, producer) anti join sends s using (run, producer, seq)""",
}

_TRANSACTED = """transacted as (
    select run, producer, "transaction",
        any_value(event) filter (where event in ('committed', 'aborted', 'unknown')) as became,
        min(at_ns) filter (where event = 'committing') as asked_ns,
        min(first_seq) as first_seq, arg_max(last_seq, at_ns) as last_seq
    from transactions group by all)"""

_LOAD = """load as (
    select run, min(sent_ns) as begin_ns, max(greatest(sent_ns, done_ns)) as end_ns from sends group by all)"""

# `least` and `greatest` pass over nulls: whatever is not known ends nothing.
_OWNED = f"""{_LOAD},
told as (
    select *, lead(at_ns) over (partition by run, "group", topic, partition, consumer order by at_ns) as next_ns
    from groups),
owned as (
    select t.run, t."group", t.topic, t.partition, t.consumer, t.at_ns as from_ns,
        least(coalesce(t.next_ns, l.end_ns), min(n.at_ns)) as to_ns
    from told t
    left join load l using (run)
    left join members_of m on (m.run, m.consumer) = (t.run, t.consumer)
    left join nodes n on (n.run, n.node) = (m.run, m.name) and n.at_ns > t.at_ns
    where t.event = 'assigned'
    group by t.run, t."group", t.topic, t.partition, t.consumer, t.at_ns, t.next_ns, l.end_ns
    having to_ns > from_ns)"""

_UNOWNED = f"""{_OWNED},
edges as (
    select run, "group", topic, partition, from_ns as at_ns, 1 as more from owned
    union all select run, "group", topic, partition, to_ns, -1 from owned),
moments as (select run, "group", topic, partition, at_ns, sum(more) as more from edges group by all),
stretches as (
    select *, sum(more) over w as owners, lead(at_ns) over w as next_ns
    from moments window w as (partition by run, "group", topic, partition order by at_ns)),
unowned as (
    select s.run, s."group", s.topic, s.partition,
        greatest(s.at_ns, l.begin_ns) as from_ns, least(coalesce(s.next_ns, l.end_ns), l.end_ns) as to_ns
    from stretches s left join load l using (run) where s.owners = 0 and to_ns > from_ns
    union all
    select distinct e.run, m."group", e.topic, e.partition, l.begin_ns, l.end_ns
    from ends e join members_of m using (run, topic) join load l using (run)
    where l.end_ns > l.begin_ns and not exists (
        select 1 from owned o
        where (o.run, o."group", o.topic, o.partition) = (e.run, m."group", e.topic, e.partition)))"""

QUESTIONS = {
    "fates": _FATES,
    "lost": f"select * from ({_FATES}) where fate like 'lost%'",
    "duplicated": """
select run, producer, seq, count(*) as copies from log where producer >= 0 group by all having copies > 1""",
    "reordered": """
with arrived as (
    select run, topic, partition, producer, seq, min("offset") as first
    from log semi join sent using (run, producer, seq) group by all)
select run, topic, partition, producer, seq from arrived
qualify first <= lag(first) over (partition by run, producer, topic, partition order by seq)""",
    "inconsistent_offset": f"""
with {_PLACED}, seen as (
    select run, topic, partition, "offset", producer, seq from placed
    union select run, topic, partition, "offset", producer, seq from reads
    union select run, topic, partition, "offset", producer, seq from log)
select run, topic, partition, "offset" from seen group by all having count(*) > 1""",
    "offset_gap": """
with plain as (select * from ends where not compacted and not transactional),
there as (
    select run, topic, partition, "offset" from log
    union select run, topic, partition, log_start - 1 from plain
    union select run, topic, partition, high_watermark from plain),
steps as (
    select *, lead("offset") over (partition by run, topic, partition order by "offset") as next
    from there semi join plain using (run, topic, partition))
select run, topic, partition, "offset" + 1, next - "offset" - 1 from steps where next > "offset" + 1""",
    "realtime_order": f"""
with {_PLACED}
select s.run, s.producer, s.seq, max(b."offset") as before
from placed s join placed b using (run, topic, partition)
where b.done_ns < s.sent_ns and s.done_ns is not null
group by s.run, s.producer, s.seq, s."offset" having s."offset" <= before""",
    "poll_skip": f"""
with {_STEPS}, {_TRANSACTED}, there as (
    select run, topic, partition, "offset" from log
    union select run, topic, partition, "offset" from reads r
    where (run, topic, partition) not in (select (run, topic, partition) from ends where compacted) and not exists (
        select 1 from transacted t where (t.run, t.producer) = (r.run, r.producer)
            and r.seq between t.first_seq and t.last_seq and t.became is distinct from 'committed'))
select s.run, s.consumer, s.poll, count(*) as skipped
from steps s join there t using (run, topic, partition)
where t."offset" > s.before and t."offset" < s."offset" group by all""",
    "nonmonotonic_poll": f"""with {_STEPS} select run, consumer, poll from steps where "offset" <= before""",
    "unavailable": """
with ours as (select run, topic, count(*) as partitions, min(partition) as only_one from ends group by all),
last as (select run, max(greatest(sent_ns, coalesce(done_ns, 0))) as last_ns from sends group by all),
waits as (
    select s.run, s.topic, if(s.partition >= 0, s.partition, o.only_one) as partition,
        s.sent_ns, coalesce(s.done_ns, l.last_ns) as done_ns, s.outcome
    from sends s join ours o using (run, topic) join last l using (run)
    where s.partition >= 0 or o.partitions = 1),
edges as (
    select run, topic, partition, min(sent_ns) as opened from waits group by all
    union select run, topic, partition, max(done_ns) from waits group by all
    union select run, topic, partition, done_ns from waits where outcome = 'ok'),
pauses as (
    select *, lead(opened) over (partition by run, topic, partition order by opened) as closed from edges),
felt as (
    select p.run, p.topic, p.partition, p.opened,
        min(greatest(w.sent_ns, p.opened)) as from_ns, max(least(w.done_ns, p.closed)) as to_ns
    from pauses p join waits w using (run, topic, partition)
    where w.sent_ns < p.closed and w.done_ns > p.opened group by all)
select run, topic, partition, from_ns, to_ns from felt where to_ns - from_ns > 1000000000""",
    "unstable_read": """
select r.run, r.consumer, r.read_ns, r.topic, r.partition, r."offset", r.producer, r.seq
from reads r
left join log l using (run, topic, partition, "offset")
left join ends e on (e.run, e.topic, e.partition) = (r.run, r.topic, r.partition)
where (l.producer, l.seq) is distinct from (r.producer, r.seq)
    and not (l.producer is null and r."offset" < coalesce(if(e.compacted, e.high_watermark, e.log_start), 0))""",
    "phantom": """
with seen as (
    select run, 'log' as by, topic, partition, "offset", producer, seq from log
    union select run, 'read', topic, partition, "offset", producer, seq from reads)
select s.* from seen s where not exists (
    select 1 from blocks b where (b.run, b.producer) = (s.run, s.producer)
        and s.seq >= b.first_seq and s.seq < b.first_seq + b.count)""",
    "aborted_read": f"""
with {_TRANSACTED}
select r.run, r.consumer, r.read_ns, r.topic, r.partition, r."offset", r.producer, r.seq
from reads r join sends s using (run, producer, seq) join members_of m using (run, consumer)
where s.outcome = 'fail' and not (m.isolation = 'read_uncommitted' and exists (
    select 1 from transacted t where (t.run, t.producer) = (r.run, r.producer)
        and r.seq between t.first_seq and t.last_seq and t.became is distinct from 'committed'))""",
    "resurrected": f"""
select f.run, f.producer, f.seq, count(*) from ({_FATES}) f join log using (run, producer, seq)
where f.fate = 'resurrected' group by all""",
    "delivered_twice": """
select run, "group", topic, partition, "offset", count(*) as times, count(distinct consumer)
from reads group by all having times > 1""",
    "undelivered": """
with told as (
    select run, "group", topic, partition, arg_min(position, at_ns) as begins
    from groups where event = 'assigned' and position is not null group by all),
whole as (
    select distinct e.run, m."group", e.topic, e.partition from ends e join members_of m using (run, topic)
    where m.start = 'earliest'),
began as (
    select run, "group", topic, partition, coalesce(begins, 0) as begins
    from whole full join told using (run, "group", topic, partition))
select l.run, b."group", l.topic, l.partition, l."offset", l.producer, l.seq
from log l join began b using (run, topic, partition)
where l."offset" >= b.begins and l.producer >= 0 and l.seq >= 0 and not exists (
    select 1 from reads r where (r.run, r."group", r.producer, r.seq) = (l.run, b."group", l.producer, l.seq))""",
    "commit_regression": """
with accepted as (
    select *, max("offset") over (
        partition by run, "group", topic, partition order by at_ns
        rows between unbounded preceding and 1 preceding) as highest
    from commits where outcome = 'ok')
select run, "group", topic, partition, consumer, at_ns, highest, "offset" from accepted where "offset" < highest""",
    "watermark_regression": """
with shown as (
    select run, topic, partition, leader_epoch, high_watermark from state where broker = leader
    union all select run, topic, partition, leader_epoch, high_watermark from ends),
epochs as (
    select run, topic, partition, leader_epoch, min(high_watermark) as low, max(high_watermark) as high
    from shown where leader_epoch is not null and high_watermark is not null group by all)
select n.run, n.topic, n.partition, n.leader_epoch, max(o.high) as before, n.low
from epochs n join epochs o using (run, topic, partition) where o.leader_epoch < n.leader_epoch
group by n.run, n.topic, n.partition, n.leader_epoch, n.low having n.low < before""",
    "dual_leader": """
with told as (
    select *, if(error is null and leader = broker, coalesce(leader_epoch, -1), null) as epoch from state),
turns as (
    select *, if(epoch is distinct from lag(epoch) over w, 1, 0) as turned
    from told window w as (partition by run, topic, partition, broker order by at_ns)),
stretches as (
    select *, sum(turned) over (partition by run, topic, partition, broker order by at_ns) as stretch from turns),
claims as (
    select run, topic, partition, broker, epoch, stretch, min(at_ns + took_ns) as from_ns, max(at_ns) as to_ns
    from stretches where epoch is not null group by all)
select run, topic, partition, greatest(a.from_ns, b.from_ns) as from_ns, least(a.to_ns, b.to_ns) as to_ns,
    a.broker, a.epoch, b.broker, b.epoch
from claims a join claims b using (run, topic, partition)
where a.broker < b.broker and greatest(a.from_ns, b.from_ns) <= least(a.to_ns, b.to_ns)""",
    "stale_leader_ack": f"""
with {_PLACED},
seen as (select *, at_ns + took_ns as seen_ns from state where leader_epoch is not null),
led as (
    select run, topic, partition, leader_epoch, max(at_ns) as asked_ns, max(log_end) as reached
    from seen where leader = broker and log_end is not null group by all),
copies as (select run, producer, seq, count(*) as copies from log group by all),
stands as (
    select p.*, c.copies, l.run as held, (l.producer, l.seq) as holder, l.leader_epoch as epoch
    from placed p
    left join copies c using (run, producer, seq)
    left join log l on (l.run, l.topic, l.partition, l."offset") = (p.run, p.topic, p.partition, p."offset")),
truncated as (
    select s.*, e.leader_epoch as last_epoch from stands s join ends e using (run, topic, partition)
    where s.copies is null and s.held is null and s."offset" >= e.high_watermark),
older as (
    select run, topic, partition, producer, seq, done_ns, epoch + 1 as older_than
    from stands where holder = (producer, seq) and copies = 1
    union select run, topic, partition, producer, seq, done_ns, epoch
    from stands where holder <> (producer, seq)
    union select run, topic, partition, producer, seq, done_ns, last_epoch from truncated
    union select run, topic, partition, producer, seq, done_ns, d.leader_epoch
    from truncated t join led d using (run, topic, partition)
    where d.asked_ns >= t.done_ns and d.reached <= t."offset"),
known as (
    select o.run, o.producer, o.seq, o.older_than, min(s.seen_ns) as since_ns
    from older o join seen s using (run, topic, partition) where s.leader_epoch >= o.older_than
    group by o.run, o.producer, o.seq, o.older_than, o.done_ns having since_ns < o.done_ns)
select k.run, k.producer, k.seq, f.fate, k.older_than, k.since_ns from known k
join ({_FATES}) f using (run, producer, seq)
qualify row_number() over (partition by k.run, k.producer, k.seq order by k.older_than) = 1""",
    "dual_ownership": f"""
with {_OWNED}
select run, "group", topic, partition, a.consumer, b.consumer,
    greatest(a.from_ns, b.from_ns) as from_ns, least(a.to_ns, b.to_ns) as to_ns
from owned a join owned b using (run, "group", topic, partition)
where a.consumer < b.consumer and greatest(a.from_ns, b.from_ns) < least(a.to_ns, b.to_ns)""",
    "ownership_gap": f"""with {_UNOWNED} select run, "group", topic, partition, from_ns, to_ns from unowned""",
    "rebalances": f"""
with {_UNOWNED},
words as (
    select *, at_ns - lag(at_ns) over (partition by run, "group" order by at_ns) > 1000000000 as anew from groups),
counted as (
    select w.run, w."group", count(*) filter (where w.anew and w.at_ns between l.begin_ns and l.end_ns) as times
    from words w left join load l using (run) group by all),
idle as (select run, "group", sum(to_ns - from_ns) / 1e9 as seconds from unowned group by all)
select c.run, c."group", c.times, coalesce(i.seconds, 0), c.times > 0
from counted c left join idle i using (run, "group")""",
    "torn_transaction": f"""
with {_TRANSACTED}, judged as (
    select t.run, t.producer, t."transaction", t.became, s.topic, s.seq,
        f.fate in ('survived', 'survived_moved', 'recovered', 'resurrected', 'expired') as there
    from transacted t
    join sent s on (s.run, s.producer) = (t.run, t.producer) and s.seq between t.first_seq and t.last_seq
    join ({_FATES}) f on (f.run, f.producer, f.seq) = (s.run, s.producer, s.seq))
select run, producer, "transaction", min(topic), became,
    count(*) filter (where there) as held, count(*) filter (where not there) as missing,
    min(seq) filter (where not there)
from judged group by run, producer, "transaction", became having held > 0 and missing > 0""",
    "uncommitted_read": f"""
with {_TRANSACTED}
select r.run, r.consumer, r.read_ns, r.topic, r.partition, r."offset", r.producer, r.seq,
    t."transaction", t.became, t.asked_ns
from reads r join members_of m using (run, consumer)
join transacted t on (t.run, t.producer) = (r.run, r.producer) and r.seq between t.first_seq and t.last_seq
where m.isolation = 'read_committed'
    and (t.became is not distinct from 'aborted' or t.asked_ns is null or r.read_ns < t.asked_ns)""",
    "hanging_transaction": f"""
with {_TRANSACTED},
words as (select *, if(last_stable < high_watermark, last_stable, null) as held from stable),
turns as (
    select *, if(held is distinct from lag(held) over w, 1, 0) as turned
    from words window w as (partition by run, topic, partition order by at_ns)),
stretches as (
    select *, sum(turned) over (partition by run, topic, partition order by at_ns) as stretch from turns),
times as (
    select run, topic, partition, held, stretch, min(at_ns) as from_ns, max(at_ns) as to_ns
    from stretches where held is not null group by all),
limits as (select run, max(timeout_ms) + 10000 as limit_ms from transactions group by all),
writers as (
    select distinct s.run, s.topic, s.partition, s."offset" as held, t.producer, t."transaction"
    from sends s join transacted t
        on (t.run, t.producer) = (s.run, s.producer) and s.seq between t.first_seq and t.last_seq)
select h.run, h.topic, h.partition, h.held, w.producer, w."transaction",
    h.from_ns, h.to_ns, (h.to_ns - h.from_ns) / 1e6 as ms, l.limit_ms
from times h join limits l using (run) left join writers w using (run, topic, partition, held)
where ms > l.limit_ms""",
}
