"""What the third judge says of receivers, of mirrors, and of clients that move between sites: each check as a question
in SQL, asked of all histories at once, in DuckDB. It shares no code with the real judge, nor with the second."""

from __future__ import annotations

from tests.support.oracles.sql_judge import FATES_OF_REPORTED

# What several questions ask of. A record that is none of ours has -1 for its producer and its number.
VIEWS = {
    "fates": FATES_OF_REPORTED,
    "copied": """
select m.run, m.topic, r.partition, r."offset", r.producer, r.seq, r.digest
from mirrored r join mirrors m on (m.run, m.mirror) = (r.run, r.topic)""",
    "own": "select log.* from log semi join mirrors using (run, topic)",
    "pairs": """
select run, topic, partition, producer, seq, coalesce(o.copies, 0) as copies, coalesce(c.copies, 0) as copies_there,
    o.first, o.last, c.first as first_there, c.last as last_there, o.held, c.held as held_there
from (select run, topic, partition, producer, seq, count(*) as copies, min("offset") as first, max("offset") as last,
        sum(digest) as held from own group by all) o
full join (select run, topic, partition, producer, seq, count(*) as copies, min("offset") as first,
        max("offset") as last, sum(digest) as held from copied group by all) c
using (run, topic, partition, producer, seq)""",
    "sites": "select run, topic, if(name like 'dc2:%', 'dc2', 'dc1') as site from topics",
    "acks": """
select s.*, site from sends s join sites using (run, topic) where outcome = 'ok' and done_ns is not null""",
    "written": """
select run, lag(site) over w as from_site, site as to_site, lag(done_ns) over w as from_ns, done_ns as to_ns
from acks window w as (partition by run order by done_ns, site)
qualify from_site <> to_site""",
    "taken_twice": """
select run, consumer, first(topic order by topic) as topic, first(partition order by topic, partition) as partition,
    first("offset" order by topic, partition, "offset") as first,
    last("offset" order by topic, partition, "offset") as last,
    producer, seq, count(*) as times
from received where accepted and producer <> -1 group by run, consumer, producer, seq having times > 1""",
    "never_taken": """
select l.run, r.consumer, l.topic, l.partition, l."offset", l.producer, l.seq,
    (select count(*) from received d
        where (d.run, d.consumer, d.producer, d.seq) = (l.run, r.consumer, l.producer, l.seq)) as dropped
from log l join receivers r using (run, topic)
where l.producer <> -1 and not exists (
    select 1 from received t
    where (t.run, t.consumer, t.producer, t.seq) = (l.run, r.consumer, l.producer, l.seq) and t.accepted)
qualify row_number() over (
    partition by l.run, r.consumer, l.producer, l.seq order by l.partition, l."offset") = 1""",
    "unreplicated": """
with ends as (
    select w.run, m.topic, s.partition, w.to_ns,
        arg_max(s.log_end, (coalesce(s.leader_epoch, -1), s.at_ns)) as mirror_end
    from written w
    join sites t on (t.run, t.site) = (w.run, w.from_site)
    join mirrors m on (m.run, m.topic) = (t.run, t.topic)
    join state s on (s.run, s.topic) = (m.run, m.mirror)
    where s.broker = s.leader and s.log_end is not null and s.at_ns + s.took_ns <= w.to_ns group by all),
reached as (
    select e.*, coalesce(max(p.first) filter (where p.first_there < e.mirror_end), -1) as copied_to
    from ends e left join pairs p using (run, topic, partition) group by all)
select a.run, a.topic, a.partition, a."offset", a.producer, a.seq, a.done_ns, w.to_ns as moved_ns,
    coalesce(r.copied_to, -1) as copied_to, p.first_there, a."offset" > coalesce(r.copied_to, -1) as explained
from acks a
semi join mirrors m on (m.run, m.topic) = (a.run, a.topic)
join written w on (w.run, w.from_site) = (a.run, a.site) and a.done_ns <= w.to_ns
left join reached r on (r.run, r.topic, r.partition, r.to_ns) = (a.run, a.topic, a.partition, w.to_ns)
left join pairs p on (p.run, p.topic, p.partition, p.producer, p.seq)
    = (a.run, a.topic, a.partition, a.producer, a.seq)
where a."offset" is not null and (p.first_there is null or p.first_there >= coalesce(r.mirror_end, 0))""",
    "moments": """
with begun as (select run, fault, at_ns from faults where event = 'asked'),
over as (
    select m.run, greatest(coalesce(m.healed_ns, max(f.at_ns), 0), m.load_ended_ns) as at_ns
    from marks m left join faults f on f.run = m.run and f.event in ('healed', 'not healed')
    group by m.run, m.healed_ns, m.load_ended_ns),
healed as (
    select h.run, h.fault, coalesce(g.at_ns, h.at_ns) as at_ns
    from faults h left join faults g on (g.run, g.fault) = (h.run, h.fault) and g.event = 'healing'
    where h.event = 'healed' and h."by" <> 'done'),
every as (
    select run, 'start' as moment, load_begun_ns as at_ns, -1 as begun_ns, 0 as part from marks
    union all select run, 'before ' || fault, at_ns, at_ns, 1 from begun
    union all
    select b.run, 'during ' || b.fault,
        coalesce(h.at_ns, (select min(n.at_ns) from begun n where n.run = b.run and n.at_ns > b.at_ns), o.at_ns),
        b.at_ns, 2
    from begun b join over o using (run) left join healed h using (run, fault)
    union all select run, 'end', drained_ns, 9223372036854775807, 3 from marks)
select run, moment, at_ns, row_number() over (partition by run order by at_ns, begun_ns, part) - 1 as place
from every where at_ns is not null""",
}

