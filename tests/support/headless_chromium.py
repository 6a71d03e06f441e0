"""A headless Chromium, driven over its own debugging pipe: no driver, no port, no library.

Every page is opened in a fresh profile with background traffic off. What is gathered: console messages, exceptions, and
every request the page made beyond itself.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PROGRAMS = ("chromium", "chromium-browser", "google-chrome")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)
# The browser reads from descriptor 3 and writes to 4. Ours may have any numbers, these two among them, so they are
# copied out of the way first.
_WIRING = """
import fcntl, os, sys
high = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 10) for number in sys.argv[1:3]]
os.dup2(high[0], 3)
os.dup2(high[1], 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    return next((found for name in PROGRAMS if (found := shutil.which(name))), None)


@dataclass
class Page:
    """One open page: its console messages, its exceptions and its requests."""

    browser: Browser
    session: str
    target: str
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        return self.browser.call(method, self.session, **params)

    def close(self) -> None:
        self.browser.call("Target.closeTarget", targetId=self.target)  # also while it loads another page

    def run(self, expression: str) -> Any:
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in answer:
            raise AssertionError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def key(self, key: str) -> None:
        self.call("Input.dispatchKeyEvent", type="keyDown", key=key)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    def mouse(self, kind: str, x: float, y: float) -> None:
        buttons = {"button": "left", "clickCount": 1} if kind != "mouseMoved" else {}
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **buttons)

    def picture(self, path: Path, whole: bool = True) -> None:
        answer = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(answer["data"]))


class Browser:
    def __init__(self, program: str) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="ackproof-chromium-", ignore_cleanup_errors=True)
        (ours_in, theirs_out), (theirs_in, ours_out) = os.pipe(), os.pipe()
        command = [
            sys.executable,
            "-c",
            _WIRING,
            str(theirs_in),
            str(theirs_out),
            program,
            *_FLAGS,
            f"--user-data-dir={self._folder.name}",
            "about:blank",
        ]
        self._process = subprocess.Popen(
            command,
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._in, self._out, self._buffer, self._number = ours_in, ours_out, b"", 0
        self._pages: dict[str, Page] = {}

    def call(self, method: str, session: str | None = None, wait_s: float = 30.0, **params: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + wait_s
        while time.monotonic() < deadline:
            answer = self._next(deadline)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise AssertionError(f"{method}: {answer['error']}")
                return dict(answer["result"])
            self._note(answer)
        raise TimeoutError(f"{method}: no answer within {wait_s} s")

    def _next(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            if not ready:
                raise TimeoutError("the browser says nothing")
            part = os.read(self._in, 1 << 20)
            if not part:
                raise EOFError("the browser ended")
            self._buffer += part
        line, _, self._buffer = self._buffer.partition(b"\0")
        return dict(json.loads(line))

    def _note(self, event: dict[str, Any]) -> None:
        page = self._pages.get(event.get("sessionId", ""))
        if page is None:
            return
        params = event["params"]
        match event["method"]:
            case "Runtime.consoleAPICalled" | "Runtime.exceptionThrown":
                page.console.append(json.dumps(params)[:2000])
            case "Log.entryAdded":
                page.console.append(f"{params['entry']['level']}: {params['entry']['text']}")
            case "Network.requestWillBeSent":
                page.requests.append(params["request"]["url"])

    def open(self, url: str, width: int = 1400, height: int = 1000, dark: bool = False, scripts: bool = True) -> Page:
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self._pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", features=[scheme])
        page.call("Emulation.setScriptExecutionDisabled", value=not scripts)
        page.call("Page.navigate", url=url)
        deadline = time.monotonic() + 30
        while page.run("document.readyState") != "complete":
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url} was not loaded within 30 s")
            time.sleep(0.02)
        return page

    def close(self) -> None:
        with contextlib.suppress(AssertionError, TimeoutError, OSError, EOFError):
            self.call("Browser.close", wait_s=5)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._folder.cleanup()


@contextlib.contextmanager
def browser(program: str) -> Iterator[Browser]:
    made = Browser(program)
    try:
        yield made
    finally:
        made.close()
