"""The third judge's answers about what a scenario plans, in DuckDB's SQL: from the definitions in docs/judge.md,
without code of the other two. Its tables are the journal's, and those of `run.json` that `reference_plans` names."""

# ruff: noqa: S608 - SQL of ours, from ours

from __future__ import annotations

from tests.support.oracles.sql_judge import FATES_OF_REPORTED

_FATES = f"fates as ({FATES_OF_REPORTED})"

# The view of each tp at each moment: the newest epoch, its leader's own word first, and then the latest.
_VIEWS = """
begun as (select run, fault, at_ns as begin_ns from faults where event = 'asked'),
ended as (
    select run, fault, coalesce(min(at_ns) filter (where event = 'healing'), min(at_ns) filter (where event = 'healed'))
        as end_ns
    from faults group by all having bool_or(event = 'healed' and "by" is distinct from 'done')),
over as (
    select m.run, greatest(coalesce(m.healed_ns, max(f.at_ns)), m.load_ended_ns) as over_ns
    from marks_of m left join faults f on f.run = m.run and f.event in ('healed', 'not healed')
    group by m.run, m.healed_ns, m.load_ended_ns),
moments as (
    select run, 'start' as moment, load_begun_ns as moment_ns from marks_of
    union all select run, 'end', drained_ns from marks_of
    union all select run, 'before ' || fault, begin_ns from begun
    union all
    select b.run, 'during ' || b.fault, coalesce(
        e.end_ns, (select min(n.begin_ns) from begun n where n.run = b.run and n.begin_ns > b.begin_ns), o.over_ns)
    from begun b left join ended e using (run, fault) left join over o using (run)),
views as (
    select run, topic, partition, moment, leader, isr, replicas
    from state s join moments m using (run)
    where at_ns <= moment_ns and at_ns > moment_ns - 3000000000
        and leader_epoch is not null and (error is null or error = 'LEADER_NOT_AVAILABLE')
    qualify row_number() over (
        partition by run, topic, partition, moment
        order by leader_epoch desc, coalesce(leader = broker, false) desc, at_ns desc) = 1)"""

_CLAIMED = """
named as (
    select run, claim, 'leader' as what, unnest(leader) as name from claims_of
    union all select run, claim, 'not_leader', unnest(not_leader) from claims_of
    union all select run, claim, 'isr', unnest(isr) from claims_of
    union all select run, claim, 'isr_without', unnest(isr_without) from claims_of),
meant as (
    select run, claim, what, name from named
    union all
    select n.run, n.claim, n.what, unnest(f.targets) from named n
    join faults f on f.run = n.run and f.event = 'proved' and n.name = 'target:' || f.fault),
ids as (
    select run, claim, what, list(distinct broker) as brokers
    from meant join brokers_of using (run, name) group by all),
read as (select run, topic, partition from ends union select run, topic, partition from mirror_ends),
claimed as (
    select c.* exclude (leader, not_leader, isr, isr_without), t.topic,
        coalesce(try_cast(regexp_extract(c.partitions, '[^/]*$') as int), r.partition) as partition,
        if(len(c.leader) > 0, coalesce(i1.brokers, []), null) as one_of,
        if(len(c.not_leader) > 0, coalesce(i2.brokers, []), null) as none_of,
        if(len(c.isr) > 0, coalesce(i3.brokers, []), null) as exactly,
        if(len(c.isr_without) > 0, coalesce(i4.brokers, []), null) as without
    from claims_of c
    join topics_of t on t.run = c.run and t.name = regexp_extract(c.partitions, '^(.*)/', 1)
    left join read r on (r.run, r.topic) = (t.run, t.topic) and c.partitions like '%*'
    left join ids i1 on (i1.run, i1.claim, i1.what) = (c.run, c.claim, 'leader')
    left join ids i2 on (i2.run, i2.claim, i2.what) = (c.run, c.claim, 'not_leader')
    left join ids i3 on (i3.run, i3.claim, i3.what) = (c.run, c.claim, 'isr')
    left join ids i4 on (i4.run, i4.claim, i4.what) = (c.run, c.claim, 'isr_without'))"""

