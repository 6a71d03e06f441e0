"""What a journal holds: its tables, with the meaning of each column. `docs/journal.md` is written from here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Column:
    name: str
    type: pa.DataType
    meaning: str
    nullable: bool = False
    added: bool = False  # runs that were recorded before it was there are read without it


@dataclass(frozen=True)
class Table:
    """A table of the journal: its columns, and the order in which a sealed file holds its rows."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    order: tuple[str, ...]

    @property
    def schema(self) -> pa.Schema:
        return self._schema(self.columns)

    @property
    def older(self) -> pa.Schema:
        """As it was before columns were added."""
        return self._schema([column for column in self.columns if not column.added])

    def _schema(self, columns: Iterable[Column]) -> pa.Schema:
        fields = [pa.field(column.name, column.type, nullable=column.nullable) for column in columns]
        return pa.schema(fields, metadata={"ackproof.schema": str(SCHEMA_VERSION), "ackproof.table": self.name})


_INT, _LONG, _TEXT, _BOOL = pa.int32(), pa.int64(), pa.string(), pa.bool_()
_IDS, _TEXTS = pa.list_(pa.int32()), pa.list_(pa.string())

_RUN = Column("run", _LONG, "The run: microseconds since 1970 at which it began; `run.json` holds its name.")
_AT = Column("at_ns", _LONG, "When it happened, on the monotonic clock.")
_TOPIC = Column("topic", _INT, "The topic's number; `run.json` holds its name.")
_PARTITION = Column("partition", _INT, "The partition.")
_PRODUCER = Column("producer", _INT, "The producer's number, as it stands in the message; -1 where none could be read.")
_SEQ = Column("seq", _LONG, "The number of the message, counted per producer from 0; -1 where none could be read.")
_CONSUMER = Column("consumer", _INT, "The consumer's number.")
_GROUP = Column("group", _INT, "The consumer group's number.")
_EPOCH = Column("leader_epoch", _INT, "The epoch of the leader that wrote the record, where it is known.", True)
_FAULT = Column("fault", _INT, "The fault's number within the run, counted from 1 in the scenario's order.")

_DIGEST = Column(
    "digest", _LONG, "A hash of its key, value, headers and timestamp; null in runs without a mirror.", True, added=True
)

