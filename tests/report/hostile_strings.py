"""Some sixty strings that a topic, a title or a log line might hold; they must show as text, and do nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec
from made_story import SMALL, Shape
from make_run import make_run

from ackproof.record import read_record, write_record
from ackproof.verdict import CheckResult, Fitness, read_verdict

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
    "<meta http-equiv=refresh content='0;url=//example.invalid'>",
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


def make_hostile_run(runs: Path) -> Path:
    """A judged run that holds every one of them, in each place that others than us write into."""
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
        plan={string: string for string in HOSTILE},
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
