"""Deliver alerts: to the person who watches, to a webhook, and to Prometheus through an endpoint on loopback.

All this runs on the host, because the lab has a loopback of its own. Nothing may wait for a webhook: it has a thread of
its own, and if it is slow or gone, a message says so.
"""

from __future__ import annotations

import errno
import queue
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable
from http.client import HTTPException
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import msgspec

from ackproof.core.errors import CannotHere
from ackproof.health.alerting import Alert
from ackproof.host.ports import holder_of
from ackproof.model.alert_rules import RULE_NAMES

WEBHOOK_S = 5.0
LAST_S = 6.0  # at the end, for the alerts that wait; longer than one post, whose own failure is reported then
POSTED = ("raised", "cleared", "offset_fell", "query_restarted", "too_late")

Tell = Callable[[str], None]


def webhook_problem(url: str) -> str | None:
    """Why this is no URL to post to, or None if it is one."""
    try:
        parts = urlsplit(url)
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        good &= url.isprintable() and " " not in url
    except ValueError:
        good = False
    return None if good else f"webhook = {url!r}: write it as http://HOST:PORT/PATH, or https"


class Webhook:
    """Posts the alerts as JSON, one after the other."""

    def __init__(self, url: str, tell: Tell) -> None:
        self._url = url
        self._tell = tell
        self._waiting: queue.Queue[Alert | None] = queue.Queue()
        self._thread = threading.Thread(target=self._post_all, daemon=True)
        self._thread.start()

    def put(self, alert: Alert) -> None:
        if alert.event in POSTED:
            self._waiting.put(alert)

    def close(self) -> None:
        """Wait for the last posts, and say how many alerts were not delivered."""
        self._waiting.put(None)
        self._thread.join(LAST_S)
        if self._thread.is_alive():
            left = self._waiting.qsize()  # it counts the end marker, but not the post under way
            host = urlsplit(self._url).netloc.rpartition("@")[2]
            alerts = "1 alert" if left == 1 else f"{left} alerts"
            self._tell(f"the webhook at {host} had not accepted {alerts} by the end; nothing more is posted")

    def _post_all(self) -> None:
        while (alert := self._waiting.get()) is not None:
            headers = {"Content-Type": "application/json"}
            request = urllib.request.Request(self._url, msgspec.json.encode(alert), headers)  # noqa: S310 - `webhook_problem` checked it
            try:
                with urllib.request.urlopen(request, timeout=WEBHOOK_S):  # noqa: S310
                    pass
            except (OSError, ValueError, HTTPException) as problem:
                self._tell(f"the webhook did not accept {alert.rule} {alert.event}: {problem}")


class Metrics:
    """The current metrics, in Prometheus' text format."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._raised = dict.fromkeys(RULE_NAMES, 0)
        self._total: Counter[str] = Counter()
        self._rate: float | None = None

    def put(self, alert: Alert) -> None:
        with self._turn:
            if alert.event in ("raised", "cleared"):
                self._raised[alert.rule] = int(alert.event == "raised")
                self._total[alert.rule] += alert.event == "raised"
                if (alert.rule, alert.event, alert.value) == ("rate", "raised", None):
                    self._rate = None  # the rate is no longer known
            elif alert.event == "rate":
                self._rate = alert.value

    def text(self) -> str:
        with self._turn:
            lines = ["# HELP ackproof_alert Whether the alert of this rule is raised.", "# TYPE ackproof_alert gauge"]
            lines += [f'ackproof_alert{{rule="{rule}"}} {now}' for rule, now in self._raised.items()]
            lines += [
                "# HELP ackproof_alerts_total How often the alert was raised.",
                "# TYPE ackproof_alerts_total counter",
            ]
            lines += [f'ackproof_alerts_total{{rule="{rule}"}} {self._total[rule]}' for rule in self._raised]
            if self._rate is not None:
                lines += ["# HELP ackproof_rate Messages in the last second judged.", "# TYPE ackproof_rate gauge"]
                lines.append(f"ackproof_rate {self._rate:g}")
        return "\n".join(lines) + "\n"


class Endpoint:
    """Serves `/metrics` on 127.0.0.1."""

    def __init__(self, port: int) -> None:
        self._metrics = Metrics()
        metrics = self._metrics

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:  # the name that the library requires
                if self.path != "/metrics":
                    self.send_error(404)
                    return
                body = metrics.text().encode()
                self.send_response(200)
                self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
                pass

        try:
            self._server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        except OSError as problem:
            why = holder_of(port) if problem.errno == errno.EADDRINUSE else problem.strerror
            raise CannotHere(f"port {port} for Prometheus cannot be used ({why}): choose another") from None
        self.port = self._server.server_address[1]
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def put(self, alert: Alert) -> None:
        self._metrics.put(alert)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class AlertSinks:
    """Takes the lines that a health check prints, tells a person, and passes the alerts on."""

    def __init__(
        self, webhook: str | None, prometheus: int | None, tell: Tell, show_rate: Callable[[float], None] | None = None
    ) -> None:
        """`show_rate` shows the rate in a terminal. Otherwise only Prometheus gets the rate."""
        self._tell = tell
        self._show_rate = show_rate or (lambda _: None)
        self._endpoint = None if prometheus is None else Endpoint(prometheus)
        self._webhook = None if webhook is None else Webhook(webhook, tell)

    def put(self, line: str) -> None:
        """Deliver one line. A line that is no alert is ignored: it is in the log."""
        try:
            alert = msgspec.json.decode(line, type=Alert)
        except msgspec.MsgspecError:
            return
        if alert.event != "rate":
            self._tell(in_words(alert))
        elif alert.value is not None:
            self._show_rate(alert.value)
        for sink in (self._endpoint, self._webhook):
            if sink is not None:
                sink.put(alert)

    def close(self) -> None:
        for sink in (self._endpoint, self._webhook):
            if sink is not None:
                sink.close()


def in_words(alert: Alert) -> str:
    if alert.event == "raised":
        return f"{'ALERT' if alert.wakes else 'alert (for the morning)'} {alert.rule}: {alert.text}"
    if alert.event == "cleared":
        return f"cleared {alert.rule}: {alert.text}"
    return f"health check: {alert.text}"