QUESTIONS = {
    "duplicate_accepted": "select * from taken_twice",
    "wrongly_dropped": "select * from never_taken",
    "receivers": """
with given as (
    select run, consumer, count(*) as messages, count(*) filter (where accepted) as taken from received group by all),
through as (select run, consumer, sum(times - 1)::bigint as duplicate_accepted from taken_twice group by all),
dropped as (select run, consumer, count(*) as wrongly_dropped from never_taken group by all),
spent as (
    select run, consumer, sum(handling_ns)::bigint / (nullif(sum(messages), 0)::bigint * 1000) as each,
        sum(deciding_ns)::bigint / (nullif(sum(messages), 0)::bigint * 1000) as deciding,
        max(memory_bytes) as memory, max(memory_bytes) - min(memory_bytes) as grown, max(disk_bytes) as disk
    from costs group by all),
every as (
    select r.*, coalesce(messages, 0) as messages, coalesce(taken, 0) as taken,
        coalesce(duplicate_accepted, 0) as duplicate_accepted, coalesce(wrongly_dropped, 0) as wrongly_dropped
    from receivers r left join given using (run, consumer) left join through using (run, consumer)
    left join dropped using (run, consumer))
select run, consumer, topic, strategy, messages, taken, duplicate_accepted, wrongly_dropped, copies, drops,
    (duplicate_accepted > 0 and copies = 'forbidden') or (duplicate_accepted = 0 and copies = 'required')
        or (wrongly_dropped > 0 and drops = 'forbidden') or (wrongly_dropped = 0 and drops = 'required'),
    each, deciding, memory, grown, disk
from every left join spent using (run, consumer)""",
    "mirror_differs": """
with compared as (
    select * from pairs p where not exists (
        select 1 from fates f join sends s using (run, producer, seq)
        where f.fate = 'expired' and (s.run, s.topic, s.partition, s.producer, s.seq)
            = (p.run, p.topic, p.partition, p.producer, p.seq))),
counted as (
    select *, null::bigint as previous, case
        when copies > copies_there then 'missing' when copies < copies_there then 'extra'
        when held <> held_there then 'changed' end as difference
    from compared),
moved as (
    select *, lag(first) over (partition by run, topic, partition order by first_there) as previous,
        'out of order' as difference
    from compared where copies > 0 and copies_there > 0 and producer <> -1)
select run, topic, partition, difference, producer, seq, first, first_there, previous, copies, copies_there
from (select * from counted where difference is not null union all by name select * from moved where first <= previous)
""",
    "mirror_layout": """
select run, topic, partition, m.mirror, sum(copies)::bigint, sum(copies_there)::bigint,
    min(first_there - first) filter (where producer <> -1), max(first_there - first) filter (where producer <> -1)
from pairs join mirrors m using (run, topic) group by all""",
    "offset_translation": """
select t.run, t."group", t.topic, t.partition, t.at_ns, t."offset", t.mirror, t.mirror_offset,
    count(*) filter (where p.last < t."offset" and p.last_there >= t.mirror_offset) as again,
    count(*) filter (where p.first >= t."offset" and p.last_there < t.mirror_offset) as missed, missed > 0
from translated t left join pairs p using (run, topic, partition)
where not exists (
    select 1 from reads r
    where (r.run, r."group", r.topic) = (t.run, t."group", t.mirror) and r.read_ns <= t.at_ns)
group by all""",
    "unreplicated": "select * from unreplicated",
    "unexplained": "select * from unreplicated where not explained",
    "site_gap": """
with given as (
    select r.*, site, row_number() over (partition by run, "group" order by read_ns, site) as place
    from reads r join sites using (run, topic)),
turns as (
    select *, lag(site) over w as from_site, lag(read_ns) over w as from_ns
    from given window w as (partition by run, "group" order by place)),
stays as (
    select *, lead(place, 1, 9223372036854775807) over (partition by run, "group" order by place) as until
    from turns where site <> from_site),
again as (
    select s.run, s."group", s.place, count(*) as times
    from stays s join given g on (g.run, g."group") = (s.run, s."group") and g.place >= s.place and g.place < s.until
    where g.producer <> -1 and exists (
        select 1 from given b where (b.run, b."group", b.producer, b.seq) = (g.run, g."group", g.producer, g.seq)
            and b.place < s.place)
    group by all)
select run, 'writes', null, from_site, to_site, from_ns, to_ns, (to_ns - from_ns) / 1e6, null from written
union all
select s.run, 'reads', s."group", s.from_site, s.site, s.from_ns, s.read_ns, (s.read_ns - s.from_ns) / 1e6,
    coalesce(a.times, 0)
from stays s left join again a using (run, "group", place)""",
    "leadership_history": """
select s.run, s.topic, s.partition, m.place, m.moment, m.at_ns, s.leader, s.leader_epoch, s.isr, s.replicas
from moments m join state s using (run)
where s.topic >= 0 and s.leader_epoch is not null and coalesce(s.error, 'LEADER_NOT_AVAILABLE') = 'LEADER_NOT_AVAILABLE'
    and s.at_ns <= m.at_ns and s.at_ns > m.at_ns - 3000000000
qualify row_number() over (
    partition by s.run, s.topic, s.partition, m.place
    order by s.leader_epoch desc, (s.leader is not distinct from s.broker) desc, s.at_ns desc) = 1""",
}
