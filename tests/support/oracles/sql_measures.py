"""The third judge, of what is measured or shown: DuckDB's SQL, from the definitions, without code of the others.

Beside the journal's tables it has what `run.json` says: `plan` (one row a run: the scenario's lines and the marks),
`planned_faults`, `expected` (alerts), `members_of` (groups) and `tables_of` (producers). Rows begin with `run`.
"""

from __future__ import annotations

from tests.support.oracles.sql_judge import FATES_OF_REPORTED

_FATES = FATES_OF_REPORTED

_STORIES = """stories as (
    select run, fault, any_value(kind) as kind, flatten(list(targets)) as hit,
        min(at_ns) filter (where event = 'asked') as asked_ns,
        min(at_ns) filter (where event = 'proved') as proved_ns,
        min(at_ns) filter (where event = 'healing') as healing_ns,
        min(at_ns) filter (where event = 'healed') as healed_ns,
        min(at_ns) filter (where event in ('healed', 'not healed')) as over_ns,
        coalesce(bool_or(event = 'healed' and "by" <> 'done'), false) as lasted
    from faults group by run, fault)"""

# Seconds are counted from the first send; of the load are those up to the last.
_SECONDS = f"""{_STORIES},
load as (select run, min(sent_ns) as first_ns, max(sent_ns) as last_ns from sends group by all),
happened as (
    select run, sent_ns as at_ns, 1 as sent, 0 as acked, 0 as done, 0 as "read" from sends
    union all select run, done_ns, 0, (outcome = 'ok')::int, 1, 0 from sends where done_ns is not null
    union all select run, read_ns, 0, 0, 0, 1 from reads
    union all select run, unnest(generate_series(first_ns, last_ns, 1000000000)), 0, 0, 0, 0 from load),
counted as (
    select run, floor((at_ns - first_ns) / 1000000000)::bigint as second, first_ns, last_ns,
        sum(sent)::bigint as sent, sum(acked)::bigint as acked, sum(done)::bigint as done, sum("read")::bigint as "read"
    from happened join load using (run) group by all),
seconds as (
    select run, second, first_ns + second * 1000000000 as at_ns, sent, acked, "read",
        (sum(sent - done) over (partition by run order by second))::bigint as waiting,
        second >= 0 and first_ns + (second + 1) * 1000000000 <= last_ns as whole,
        coalesce(p.rate_line, 0) as line, coalesce(p.dip_s, 10) * 1000000000 as dip_ns
    from counted join plan p using (run)),
covered as (
    select s.run, s.second, arg_max(f.fault, f.asked_ns) as fault
    from seconds s join stories f using (run)
    where f.asked_ns < s.at_ns + 1000000000 and coalesce(f.healed_ns + s.dip_ns > s.at_ns, true) group by all)"""

# Windows of one rule that overlap are an island, and end with the last of it.
_WINDOWS = f"""{_STORIES},
due as (
    select e.run, e.rule, e.fault, f.asked_ns as from_ns, f.proved_ns,
        f.proved_ns + (e.within_s * 1e9)::bigint as raise_by,
        coalesce(if(e.undone_by is null, f.healed_ns, u.proved_ns) + (e.clears_within_s * 1e9)::bigint,
            9223372036854775807) as gone_by
    from expected e
    left join stories f on (f.run, f.fault) = (e.run, e.fault)
    left join stories u on (u.run, u.fault) = (e.run, e.undone_by)),
parted as (
    select *, coalesce(from_ns > max(gone_by) over (
        partition by run, rule order by from_ns, fault rows between unbounded preceding and 1 preceding), true) as anew
    from due where from_ns is not null),
numbered as (
    select *, sum(anew::int) over (partition by run, rule order by from_ns, fault) as island from parted),
windows as (
    select * exclude (gone_by), max(gone_by) over (partition by run, rule, island) as gone_by from numbered),
told as (
    select run, rule, event, at_ns as raised_ns,
        lead(at_ns) over (partition by run, rule order by at_ns) as cleared_ns
    from alerts where event = 'raised' or event = 'cleared'),
spans as (select * exclude (event) from told where event = 'raised')"""

_MOMENTS = f"""{_STORIES},
named as (
    select run, load_begun_ns as at_ns, 'start' as moment, 0 as turn, 0 as half from plan
    union all select run, asked_ns, 'before ' || fault, rank() over (partition by run order by asked_ns), 0
    from stories where asked_ns is not null
    union all select run,
        case when lasted then coalesce(healing_ns, healed_ns)
            else coalesce(lead(asked_ns) over (partition by run order by asked_ns),
                greatest(coalesce(healed_mark, last_over, 0), load_ended_ns)) end,
        'during ' || fault, rank() over (partition by run order by asked_ns), 1
    from stories join (
        select p.run, p.healed_ns as healed_mark, p.load_ended_ns, max(s.over_ns) as last_over
        from plan p left join stories s using (run) group by all) using (run)
    where asked_ns is not null
    union all select run, drained_ns, 'end', 1000000, 0 from plan),
moments as (
    select run, moment, at_ns as moment_ns,
        row_number() over (partition by run order by at_ns, turn, half) - 1 as place
    from named where at_ns is not null)"""

