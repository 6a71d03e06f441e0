"""The report in a real browser: it draws, zooms, obeys its own content policy, and sends no request."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

from ackproof.report.index import write_index
from ackproof.report.page import write_report
from tests.support import headless_chromium
from tests.support.headless_chromium import Browser
from tests.support.hostile_strings import HOSTILE, LEADS_AWAY, MARKUP, NamedRun, make_hostile_run, shown
from tests.support.made_story import SHAPES
from tests.support.make_run import make_run
from tests.support.proving import size
from tests.support.skips import cannot_run

pytestmark = pytest.mark.cluster  # slow, and needs a program that not every machine has

Told = Callable[[str, object], None]
PANELS = ("rates", "leader", "isr", "offsets", "latency")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    program = headless_chromium.chromium()
    if program is None:
        cannot_run("no Chromium here: `apt-get install chromium` makes it possible to open the report's page")
    with headless_chromium.browser(program) as made:
        yield made


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    make_hostile_run(folder)
    for name in ("base", "interrupted", "crash"):
        make_run(folder, SHAPES[name])
    for directory in folder.iterdir():
        write_report(directory)
    write_index(sorted(folder.iterdir()), folder / "index.html")
    return folder


def url(path: Path) -> str:
    return path.as_uri()


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1400, 420])
def test_the_page_shows_the_verdict_and_every_plot_and_sends_no_request(
    browser: Browser, runs: Path, width: int, dark: bool
) -> None:
    page = browser.open(url(runs / "base" / "report.html"), width=width, dark=dark)
    assert "69,412 are lost" in page.run("document.querySelector('#verdict').innerText")
    for name in PANELS:
        drawn = f"[...document.querySelectorAll('#panel-{name} .inner > path, #panel-{name} .inner > rect')]"
        assert page.run(f"{drawn}.some(one => one.getBoundingClientRect().width > 100)"), name
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "nothing is wider than the page"
    light = "getComputedStyle(document.body).backgroundColor"
    assert (page.run(light) == "rgb(18, 21, 23)") is dark
    assert page.console == []
    assert page.requests == [url(runs / "base" / "report.html")]


def test_the_page_draws_within_two_seconds(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "base" / "report.html"))
    painted = "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))"
    assert page.run(painted) < 2_000


def test_all_panels_zoom_together_by_mouse_key_and_button(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "base" / "report.html"))
    boxes = "[...new Set([...document.querySelectorAll('.inner')].map(one => one.getAttribute('viewBox')))]"
    assert page.run(boxes) == ["0.00 0 10000.00 1000"]
    page.run("document.querySelector('#panel-offsets').scrollIntoView({block: 'center', behavior: 'instant'})")
    box = "document.querySelector('#panel-offsets .canvas').getBoundingClientRect()"
    x, y, width = (page.run(f"{box}.{side}") for side in ("x", "y", "width"))
    page.mouse("mouseMoved", x + width * 0.5, y + 60)
    assert "13." in page.run("document.querySelector('#clock').textContent")
    assert page.run("document.querySelector('#panel-offsets output').textContent") == "30,588"
    page.mouse("mousePressed", x + width * 0.25, y + 60)
    page.mouse("mouseMoved", x + width * 0.75, y + 60)
    page.mouse("mouseReleased", x + width * 0.75, y + 60)
    (zoomed,) = page.run(boxes)
    assert [round(float(part), -1) for part in zoomed.split()] == [2500, 0, 5000, 1000]
    page.run("document.querySelector('#timeline').focus({preventScroll: true})")
    page.key("+")
    assert page.run(boxes) != [zoomed]
    page.key("0")
    assert page.run(boxes) == ["0.00 0 10000.00 1000"]
    page.run("document.querySelector('#faults').click()")
    assert page.run(boxes) != ["0.00 0 10000.00 1000"]
    assert page.console == []


def test_the_switch_turns_light_into_dark_and_back(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "base" / "report.html"))
    colour = "getComputedStyle(document.body).backgroundColor"
    first = page.run(colour)
    page.run("document.querySelector('#theme').click()")
    assert page.run(colour) != first
    page.run("document.querySelector('#theme').click()")
    assert page.run(colour) == first


def test_without_scripts_the_page_is_complete(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "base" / "report.html"), scripts=False)
    assert page.run("document.querySelector('#zoom').hidden")
    assert page.run("document.querySelectorAll('.xaxis .ticks text').length") > 3
    for name in PANELS:
        assert page.run(f"document.querySelector('#panel-{name} .inner').childElementCount") > 1
    assert page.console == []


# The places where the page shows a name: a topic, a group, a client, a node, a message's content, a log line.
PLACES = """(() => {
  const texts = selector => [...document.querySelectorAll(selector)].map(one => one.textContent);
  return {
    title: texts('h1'),
    scenario: texts('.chips li:first-child span'),
    sentence: texts('#verdict .sentence'),
    problem: texts('#verdict li.data'),
    node: texts('#panel-leader .legend .data').slice(0, 3),
    leads: texts('#panel-leader .seg').slice(0, 1),
    partition: texts('#panel-leader figcaption p .data'),
    consumer: texts('#panel-owners .legend .data'),
    group: [...document.querySelectorAll('#panel-owners .yaxis text')].map(one => one.firstChild.data),
    owner: texts('#panel-owners .seg'),
    producer: texts('#panel-outbox .legend .data'),
    lost: texts('#lost .range > h3.data'),
    log: texts('#lost .log .cuts'),
    failover: texts('#failover h3'),
    check: texts('#checks details > p.data').slice(0, 1),
    heads: texts('#checks details:first-of-type th'),
    witness: texts('#checks details:first-of-type td'),
    fitness: texts('#fitness tr td.data'),
    fault: texts('#fitness .plainlist .data'),
    version: texts('#again .note .data').slice(1),
  };
})()"""
BUILT = """[...new Set([...document.querySelectorAll('*')].flatMap(
  one => [one.tagName, ...[...one.attributes].map(each => `${one.tagName} ${each.name}`)]))].sort()"""


def named(name: str) -> dict[str, list[str]]:
    """Return the name that each place has to show."""
    return {
        **{
            key: [name] for key in ("title", "scenario", "problem", "consumer", "owner", "producer", "check", "fitness")
        },
        "sentence": [f"Lost: {name}"],
        "node": [f"{name} leads"] * 3,
        "leads": [f"{name}, epoch 0"],
        "partition": [f"Who leads {name}/0, as each broker itself says. Two colours at one moment: two leaders."],
        "group": [f"{name}/0"],
        "lost": [f"{name}/0, offsets 618 to 1,999"],
        "log": [f"INFO {name}-0 Truncating to offset 7 {name}"],
        "failover": [f"{name} (fault 1) at {name}/0"],
        "heads": ["topic", "key", "value", "header", name],
        "witness": [name] * 5,
        "fault": [f"isolate {name}", name, name, f"isolate {name}", name],
        "version": [f"{name} {name}"],
    }


@pytest.mark.proves("F1")
def test_hostile_names_are_text_in_every_place_and_nothing_else(
    browser: Browser, tmp_path: Path, record_property: Told
) -> None:
    run = NamedRun(tmp_path)
    harmless = browser.open(url(run.report("orders", tmp_path / "orders.html"))).run(BUILT)
    strings = HOSTILE[:: size(9, 1)]
    for number, string in enumerate(strings):
        path = run.report(string, tmp_path / f"{number}.html")
        page = browser.open(url(path))
        assert page.run(PLACES) == named(shown(string))
        assert set(page.run(BUILT)) <= {*harmless, "TITLE"}  # a long name is shown as a number, and in full beside it
        assert page.run("[window.pwned, document.scripts.length]") == [None, 2]
        assert (page.console, page.requests) == ([], [url(path)])
        page.close()
    record_property(
        "figure", f"{len(strings)} strings in each of {len(named(''))} places of the page: text, no request"
    )


@pytest.mark.proves("F1")
def test_hostile_lines_and_arguments_are_text_too(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "hostile" / "report.html"))
    assert page.run("document.querySelectorAll('img, iframe, object, video, form, base, math').length") == 0
    told = page.run("[...document.querySelectorAll('#verdict li.data')].map(one => one.textContent)")
    assert told == [shown(string) for string in HOSTILE]
    assert page.run("window.pwned") is None
    assert (page.console, page.requests) == ([], [url(runs / "hostile" / "report.html")])


class Asked(BaseHTTPRequestHandler):
    """A server that records every request."""

    paths: ClassVar[set[str]] = set()

    def do_GET(self) -> None:
        self.paths.add(self.path)
        with suppress(OSError):  # the client may have ended
            self.send_error(404)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def there() -> Iterator[str]:
    Asked.paths.clear()
    with ThreadingHTTPServer(("127.0.0.1", 0), Asked) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


# What a reader might do on the page. Links to other pages are not clicked, because the page would then be gone.
CLICKS = """
for (const one of document.querySelectorAll('main a')) if (/^(javascript|data):/.test(one.href)) one.click();
for (const one of document.forms) HTMLFormElement.prototype.submit.call(one);
"""


def broken_through(browser: Browser, page: str, there: str, folder: Path, strings: Sequence[str]) -> set[str]:
    """Return the strings that ran a script or sent a request, on a page that shows them without escaping."""
    through = set()
    for number, string in enumerate(strings):
        attack = string.replace("//example.invalid", f"http://{there}/{number}/")
        raw = f'<main>{attack}<p title="{attack}"><a href="{attack}">a link</a></p>'
        path = folder / f"{number}.html"
        path.write_text(page.replace("<main>", raw, 1), encoding="utf-8")
        opened = browser.open(url(path))
        with suppress(AssertionError):  # it may show another page by now
            for words in ("", CLICKS):
                opened.run(words)
                if opened.run("window.pwned") is not None:
                    through.add(string)
        opened.close()
    # The browser also lists requests that it refused to send, so the server says what arrived.
    return through | {string for n, string in enumerate(strings) if any(f"/{n}/" in path for path in Asked.paths)}


@pytest.mark.proves("F1")
def test_the_content_policy_alone_would_hold_if_escaping_failed(
    browser: Browser, runs: Path, there: str, tmp_path: Path, record_property: Told
) -> None:
    """It cannot forbid one thing, as no page's policy can: to lead the reader to another page."""
    page = (runs / "crash" / "report.html").read_text(encoding="utf-8")
    more = "<img src=//example.invalid/x><script src=//example.invalid/x.js></script><iframe src=//example.invalid/>"
    strings = [*MARKUP[:: size(6, 1)], more]
    held = broken_through(browser, page, there, tmp_path, strings)
    assert held <= {LEADS_AWAY}
    Asked.paths.clear()
    without = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", page)
    bad = broken_through(browser, without, there, tmp_path, strings)
    assert more in bad, "without the policy the string works"
    record_property(
        "figure",
        f"{len(strings)} strings raw in a page: {len(bad)} act without the policy, with it {len(held)} "
        "(a refresh that leads elsewhere)",
    )


def test_the_index_links_to_the_reports(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "index.html"))
    link = page.run("[...document.querySelectorAll('a.cell')].map(one => one.href).find(one => one.includes('/base/'))")
    assert link == url(runs / "base" / "report.html")
    assert "Which is worse" in page.run("document.body.innerText")
    assert page.console == []
    assert page.requests == [url(runs / "index.html")]


def test_the_page_of_a_run_that_was_not_judged_says_so_in_large_letters(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "interrupted" / "report.html"))
    assert "not judged" in page.run("document.querySelector('#verdict .word').innerText").lower()
    size = "parseFloat(getComputedStyle(document.querySelector('#verdict .word')).fontSize)"
    assert page.run(size) >= 20
