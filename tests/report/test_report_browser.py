"""The page in a real browser: it paints, zooms, obeys its own policy, and asks nobody for anything."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from pathlib import Path

import headless_chromium
import pytest
from headless_chromium import Browser
from hostile_strings import HOSTILE, make_hostile_run
from made_story import SHAPES
from make_run import make_run

from ackproof.report.html import visible
from ackproof.report.index import write_index
from ackproof.report.page import write_report
from conftest import cannot_run

pytestmark = pytest.mark.cluster  # slow, and needs a program that not every machine has

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
def test_the_page_shows_the_verdict_and_every_plot_and_asks_nobody(
    browser: Browser, runs: Path, width: int, dark: bool
) -> None:
    page = browser.open(url(runs / "base" / "report.html"), width=width, dark=dark)
    assert "69,412 are lost" in page.run("document.querySelector('#verdict').innerText")
    for name in PANELS:
        drawn = f"[...document.querySelectorAll('#panel-{name} .inner > path, #panel-{name} .inner > rect')]"
        assert page.run(f"{drawn}.some(one => one.getBoundingClientRect().width > 100)"), name
    assert page.run("document.documentElement.scrollWidth <= innerWidth"), "nothing sticks out to the side"
    light = "getComputedStyle(document.body).backgroundColor"
    assert (page.run(light) == "rgb(18, 21, 23)") is dark
    assert page.console == []
    assert page.requests == [url(runs / "base" / "report.html")]


def test_it_paints_within_two_seconds(browser: Browser, runs: Path) -> None:
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


@pytest.mark.proves("F1")
def test_hostile_content_is_text_and_nothing_else(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "hostile" / "report.html"))
    assert page.run("window.pwned") is None
    assert page.run("document.querySelectorAll('img, iframe, object, video, form, base, math').length") == 0
    assert page.run("document.scripts.length") == 2
    shown = page.run("[...document.querySelectorAll('#verdict li.data')].map(one => one.textContent)")
    for string, text in zip(HOSTILE, shown, strict=False):
        assert text == visible(string)
    assert page.console == []
    assert page.requests == [url(runs / "hostile" / "report.html")]


@pytest.mark.proves("F1")
def test_the_policy_alone_would_hold_where_escaping_failed(browser: Browser, runs: Path) -> None:
    broken = runs / "hostile" / "broken.html"
    report = (runs / "base" / "report.html").read_text(encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = f"http://127.0.0.1:{server.getsockname()[1]}"
        attack = f"<img src={there}/x onerror=window.pwned=1><script>window.pwned=2</script>"
        attack += (
            f"<script src={there}/x.js></script><link rel=stylesheet href={there}/x.css><iframe src={there}/></iframe>"
        )
        broken.write_text(report.replace("<main>", f"<main>{attack}", 1), encoding="utf-8")
        page = browser.open(url(broken))
        assert page.run("window.pwned") is None
        assert "Content Security Policy" in " ".join(page.console), "the policy spoke up, so the attack was there"
        # The browser lists what it refused to send as well, so it is the server that is asked.
        assert select.select([server], [], [], 0.5)[0] == []


def test_the_index_leads_to_the_reports(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "index.html"))
    link = page.run("[...document.querySelectorAll('a.cell')].map(one => one.href).find(one => one.includes('/base/'))")
    assert link == url(runs / "base" / "report.html")
    assert "Which is worse" in page.run("document.body.innerText")
    assert page.console == []
    assert page.requests == [url(runs / "index.html")]


def test_a_run_that_was_not_judged_says_so_in_large_letters(browser: Browser, runs: Path) -> None:
    page = browser.open(url(runs / "interrupted" / "report.html"))
    assert "not judged" in page.run("document.querySelector('#verdict .word').innerText").lower()
    size = "parseFloat(getComputedStyle(document.querySelector('#verdict .word')).fontSize)"
    assert page.run(size) >= 20