_PHASES = f"""{_STORIES},
turns as (
    select f.run, s.proved_ns as there_ns, coalesce(s.asked_ns, s.proved_ns) as asked_ns, f.fault, 0 as half,
        f.kind || ' ' || array_to_string(f.asked, ' ') as after
    from planned_faults f join stories s using (run, fault)
    union all
    select f.run, s.healed_ns, s.healing_ns, f.fault, 1, 'the end of ' || f.kind || ' ' || array_to_string(f.asked, ' ')
    from planned_faults f join stories s using (run, fault) where s.healing_ns is not null),
whole as (select * from plan where load_begun_ns is not null and load_ended_ns is not null),
kept as (
    select run, load_begun_ns as from_ns, load_begun_ns as asked_ns, 'the beginning' as after, load_ended_ns from whole
    union all
    select t.run, t.there_ns, t.asked_ns, t.after, w.load_ended_ns from turns t join whole w using (run)
    where t.there_ns > w.load_begun_ns and t.there_ns < w.load_ended_ns
    qualify row_number() over (partition by t.run, t.there_ns order by t.fault, t.half) = 1),
phases as (
    select run, after, from_ns, row_number() over w - 1 as phase,
        lead(asked_ns) over w as next_ns, if(next_ns is null, load_ended_ns, greatest(next_ns, from_ns)) as to_ns
    from kept window w as (partition by run order by from_ns))"""