# Which broker comes when: one of each rack in turn. What no rule tells apart is made once: it is numbered by its shape.
_RULE = """
ring as (
    select *, row_number() over (partition by run, coalesce(rack, '') order by broker) as turn from brokers_of),
layouts as (
    select run, list(broker order by turn, rack) as brokers, list(coalesce(rack, '') order by turn, rack) as racks,
        count(distinct coalesce(rack, '')) as kinds, count(*) as size
    from ring group by run),
first_seen as (
    select s.run, s.topic, s.partition, arg_min(s.replicas, s.at_ns) as replicas
    from state s join topics_of t using (run, topic)
    where s.replicas is not null and t.name not like 'dc2:%'
        and (t.partitions is null or s.partition < t.partitions) group by all),
topics as (
    select run, topic, list(replicas order by partition) as assignment,
        max(partition) = count(*) - 1 and min(partition) = 0 as whole
    from first_seen group by all),
shapes as (
    select distinct l.brokers, l.racks, l.kinds, l.size, len(t.assignment[1]) as replication, len(t.assignment) as count
    from topics t join layouts l using (run) join mode_of m using (run) where t.whole and m.mode = 'zookeeper'),
asked as (
    select *, unnest(range(size)) as start from shapes),
draws as (
    select *, unnest(range(size)) as shift from asked),
places as (
    select *, unnest(range(count)) as partition from draws),
tried as (
    select *, 0 as tries, [(partition + start) % size] as chosen from places
    union all
    select * exclude (next, tries, chosen), tries + 1, if(
        (not list_contains(list_transform(chosen, lambda c: racks[c + 1]), racks[next + 1])
            or len(list_distinct(list_transform(chosen, lambda c: racks[c + 1]))) = kinds)
        and (not list_contains(chosen, next) or len(list_distinct(chosen)) = size),
        list_append(chosen, next), chosen)
    from (
        select *, (
            chosen[1] + 1 + ((shift + partition // size) * kinds + tries) % (size - 1)) % size as next
        from tried where len(chosen) < replication)),
rule as (
    select brokers, racks, replication, count, start, shift,
        list(list_transform(chosen, lambda c: brokers[c + 1]) order by partition) as made
    from tried where len(chosen) = replication group by all),
drawn as (
    select t.run, t.topic, r.start, r.shift, r.made
    from topics t join layouts l using (run) join mode_of m using (run)
    join rule r on r.brokers = l.brokers and r.racks = l.racks and r.made = t.assignment
    where t.whole and m.mode = 'zookeeper'
    qualify row_number() over (partition by t.run, t.topic order by r.start, r.shift) = 1)"""