_RECORDS = (_RUN, _TOPIC, _PARTITION, Column("offset", _LONG, "Where it stands."), _EPOCH, _PRODUCER, _SEQ, _DIGEST)
_ENDS = (
    _RUN,
    _TOPIC,
    _PARTITION,
    Column("log_start", _LONG, "The first offset that is still there."),
    Column("high_watermark", _LONG, "One past the last offset that a consumer may read."),
    Column("log_end", _LONG, "One past the last offset on the leader; null where it is not known.", True),
    Column("read_to", _LONG, "One past the last offset up to which the final read got."),
    Column("leader", _INT, "The leader's id.", True),
    _EPOCH,
    Column("replicas", _IDS, "The replicas' ids, the preferred leader first."),
    Column("isr", _IDS, "The ids in sync."),
    Column("min_isr", _INT, "min.insync.replicas of the topic."),
    Column("compacted", _BOOL, "Whether the topic is compacted, so that records may rightly vanish."),
    Column("transactional", _BOOL, "Whether transactions wrote to it, so that markers take up offsets."),
    _AT,
    Column("topic_id", _TEXT, "Kafka's id of the topic; null where the broker did not tell.", True, added=True),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        Table(
            "blocks",
            "Numbers that a producer reserved on disk before it used them; after a crash each of them is at least "
            "`info`. A block has one row when it is reserved (`used` null) and one when it is closed.",
            (
                _RUN,
                _PRODUCER,
                Column("first_seq", _LONG, "The first number of the block."),
                Column("count", _LONG, "How many numbers were reserved."),
                Column("used", _LONG, "How many of them were used, where the producer lived to say so.", True),
                _AT,
                Column(
                    "behind_ns",
                    _LONG,
                    "By how much a producer of ours was late itself, at its latest until then: what one turn of its "
                    "loop took beyond what it wanted to wait. Null where nobody measured it.",
                    True,
                    added=True,
                ),
            ),
            ("producer", "first_seq", "at_ns"),
        ),
        Table(
            "sends",
            "Every message that a producer gave to its client, once its outcome was known, or at the producer's end.",
            (
                _RUN,
                _PRODUCER,
                _SEQ,
                _TOPIC,
                Column("partition", _INT, "The partition, where the client said one; else -1."),
                Column("key", _LONG, "The number that is the message's key, where it has one.", True),
                Column("due_ns", _LONG, "When it should have been sent, by the rate asked for."),
                Column(
                    "sent_ns",
                    _LONG,
                    "When it was given to the client. A foreign client tells neither: both are when it told of it.",
                ),
                Column("done_ns", _LONG, "When its outcome was known; null where it never was.", True),
                Column("outcome", _TEXT, "`ok`, `fail` (certainly not written) or `info` (cannot know)."),
                Column("error", _TEXT, "The client's error, by name.", True),
                Column(
                    "offset", _LONG, "The offset that was acknowledged; null where none was (acks=0, errors).", True
                ),
            ),
            ("producer", "seq"),
        ),
        Table(
            "reads",
            "Every message that a consumer was given.",
            (
                _RUN,
                _CONSUMER,
                _GROUP,
                _TOPIC,
                _PARTITION,
                Column("offset", _LONG, "Where it stood."),
                _EPOCH,
                _PRODUCER,
                _SEQ,
                Column("read_ns", _LONG, "When the consumer was given it."),
                Column("poll", _LONG, "Which poll of this consumer brought it, counted from 1."),
                Column("assignment", _INT, "Which assignment of this consumer it was read under, counted from 1."),
            ),
            ("consumer", "topic", "partition", "read_ns", "offset"),
        ),
        Table(
            "log",
            "What the healed cluster holds: every partition read from its start to its high watermark.",
            _RECORDS,
            ("topic", "partition", "offset"),
        ),
        Table(
            "ends",
            "Each partition when the final log was read: how far it goes, and whether it could be read to its end.",
            _ENDS,
            ("topic", "partition"),
        ),
        Table(
            "mirrored",
            "What the healed cluster holds in topics that a mirror made: the copies, where `log` holds the originals.",
            _RECORDS,
            ("topic", "partition", "offset"),
        ),
        Table(
            "mirror_ends",
            "Each partition of those topics when it was read, as in `ends`.",
            _ENDS,
            ("topic", "partition"),
        ),
        Table(
            "translated",
            "Where groups stood, as their clusters said when they were asked, the one with the mirror first.",
            (
                _RUN,
                _AT,
                _GROUP,
                _TOPIC,
                _PARTITION,
                Column("mirror", _INT, "The number of the topic that the mirror made from it."),
                Column("mirror_offset", _LONG, "Where the group goes on there; null where nothing is said.", True),
                Column("offset", _LONG, "Where it goes on in the topic itself; null where nothing is said.", True),
            ),
            ("group", "topic", "partition", "at_ns"),
        ),
        Table(
            "state",
            "What each broker said of each partition, asked for its own view over a way that no fault touches.",
            (
                _RUN,
                _AT,
                Column("took_ns", _LONG, "How long the answer took."),
                Column("broker", _INT, "Whose view it is."),
                _TOPIC,
                _PARTITION,
                Column("error", _TEXT, "Why there is no view: the broker did not answer, or answered an error.", True),
                Column("leader", _INT, "Who leads, in this broker's view.", True),
                Column("leader_epoch", _INT, "The leader's epoch, in this broker's view.", True),
                Column("replicas", _IDS, "The replicas.", True),
                Column("isr", _IDS, "The replicas in sync, in this broker's view.", True),
                Column("high_watermark", _LONG, "The high watermark, where this broker leads.", True),
                Column("log_end", _LONG, "The end of this broker's own log.", True),
                Column("log_start", _LONG, "The start of this broker's own log.", True),
            ),
            ("topic", "partition", "broker", "at_ns"),
        ),
        Table(
            "faults",
            "What became of each fault, one row an event.",
            (
                _RUN,
                _FAULT,
                _AT,
                Column(
                    "event",
                    _TEXT,
                    "`asked`, `proved`, `broken` (no longer held), `healing`, `healed`, `not proved`, `not healed`.",
                ),
                Column("kind", _TEXT, "The kind of fault: kill, isolate, cut, pause, start, ..."),
                Column("asked", _TEXTS, "The targets as the scenario has them: names or roles."),
                Column("targets", _TEXTS, "The nodes that they were at that moment."),
                Column(
                    "by",
                    _TEXT,
                    "Who ended it: `the scenario`, `the interrupt`, `done` (it does not last); or, where nobody did in "
                    "time, `the kernel`, its `watchdog` or `its time`.",
                    True,
                ),
                Column("text", _TEXT, "The proof, or the problem, in words.", True),
            ),
            ("fault", "at_ns"),
        ),
        Table(
            "probes",
            "Each proof of a fault that stood, about once a second.",
            (_RUN, _FAULT, _AT, Column("held", _BOOL, "Whether it held."), Column("text", _TEXT, "What was proved.")),
            ("fault", "at_ns"),
        ),
        Table(
            "groups",
            "What consumers were told about their partitions.",
            (
                _RUN,
                _CONSUMER,
                _GROUP,
                _AT,
                Column("event", _TEXT, "`assigned`, `revoked` or `lost`."),
                _TOPIC,
                _PARTITION,
                Column("assignment", _INT, "Which assignment of this consumer, counted from 1."),
                Column("position", _LONG, "Where it goes on reading an assigned partition, where that is known.", True),
            ),
            ("consumer", "at_ns"),
        ),
        Table(
            "commits",
            "Offsets that consumers committed.",
            (
                _RUN,
                _CONSUMER,
                _GROUP,
                _AT,
                _TOPIC,
                _PARTITION,
                Column("offset", _LONG, "The committed offset."),
                Column("outcome", _TEXT, "`ok`, `fail` or `info`."),
                Column("error", _TEXT, "The client's error, by name.", True),
            ),
            ("consumer", "at_ns"),
        ),
        Table(
            "positions",
            "Where a consumer stood when it ended, in each partition that it owned then; a foreign consumer, in each "
            "that it told of. One that was killed has no row.",
            (
                _RUN,
                _CONSUMER,
                _GROUP,
                _AT,
                _TOPIC,
                _PARTITION,
                Column("position", _LONG, "The offset from which it would have read on; null where not known.", True),
                Column(
                    "log_end",
                    _LONG,
                    "One past the last offset that it could have read, as the leader said; null where it did not ask.",
                    True,
                ),
            ),
            ("consumer", "topic", "partition", "at_ns"),
        ),
        Table(
            "lateness",
            "How late processes of the laboratory were themselves: clients, the observer, the final read. Each has a "
            "row when it begins, and one for a time in which it got no processor, or was stopped. The nodes together "
            "have a row for each look, about once a second, if one of their threads waited for a processor for a fifth "
            "of the time since the look before.",
            (
                _RUN,
                _AT,
                Column(
                    "client", _TEXT, "The process, by its name: a client, `observer`, `final-read`, `health`, a node."
                ),
                Column(
                    "behind_ns",
                    _LONG,
                    "By how much it was late then: it wanted to wake so much earlier. For a node, how long its thread "
                    "that waited longest waited for a processor since the look before.",
                ),
            ),
            ("client", "at_ns"),
        ),
        Table(
            "members",
            "Who is a member of the cluster, as ZooKeeper's registrations and each broker's own metadata say, several "
            "times a second.",
            (
                _RUN,
                _AT,
                Column("source", _TEXT, "The node that said so."),
                Column("brokers", _IDS, "The brokers, by Kafka's ids."),
            ),
            ("source", "at_ns"),
        ),
        Table(
            "topics",
            "What each topic is, and its settings that decide what is lost: by the word of each broker, of ZooKeeper, "
            "and of its creation. A row whenever that changes, and one at the end.",
            (
                _RUN,
                _AT,
                Column("source", _TEXT, "The node that said so, or `creation`."),
                Column("topic", _INT, "The topic's number; -1 for what was set for brokers at run time."),
                Column("topic_id", _TEXT, "Kafka's id of it: a topic that is made anew has another.", True),
                Column(
                    "replicas", _TEXTS, "The replicas of each partition, in order, as `1,2,3`; none: no topic.", True
                ),
                Column(
                    "settings", _TEXT, "A JSON object, name by name; from ZooKeeper what was set and no more.", True
                ),
            ),
            ("source", "topic", "at_ns"),
        ),
        Table(
            "eligible",
            "Who may lead without being in sync, as Kafka 4's controllers keep it (KIP-966), whenever that changes; "
            "nothing where the brokers know of no such thing.",
            (
                _RUN,
                _AT,
                Column("broker", _INT, "The broker that was asked, by Kafka's id."),
                _TOPIC,
                _PARTITION,
                Column("eligible", _IDS, "Eligible leaders that are not in sync."),
                Column("last_known", _IDS, "The last ones known, where none is left."),
            ),
            ("broker", "at_ns"),
        ),
        Table(
            "places",
            "What each log directory of each broker held, before and after topics were created; only where a broker "
            "has more than one directory.",
            (
                _RUN,
                Column("step", _INT, "Which look it was, counted from 0."),
                _AT,
                Column("broker", _INT, "Whose directory it is."),
                Column("directory", _INT, "Which of its directories, counted from 1."),
                Column("partitions", _TEXTS, "The logs in it, as TOPIC-PARTITION."),
            ),
            ("step", "broker", "directory"),
        ),
        Table(
            "seeks",
            "Consumers that were sent to one place of a partition, and where they landed.",
            (
                _RUN,
                _FAULT,
                _AT,
                _TOPIC,
                _PARTITION,
                Column("by", _TEXT, "`offset` or `time`."),
                Column("asked", _LONG, "The offset, or the time in milliseconds since 1970."),
                Column("policy", _TEXT, "What to do where that is gone: `earliest`, `latest` or `error`."),
                Column(
                    "answer",
                    _LONG,
                    "The offset that the broker named for that time; null where none is so young.",
                    True,
                ),
                Column("landed", _LONG, "The first offset read; null where none came.", True),
                Column("landed_ms", _LONG, "When that record was written, by its own timestamp.", True),
                Column("before_ms", _LONG, "When the record before it was written; only by time.", True),
                Column("log_start", _LONG, "The log's start before the seek."),
                Column("log_end", _LONG, "The log's end before the seek, as consumers see it."),
                Column("log_start_after", _LONG, "The log's start after it."),
                Column("log_end_after", _LONG, "The log's end after it."),
                Column("error", _TEXT, "The client's error, by name.", True),
            ),
            ("fault", "at_ns"),
        ),
        Table(
            "outbox",
            "How many messages waited in a producer's outbox, a few times a second.",
            (
                _RUN,
                _PRODUCER,
                _AT,
                Column("depth", _LONG, "Messages that are not acknowledged yet."),
                Column("failures", _INT, "Sweeps that failed, in a row."),
            ),
            ("producer", "at_ns"),
        ),
        Table(
            "transactions",
            "What became of each transaction of a producer, one row an event.",
            (
                _RUN,
                _PRODUCER,
                Column("transaction", _LONG, "The transaction's number, counted per producer from 1."),
                Column(
                    "event",
                    _TEXT,
                    "`begun`; `committing` or `aborting`, before it is asked for; then `committed`, `aborted`, or "
                    "`unknown` (a commit was asked for, and nobody knows).",
                ),
                Column("first_seq", _LONG, "The number of its first message."),
                Column("last_seq", _LONG, "The number of its last; of one that has only begun, the last reserved."),
                Column("timeout_ms", _LONG, "After which the coordinator aborts it."),
                _AT,
                Column("text", _TEXT, "Why it was aborted.", True),
            ),
            ("producer", "transaction", "at_ns"),
        ),
        Table(
            "stable",
            "How far a reader of committed messages may read, by each leader's own word, several times a second; only "
            "of topics that transactions write to.",
            (
                _RUN,
                _AT,
                Column("broker", _INT, "The leader that was asked."),
                _TOPIC,
                _PARTITION,
                Column("last_stable", _LONG, "Where the first open transaction begins, or else the high watermark."),
                Column("high_watermark", _LONG, "The high watermark, asked just before."),
            ),
            ("topic", "partition", "at_ns"),
        ),
        Table(
            "received",
            "What a receiver did with each message that it handled: read from its own database when it has ended.",
            (
                _RUN,
                _CONSUMER,
                _AT,
                _TOPIC,
                _PARTITION,
                Column("offset", _LONG, "Where it stood."),
                _PRODUCER,
                _SEQ,
                Column("accepted", _BOOL, "Whether it was taken for new; else it was dropped as a copy."),
            ),
            ("consumer", "at_ns", "partition", "offset"),
        ),
        Table(
            "costs",
            "What a receiver spent in about a second, and what it had grown to by then.",
            (
                _RUN,
                _CONSUMER,
                _AT,
                Column("messages", _LONG, "How many it handled since the row before."),
                Column("deciding_ns", _LONG, "The time spent on the question which of them are new."),
                Column("handling_ns", _LONG, "All the time spent on them: deciding, their effect, the commit."),
                Column("memory_bytes", _LONG, "The memory that its process holds (resident)."),
                Column("disk_bytes", _LONG, "The size of its database, effects and all."),
            ),
            ("consumer", "at_ns"),
        ),
        Table(
            "alerts",
            "Alerts that a health check raised and cleared, and what became of its query.",
            (
                _RUN,
                _AT,
                Column("rule", _TEXT, "The rule's name."),
                Column(
                    "event",
                    _TEXT,
                    "`raised` or `cleared`; of the query that counts: `watching` (from here on), `armed` (it has seen "
                    "the rate above the line), `offset_fell`, `query_restarted`, `too_late` (the first messages that "
                    "count for no second).",
                ),
                Column("value", pa.float64(), "What was measured.", True),
                Column("text", _TEXT, "In words.", True),
            ),
            ("rule", "at_ns"),
        ),
        Table(
            "oddities",
            "What foreign clients printed that cannot be taken for what it should be; the first thousand of each.",
            (
                _RUN,
                _AT,
                Column("client", _TEXT, "The client."),
                Column(
                    "event",
                    _TEXT,
                    "`no event`, `not ours` (a value or a topic that it was not asked for), `contradiction`, "
                    "`miscount` (its own count is not that of its events), `twice`, `unknown event`, `torn line`.",
                ),
                Column("text", _TEXT, "What it was, in words."),
            ),
            ("client", "at_ns"),
        ),
        Table(
            "nodes",
            "Processes of nodes and clients as they ended, what somebody outside of the laboratory did to them, and "
            "clients from outside that joined the run's groups.",
            (
                _RUN,
                _AT,
                Column("node", _TEXT, "The node, or the client; one that joined a group, by its client id."),
                Column(
                    "event",
                    _TEXT,
                    "`exited`; `disturbed` (stopped, traced, or its priority, cgroup or processors changed, by no "
                    "fault of the run), `goes on` (that is over); `joined` (a client that is none of the run's is a "
                    "member of one of its groups).",
                ),
                Column("code", _INT, "The exit code, where it exited by itself.", True),
                Column("signal", _INT, "The signal that ended it.", True),
                Column("by_itself", _BOOL, "Whether nobody had asked for its end."),
                Column("text", _TEXT, "What was done to it, in words; null where it exited.", True, added=True),
            ),
            ("node", "at_ns"),
        ),
    )
}
