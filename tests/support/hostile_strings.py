"""Some sixty strings that a topic, a title or a log line might hold; they must show as text, and do nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ackproof.journal.writer import Writer
from ackproof.model.run_record import read_record, write_record
from ackproof.model.verdict import CheckResult, Fitness, OwnedTime, read_verdict
from ackproof.report.page import write_report
from ackproof.report.run_reader import SECOND
from tests.support.made_story import LOAD, RUN, SMALL, Shape
from tests.support.make_run import make_run
from tests.support.plans import plan_of

LEADS_AWAY = "<meta http-equiv=refresh content='0;url=//example.invalid'>"
MARKUP = (
    "<script>window.pwned=1</script>",
    "</script><script>window.pwned=2</script>",
    '"><img src=x onerror=window.pwned=3>',
    "'><svg onload=window.pwned=4>",
    "<svg/onload=window.pwned=5>",
    "<iframe src='javascript:window.pwned=6'></iframe>",
    "<a href='javascript:window.pwned=7'>click</a>",
    "javascript:window.pwned=8//",
    "data:text/html,<script>window.pwned=9</script>",
    "<style>*{display:none}</style>",
    "</style><style>body{display:none}",
    "<link rel=stylesheet href=//example.invalid/x.css>",
    LEADS_AWAY,
    "<base href=//example.invalid/>",
    "<form action=//example.invalid><input name=x autofocus onfocus=window.pwned=10>",
    "<details open ontoggle=window.pwned=11>",
    "<math><mtext></mtext><script>window.pwned=12</script></math>",
    "<!--<script>-->",
    "-->",
    "<![CDATA[x]]>",
    "]]>",
    "<template><script>window.pwned=13</script></template>",
    "<noscript><p title='</noscript><img src=x onerror=window.pwned=14>'>",
    "</title><script>window.pwned=15</script>",
    "</main></body></html>",
    "<plaintext>",
    "<textarea>",
    "<object data=//example.invalid>",
    "<video src=//example.invalid/x.mp4 autoplay>",
    "<img srcset='//example.invalid/x 1x'>",
    "&lt;script&gt;",
    "&#60;script&#62;",
    "&amp;amp;",
    "&nbsp",
    "\\u003cscript\\u003e",
    "%3Cscript%3E",
)
TEMPLATES = (
    "{{7*7}}",
    "{% for x in ().__class__.__base__.__subclasses__() %}{% endfor %}",
    "{# comment #}",
    "${7*7}",
    "#{7*7}",
    "<%= 7*7 %>",
    "{0.__class__}",
    "%s%n%x",
)
CONTROLS = (
    "nul\x00byte",
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "\x1b]8;;http://example.invalid\x1b\\link\x1b]8;;\x1b\\",
    "bell\x07back\x08space\x7f",
    "c1\x85\x9b31m",
    "carriage\rreturn",
    "\u202egnp.exe",
    "\u2066isolated\u2069 \u200fmark",
    "zero\u200bwidth\ufeff",
    "line\u2028separator\u2029",
    "\ufffe\uffff",
)
OTHERS = (
    "=cmd|' /C calc'!A0",
    "@SUM(1+1)*cmd|' /C calc'!A0",
    "[/x] [bold]rich[/bold] [link=http://example.invalid]x[/link]",
    "../../../../etc/passwd",
    "' OR 1=1; DROP TABLE sends; --",
    "Z̶a̷l̸g̴o̵ ‮ \U0001d56c 🏴\u200d☠️",
    "x" * 300,
)
HOSTILE = (*MARKUP, *TEMPLATES, *CONTROLS, *OTHERS)
# What a page shows instead of a character that it cannot show. Written by hand, not by the page's own code.
_SIGNS = str.maketrans(
    {"\0": "␀", "\x07": "␇", "\x08": "␈", "\r": "␍", "\x1b": "␛", "\x7f": "␡"}
    | dict.fromkeys("\x85\x9b\ufffe\uffff", "\N{REPLACEMENT CHARACTER}")
)


def shown(string: str) -> str:
    return string.translate(_SIGNS)


def make_hostile_run(runs: Path) -> Path:
    """Make a judged run that has each of these strings in each place that a stranger may write to."""
    topic = '"><img src=x onerror=window.pwned=20>'
    lines = tuple(f"INFO {topic}-0 Truncating to offset 7 {string}".replace("\n", " ") for string in HOSTILE)
    title = "<script>window.pwned=21</script> {{7*7}} \u202e"
    shape = Shape("hostile", title=title, topic=topic, log_lines=lines, scenario="</title><img src=x>", **SMALL)
    directory = make_run(runs, shape)
    record = read_record(directory)
    named = dict(enumerate(("<b>kafka1", "kafka2'\"", "\x1b[31mkafka3"), start=1))
    record = msgspec.structs.replace(
        record,
        problems=list(HOSTILE),
        argv=["./ackproof", "run", *HOSTILE],
        versions={f"<i>{place}": string for place, string in enumerate(HOSTILE)},
        nodes=named,
        producers=[msgspec.structs.replace(entry, name="<u>'\"&") for entry in record.producers],
        plan=plan_of({"summary": " ".join(HOSTILE), "needs": list(HOSTILE)}),
    )
    write_record(directory, record)
    verdict = read_verdict(directory)
    witnesses = [{"<th>": string, "key": string} for string in HOSTILE]
    checks = [
        CheckResult(f"<b>{check.name}", check.expected, check.found, check.result, " ".join(HOSTILE), witnesses)
        for check in verdict.checks
    ]
    fitness = [Fitness(string, True, string) for string in HOSTILE]
    verdict = msgspec.structs.replace(verdict, checks=checks, fitness=fitness, sentence=" ".join(HOSTILE))
    (directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(verdict))
    return directory


class NamedRun:
    """A judged run in which everything has the same name: the one that a test asks for."""

    def __init__(self, runs: Path) -> None:
        self._directory = make_run(runs, Shape("named", consumers=True, **SMALL))
        for table, facts in (
            ("groups", {"consumer": 0, "group": 0, "event": "assigned", "topic": 0, "partition": 0, "assignment": 1}),
            ("outbox", {"producer": 0, "depth": 7, "failures": 0}),
        ):
            writer = Writer(self._directory, table, RUN, "consumer-0")
            writer.add(at_ns=LOAD, **facts)
            writer.close()
        self._record, self._verdict = read_record(self._directory), read_verdict(self._directory)
        log = (self._directory / "logs" / "kafka2.log").read_text(encoding="utf-8").splitlines()
        self._said = next(line for line in log if "Truncating to" in line)

    def report(self, name: str, path: Path) -> Path:
        """Write its page to this path."""
        record, verdict = self._record, self._verdict
        write_record(
            self._directory,
            msgspec.structs.replace(
                record,
                scenario=name,
                title=name,
                argv=["./ackproof", "run", name],
                versions={name: name},
                topics=[name],
                groups=[name, f"{name}, another"],  # the timeline names a group where there are several
                producers=[msgspec.structs.replace(each, name=name) for each in record.producers],
                consumers=[msgspec.structs.replace(each, name=name) for each in record.consumers],
                faults=[msgspec.structs.replace(each, asked=[name], when=name, heals=name) for each in record.faults],
                nodes=dict.fromkeys(record.nodes, name),
                problems=[name],
                plan=plan_of({"name": name, "summary": name}),
            ),
        )
        witness = {"topic": name, "key": name, "value": name, "header": name, name: name}
        changed = msgspec.structs.replace(
            verdict,
            scenario=name,
            sentence=f"lost: {name}",
            checks=[msgspec.structs.replace(each, text=name, witnesses=[witness]) for each in verdict.checks],
            fitness=[Fitness(name, True, name)],
            faults=[msgspec.structs.replace(each, targets=[name], text=name) for each in verdict.faults],
            failover=[msgspec.structs.replace(each, kind=name, topic=name) for each in verdict.failover],
            owners=[OwnedTime(from_ns=LOAD, to_ns=LOAD + SECOND, group=name, topic=name, partition=0, consumer=name)],
        )
        (self._directory / "verdict" / "verdict.json").write_bytes(msgspec.json.encode(changed))
        said = self._said.partition(" INFO ")[0] + f" INFO {name}-0 Truncating to offset 7 {name}\n"
        (self._directory / "logs" / "kafka2.log").write_text(said, encoding="utf-8")
        return write_report(self._directory).rename(path)