QUESTIONS = {
    "key_moved": """
with written as (select * from sends where outcome = 'ok' and key is not null and partition >= 0)
select run, producer, topic, key, lag(seq) over w, lag(partition) over w as came_from, lag("offset") over w,
    seq, partition, "offset"
from written window w as (partition by run, producer, topic, key order by seq)
qualify came_from <> partition""",
    "key_reordered": """
with given as (
    select s.run, r."group", s.producer, s.seq, s.topic, s.key, s.partition, min(r.read_ns) as read_ns
    from reads r join sends s using (run, producer, seq) where s.key is not null group by all)
select g.run, g."group", g.topic, g.key, g.producer, g.seq, g.partition, g.read_ns, min(l.read_ns),
    max(g.read_ns - l.read_ns) / 1e6
from given g join given l
    on (l.run, l."group", l.producer, l.topic, l.key) = (g.run, g."group", g.producer, g.topic, g.key)
    and l.seq > g.seq and l.read_ns < g.read_ns
group by all""",
    "log_dir_placement": """
with recursive steps as (
    select run, broker, step, lag(step) over (partition by run, broker order by step) as step_before
    from (select distinct run, broker, step from places)),
changes as (
    select s.run, s.broker, s.step, n.directory, coalesce(b.partitions, []) as old, n.partitions as new,
        list_filter(n.partitions, lambda p: not list_contains(old, p)) as added
    from steps s
    join places n on (n.run, n.broker, n.step) = (s.run, s.broker, s.step)
    left join places b
        on (b.run, b.broker, b.step, b.directory) = (s.run, s.broker, s.step_before, n.directory)
    where s.step_before is not null),
looks as (
    select run, broker, step, list(len(old) order by directory) as before, list(len(new) order by directory) as after,
        list_sort(flatten(list(added))) as given
    from changes group by all having len(given) > 0),
fill as (
    select run, broker, step, len(given) as more, list_sort(before) as counts from looks
    union all
    select run, broker, step, more - 1, list_sort(list_append(counts[2:], counts[1] + 1)) from fill where more > 0)
select run, broker, step, before, after, list_reverse_sort(counts) as documented, given,
    documented <> list_reverse_sort(after)
from looks join fill using (run, broker, step) where more = 0""",
    "seek_mismatch": """
with judged as (
    select *,
        "by" = 'offset' and asked >= log_start_after and asked < log_end as is_there,
        "by" = 'offset' and (asked < log_start or asked >= log_end_after) as is_gone,
        coalesce(if("by" = 'offset', landed = asked,
            landed = answer and landed_ms >= asked and coalesce(before_ms < asked, true)), false) as at_place,
        error is null and coalesce(landed >= log_end, true) as waits,
        coalesce(case policy when 'earliest' then landed between log_start and log_start_after
            when 'latest' then waits else error = '_AUTO_OFFSET_RESET' end, false) as by_policy
    from seeks)
select run, topic, partition, fault, "by", asked, policy, landed, landed_ms, before_ms, log_start, log_end, error
from judged where not case
    when "by" = 'time' and answer is null then waits
    when "by" = 'time' then at_place or (answer < log_start_after and landed is distinct from answer and by_policy)
    when is_there then at_place
    when is_gone then by_policy
    else at_place or by_policy end""",
    "membership_gap": """
with everybody as (select distinct run, unnest(brokers) as broker from members),
told as (
    select run, source, broker, at_ns, list_contains(brokers, broker) as named,
        lag(named) over (partition by run, source, broker order by at_ns) as named_before
    from members join everybody using (run))
select v.run, v.source, v.broker, v.at_ns, min(b.at_ns)
from told v left join told b
    on (b.run, b.source, b.broker) = (v.run, v.source, v.broker) and b.named and b.at_ns > v.at_ns
where not v.named and v.named_before group by all""",
    "unpublished": f"""
with {_FATES}
select s.run, s.topic, s.producer, s.seq, f.fate, s.outcome, s.error, s.sent_ns
from sends s join fates f using (run, producer, seq) join producers_of p using (run, producer)
where p.outbox and f.fate <> 'expired' and not exists (
    select 1 from log l where (l.run, l.producer, l.seq) = (s.run, s.producer, s.seq))""",
    "exit_codes": """
with lives as (select run, node as name, list(coalesce(code, -1) order by at_ns) as codes from nodes group by all)
select run, name, exits, codes from producers_of left join lives using (run, name)
where len(exits) > 0 and codes is distinct from exits""",
    "refusals": f"""
with {_FATES}
select p.run, coalesce(s.topic, p.topic), p.producer, s.seq, f.fate, s.outcome, s.error
from producers_of p left join sends s using (run, producer) left join fates f using (run, producer, seq)
where p.refused and (
    s.seq is null or s.outcome <> 'fail' or s.error is null
    or s.error not in ('TOPIC_AUTHORIZATION_FAILED', 'CLUSTER_AUTHORIZATION_FAILED')
    or exists (select 1 from log l where (l.run, l.producer, l.seq) = (s.run, s.producer, s.seq)))""",
    "not_exactly_once": """
with stands as (
    select p.run, p.producer, l.seq as key, 1 as record, 0 as answer, null as seq
    from producers_of p join topics_of t on t.run = p.run and t.name = p.input
    join log l on (l.run, l.topic) = (t.run, t.topic)
    union all
    select run, producer, s.key, 0, 1, seq
    from producers_of p join sends s using (run, producer) join log l using (run, producer, seq)
    where p.input is not null)
select run, producer, key, sum(record) as records, sum(answer) as answers, min(seq)
from stands group by run, producer, key
having (records > answers and not exists (
        from ends e semi join sends s on (s.run, s.topic, s.producer) = (e.run, e.topic, stands.producer)
        where e.run = stands.run and e.log_start > 0))
    or (records < answers and not exists (
        from ends e join topics_of t using (run, topic) join producers_of p on p.run = t.run and p.input = t.name
        where (p.run, p.producer) = (stands.run, stands.producer) and e.log_start > 0))""",
    "claims": f"""
with {_VIEWS}, {_CLAIMED},
acked as (
    select run, topic, partition, moment, count(*) as acks from sends join moments using (run)
    where outcome = 'ok' and done_ns between moment_ns - 1999999999 and moment_ns group by all),
seen as (
    select c.*, v.leader, v.isr, v.replicas, a.acks, e.leader as earlier, coalesce(v.leader >= 0, false) as led
    from claimed c
    left join views v on (v.run, v.topic, v.partition, v.moment) = (c.run, c.topic, c.partition, c."at")
    left join views e on (e.run, e.topic, e.partition, e.moment) = (c.run, c.topic, c.partition, c.same_leader_as)
    left join acked a on (a.run, a.topic, a.partition, a.moment) = (c.run, c.topic, c.partition, c."at"))
select run, claim, topic, partition, "at", leader, isr, replicas, acks from seen
where isr is null
    or (one_of is not null and not (led and list_contains(one_of, leader)))
    or (none_of is not null and led and list_contains(none_of, leader))
    or (exactly is not null and list_sort(list_distinct(isr)) <> list_sort(exactly))
    or (without is not null and list_has_any(isr, without))
    or (isr_full and coalesce(len(list_distinct(isr)) < len(replicas), true))
    or (preferred and not coalesce(led and leader = replicas[1], false))
    or (no_leader and led)
    or (same_leader_as is not null and not coalesce(led and leader = earlier, false))
    or (acked is not null and acked <> (acks is not null))""",
    "allocation": f"""
with recursive {_RULE},
near as (
    select f.run, f.topic, f.partition, f.replicas, unnest(range(1, len(f.replicas))) as place
    from first_seen f),
stays as (
    select distinct n.run, n.topic, n.partition, n.replicas
    from near n join mode_of m using (run) join brokers_of one on one.run = n.run and one.broker = n.replicas[n.place]
    join brokers_of two on two.run = n.run and two.broker = n.replicas[n.place + 1]
    where m.mode = 'kraft' and one.rack = two.rack and exists (
        select 1 from brokers_of b
        where b.run = n.run and b.rack <> one.rack and not list_contains(n.replicas[:n.place], b.broker))),
in_racks as (
    select f.run, f.topic, f.partition, f.replicas, count(distinct coalesce(b.rack, '')) as kinds
    from first_seen f join brokers_of b on b.run = f.run and list_contains(f.replicas, b.broker) group by all),
turns as (
    select b.run, b.broker, m.mode = 'kraft' and l.kinds > 1 as by_rack, if(by_rack, b.rack, b.broker::text) as turn,
        count(*) over (partition by b.run, turn) as brokers_in_it
    from brokers_of b join layouts l using (run) join mode_of m using (run)),
firsts as (
    select t.run, t.topic, n.by_rack, n.turn, n.brokers_in_it,
        sum(len(list_filter(t.assignment, lambda r: r[1] = n.broker))) as led
    from topics t join turns n using (run) where t.whole group by all),
problems as (
    select run, topic, partition, replicas, 'a broker holds it twice' as problem from first_seen
    where len(list_distinct(replicas)) < len(replicas)
    union all
    select i.run, i.topic, i.partition, i.replicas, 'its replicas are in fewer racks than they could be'
    from in_racks i join layouts l using (run) where i.kinds < least(l.kinds, len(i.replicas))
    union all
    select run, topic, partition, replicas, 'two neighbours among its replicas are in one rack' from stays
    union all
    select run, topic, -1, null, 'first replicas are not even over the ' || if(by_rack, 'racks', 'brokers') || ' ('
        || string_agg(turn || ': ' || led, ', ' order by turn) || ')'
    from firsts group by run, topic, by_rack
    having max(led) - min(led) > 1 and max(brokers_in_it) = min(brokers_in_it)
    union all
    select t.run, t.topic, -1, null, 'no start and no shift explain this sequence'
    from topics t join mode_of m using (run) left join drawn d using (run, topic)
    where t.whole and m.mode = 'zookeeper' and d.run is null)
select f.run, f.topic, f.partition, f.replicas, d.made[f.partition + 1], d.start, d.shift, false, null
from first_seen f left join drawn d using (run, topic)
union all select run, topic, partition, replicas, null, null, null, true, problem from problems""",
}