QUESTIONS = {
    "failover": f"""
with {_STORIES},
asked_for as (
    select s.*, e.topic, e.partition, coalesce(s.asked_ns, s.proved_ns) as since_ns
    from stories s join ends e using (run)
    where s.proved_ns is not null and s.kind not in ('start', 'seek', 'resize', 'caught-up', 'translated')
        and len(list_filter(s.hit, lambda name: regexp_matches(name, '^(producer|consumer)[0-9]'))) = 0),
seen as (select * from state where leader >= 0 and leader_epoch is not null),
olds as (
    select a.run, a.fault, a.topic, a.partition, max(s.leader_epoch) as old_epoch
    from asked_for a left join seen s on (s.run, s.topic, s.partition) = (a.run, a.topic, a.partition)
        and s.at_ns <= a.proved_ns
    group by all),
news as (
    select o.run, o.fault, o.topic, o.partition, min((s.at_ns, s.leader_epoch)) as first_seen
    from olds o join seen s using (run, topic, partition)
    where s.leader_epoch > coalesce(o.old_epoch, -1) group by all),
known as (
    select a.*, o.old_epoch, n.first_seen[2] as new_epoch, n.first_seen[1] as new_ns
    from asked_for a join olds o using (run, fault, topic, partition)
    left join news n using (run, fault, topic, partition)),
once as (
    select run, producer, seq, max(leader_epoch) as epoch from log group by all having count(*) = 1),
acked as (
    select s.run, s.topic, s.partition, s.done_ns, o.epoch
    from sends s join once o using (run, producer, seq) where s.outcome = 'ok'),
words as (
    select *, len(isr) >= len(replicas) as complete,
        row_number() over (
            partition by run, topic, partition order by leader_epoch desc nulls last, at_ns desc) as from_last
    from state where leader = broker and isr is not null and replicas is not null),
shorts as (
    select run, topic, partition, min(from_last) as last_short from words where not complete group by all),
fulls as (
    select w.run, w.topic, w.partition, w.at_ns as full_ns
    from words w join shorts s using (run, topic, partition) where w.from_last = s.last_short - 1),
steps as (
    select k.*,
        (select min(s.done_ns) from sends s where s.run = k.run and s.topic = k.topic and s.outcome <> 'ok'
            and s.partition in (k.partition, -1) and s.done_ns >= k.since_ns) as error_ns,
        (select min(a.done_ns) from acked a where a.run = k.run and a.topic = k.topic and a.partition = k.partition
            and a.epoch >= k.new_epoch) as ack_ns,
        (select min(f.full_ns) from fulls f where f.run = k.run and f.topic = k.topic and f.partition = k.partition
            and f.full_ns > k.proved_ns) as full_ns
    from known k)
select run, fault, kind, topic, partition, proved_ns, old_epoch, new_epoch,
    (error_ns - proved_ns) / 1e6, (new_ns - proved_ns) / 1e6, (ack_ns - proved_ns) / 1e6, (full_ns - proved_ns) / 1e6
from steps""",
    "ack_latency": """
with took as (
    select s.run, b.basis, p.late_ms,
        greatest(s.done_ns - if(b.basis = 'due', s.due_ns, s.sent_ns), 0) as ns
    from sends s cross join (values ('due'), ('sent')) b(basis) join plan p using (run) where s.outcome = 'ok'),
ranked as (
    select *, row_number() over (partition by run, basis order by ns) as place,
        count(*) over (partition by run, basis) as sends
    from took),
kept as (  -- seven bits: what is left of a number once it is halved until it is below 128, doubled as often again
    select *, ns // 1000 as us, greatest(length(ltrim(bin(ns // 1000), '0')) - 7, 0) as halved from ranked),
binned as (select *, ((us >> halved) << halved) / 1000 as ms from kept)
select run, basis, any_value(sends),
    min(ms) filter (where place * 2 >= sends), min(ms) filter (where place * 10 >= sends * 9),
    min(ms) filter (where place * 100 >= sends * 99), min(ms) filter (where place * 1000 >= sends * 999),
    max(ns) / 1e6, count(*) filter (where ns > coalesce(late_ms, 1000) * 1e6)
from binned group by run, basis""",
    "rate": f"""
with {_SECONDS}
select run, second, at_ns, sent, acked, "read", c.fault, whole and sent < line
from seconds left join covered c using (run, second)""",
    "dips": f"""
with {_SECONDS}
select s.run, second, at_ns, sent, acked, "read", waiting, c.fault, c.fault is null
from seconds s left join covered c using (run, second)
where whole and second > 0 and line > 0
    and (acked < line or waiting > line
        or ("read" < line and exists (select 1 from members_of m where m.run = s.run)))""",
    "alerts": f"""
with {_WINDOWS},
its as (
    select w.run, w.rule, w.fault, min(s.raised_ns) as raised_ns, max(s.cleared_ns) as cleared_ns,
        bool_or(s.cleared_ns is null) as stands
    from windows w join spans s using (run, rule)
    where s.raised_ns <= w.gone_by and coalesce(s.cleared_ns > w.from_ns, true) group by all),
compared as (
    select d.run, d.rule, d.fault, i.raised_ns, i.cleared_ns, d.proved_ns, case
        when i.run is null then 'missed'
        when i.raised_ns > d.raise_by then 'late'
        when w.gone_by = 9223372036854775807 then 'hit'
        when not i.stands and i.cleared_ns <= w.gone_by then 'hit'
        when i.stands and p.load_ended_ns < w.gone_by then 'unfinished'
        else 'stuck' end as result
    from due d join plan p using (run)
    left join windows w using (run, rule, fault) left join its i using (run, rule, fault)
    union all
    select s.run, s.rule, (
            select arg_max(f.fault, f.asked_ns) from stories f where f.run = s.run and f.asked_ns <= s.raised_ns),
        s.raised_ns, s.cleared_ns, null, 'false'
    from spans s where not exists (
        select 1 from windows w where w.run = s.run and w.rule = s.rule
            and s.raised_ns between w.from_ns and w.gone_by))
select run, rule, fault, result, raised_ns, cleared_ns, (raised_ns - proved_ns) / 1e9, (cleared_ns - raised_ns) / 1e9,
    if(rule = 'under-replicated', 'in the morning', 'at once'), result in ('missed', 'late', 'stuck', 'false')
from compared""",
    "partition_shares": """
with own as (
    select m.run, m."group", m.consumer, m.readers, count(r.run) as given,
        count(distinct if(r.run is null, null, r.topic || '/' || r.partition)) as places
    from members_of m left join reads r using (run, consumer) group by all)
select run, "group", consumer, given, places, given / nullif(sum(given) over g, 0),
    count_if(given > 0) over g as reading, readers, coalesce(reading <> readers, false)
from own window g as (partition by run, "group")""",
    "throughput": """
select run, p."table", count(distinct s.producer), any_value(p.threads), count(*) as acked, min(s.sent_ns) as begin_ns,
    (max(s.done_ns) - begin_ns) / 1e9 as seconds, acked / nullif(greatest(seconds, 0), 0)
from sends s join tables_of p using (run, producer) where s.outcome = 'ok' group by run, p."table\"""",
    "phases": f"""
with {_PHASES},
judged as (
    select s.*, f.fate like 'lost%' as gone from sends s join ({_FATES}) f using (run, producer, seq)),
met as (
    select j.run, j.topic, p.phase, p.after, j.outcome, j.gone,
        j.sent_ns >= p.from_ns and j.sent_ns < p.to_ns as within,
        coalesce(j.done_ns >= greatest(p.from_ns, p.to_ns - 3000000000) and j.done_ns < p.to_ns, false) as at_last
    from judged j join phases p using (run))
select run, topic, phase, after, count_if(within), count_if(within and outcome = 'ok' and not gone),
    count_if(within and outcome = 'fail'), count_if(within and outcome = 'info'), count_if(within and gone) as missing,
    case when missing > 0 then 'lost'
        when bool_or(at_last and outcome = 'ok') then 'written'
        when bool_or(at_last and outcome = 'fail') then 'refused' else 'unavailable' end
from met where within or at_last group by run, topic, phase, after""",
    "eligible_leaders": f"""
with {_MOMENTS}, answers as (
    select e.run, e.topic, e.partition, m.place, m.moment, e.eligible, e.last_known
    from moments m join eligible e using (run) where e.at_ns <= m.moment_ns
    qualify row_number() over (partition by e.run, e.topic, e.partition, m.place order by e.at_ns desc) = 1)
select * from answers where len(eligible) + len(last_known) > 0""",
}
