"""Alerts are delivered to a webhook, as JSON, and to Prometheus, through an endpoint."""

from __future__ import annotations

import errno
import json
import os
import pwd
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ackproof.core.errors import CannotHere
from ackproof.health import alert_sinks as sinks_module
from ackproof.health.alert_sinks import AlertSinks, Endpoint, in_words, webhook_problem
from ackproof.health.alerting import Alert
from ackproof.host import ports
from tests.support.listeners import listening
from tests.support.skips import cannot_run

RAISED = Alert("rate", "raised", 12.0, "12 messages a second, below 800", True)
CLEARED = Alert("rate", "cleared", None, "all is well again", True)
LINE = msgspec.json.encode(RAISED).decode()


@pytest.fixture
def receiver() -> Iterator[tuple[str, list[Any]]]:
    """A server that accepts what is posted."""
    taken: list[Any] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            taken.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(204)
            self.end_headers()

        def log_message(self, *_: Any) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}/hook", taken
        server.shutdown()
        thread.join()


def test_a_webhook_gets_each_alert_in_order(receiver: tuple[str, list[Any]]) -> None:
    url, taken = receiver
    sinks = AlertSinks(url, None, lambda _: None)
    for alert in (RAISED, Alert("rate", "rate", 990, ""), CLEARED):
        sinks.put(msgspec.json.encode(alert).decode())
    sinks.close()
    assert [(each["rule"], each["event"]) for each in taken] == [("rate", "raised"), ("rate", "cleared")]
    assert taken[0]["text"] == RAISED.text


def test_a_webhook_that_is_gone_is_reported_and_delays_nothing() -> None:
    with socket.socket() as taken:  # a port without a listener
        taken.bind(("127.0.0.1", 0))
        told: list[str] = []
        sinks = AlertSinks(f"http://127.0.0.1:{taken.getsockname()[1]}/", None, told.append)
        sinks.put(LINE)
        sinks.close()
    assert told[0].startswith("ALERT rate: 12 messages")
    assert told[1].startswith("the webhook did not accept rate raised")


def test_a_webhook_that_speaks_no_http_is_reported_and_gets_the_next_alert_too() -> None:
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)
        sinks = AlertSinks(f"http://127.0.0.1:{server.getsockname()[1]}/", None, told.append)
        for _ in range(2):
            sinks.put(LINE)
            connection, _address = server.accept()
            with connection:
                connection.recv(65_536)
                connection.sendall(b"what?\r\n\r\n")
        sinks.close()
    assert sum("did not accept rate raised: what?" in line for line in told) == 2


@pytest.mark.parametrize("alerts", [1, 3])
def test_alerts_that_a_slow_webhook_did_not_accept_by_the_end_are_reported(
    monkeypatch: pytest.MonkeyPatch, alerts: int
) -> None:
    monkeypatch.setattr(sinks_module, "LAST_S", 0.1)
    told: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:  # takes connections, and never answers
        host = f"127.0.0.1:{server.getsockname()[1]}"
        sinks = AlertSinks(f"http://{host}/secret", None, told.append)
        for _ in range(alerts):
            sinks.put(LINE)
        connection, _address = server.accept()
        sinks.close()
        last = told[-1]  # the end of the connection is reported too
        connection.close()
    assert last.startswith(f"the webhook at {host} had not accepted {alerts} alert{'s' * (alerts > 1)}")
    assert "secret" not in last


def metrics(endpoint: Endpoint, path: str = "/metrics") -> list[str]:
    with urllib.request.urlopen(f"http://127.0.0.1:{endpoint.port}{path}", timeout=5) as answer:
        return str(answer.read().decode()).splitlines()


def test_prometheus_reads_the_current_metrics() -> None:
    endpoint = Endpoint(0)
    try:
        assert 'ackproof_alert{rule="rate"} 0' in metrics(endpoint)
        for alert in (RAISED, Alert("rate", "rate", 12, "")):
            endpoint.put(alert)
        lines = metrics(endpoint)
        assert 'ackproof_alert{rule="rate"} 1' in lines
        assert 'ackproof_alerts_total{rule="rate"} 1' in lines
        assert "ackproof_rate 12" in lines
        endpoint.put(CLEARED)
        lines = metrics(endpoint)
        assert 'ackproof_alert{rule="rate"} 0' in lines
        assert 'ackproof_alerts_total{rule="rate"} 1' in lines
        endpoint.put(Alert("rate", "raised", None, "no batch has finished for 3 s", True))
        assert not [line for line in metrics(endpoint) if line.startswith("ackproof_rate")], "it is not known"
        with pytest.raises(urllib.error.HTTPError) as missing:
            metrics(endpoint, "/other")
        missing.value.close()
    finally:
        endpoint.close()


@pytest.mark.proves("F4")
def test_other_machines_cannot_reach_the_endpoint() -> None:
    endpoint = Endpoint(0)
    try:
        assert [place for place in listening() if place[1] == endpoint.port] == [("127.0.0.1", endpoint.port)]
    finally:
        endpoint.close()


LISTENER = """
import socket, sys
with socket.socket(getattr(socket, sys.argv[2])) as held:
    if held.family == socket.AF_INET6:
        held.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    held.bind((sys.argv[1], 0))
    held.listen()
    print(held.getsockname()[1], flush=True)
    sys.stdin.read()
"""


@contextmanager
def held_by_another(address: str, family: str) -> Iterator[tuple[int, int]]:
    """A port, and the process that listens there."""
    command = [sys.executable, "-c", LISTENER, address, family]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        line = holder.stdout.readline()
        if not line:
            cannot_run(f"nothing can listen on {address} here")
        yield int(line), holder.pid
        holder.communicate()


def refused(port: int) -> CannotHere:
    with pytest.raises(CannotHere) as problem:
        Endpoint(port)
    assert problem.value.exit_code == 4
    return problem.value


@pytest.mark.proves("E4")
@pytest.mark.parametrize(
    ("address", "family"),
    [("127.0.0.1", "AF_INET"), ("0.0.0.0", "AF_INET"), ("::ffff:127.0.0.1", "AF_INET6")],  # noqa: S104 - for a moment
)
def test_the_process_that_holds_a_port_is_named(
    address: str, family: str, record_property: Callable[[str, object], None]
) -> None:
    with held_by_another(address, family) as (port, pid):
        name = Path(f"/proc/{pid}/comm").read_text().strip()
        assert (
            refused(port).message
            == f"port {port} for Prometheus cannot be used (held by {name} (pid {pid})): choose another"
        )
    record_property("figure", f"a port held on {address}: exit 4 names the program and its pid")


@pytest.mark.proves("E4")
def test_a_hidden_holder_of_a_port_is_named_by_its_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with held_by_another("127.0.0.1", "AF_INET") as (port, _):
        (tmp_path / "net").mkdir()
        (tmp_path / "net" / "tcp").write_text(Path("/proc/net/tcp").read_text())
        monkeypatch.setattr(ports, "PROC", tmp_path)  # of processes it has none
        user = pwd.getpwuid(os.getuid()).pw_name
        assert f"(held by a process of user {user} that cannot be seen from here)" in refused(port).message


@pytest.mark.proves("E4")
def test_a_port_that_is_bound_but_not_listened_on_has_an_unknown_holder() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        assert "held by a process that does not listen there" in refused(taken.getsockname()[1]).message


def test_a_port_without_permission_is_reported_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_for_you(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(sinks_module, "ThreadingHTTPServer", not_for_you)
    assert "cannot be used (Permission denied)" in refused(80).message


def test_a_line_that_is_no_alert_is_ignored() -> None:
    told: list[str] = []
    sinks = AlertSinks(None, None, told.append)
    for line in ("WARN something", '{"rule": 1}', "", LINE):
        sinks.put(line)
    assert told == [in_words(RAISED)]


def test_an_alert_for_the_morning_is_not_in_capitals() -> None:
    assert in_words(Alert("under-replicated", "raised", 1.0, "orders/0", False)).startswith("alert (for the morning)")


BROKEN = ["http://host/a b", "http://host/a\tb", "http://ho st/", "http://host/\x7f", "http://host/\n"]


@pytest.mark.parametrize("url", ["ftp://host/", "host:80", "http://", "http://host:port/", "http://host:0/", *BROKEN])
def test_invalid_webhook_urls(url: str) -> None:
    assert webhook_problem(url) is not None


@pytest.mark.parametrize("url", ["http://127.0.0.1:9000/hook", "https://example.org"])
def test_valid_webhook_urls(url: str) -> None:
    assert webhook_problem(url) is None


def test_the_rate_is_shown_and_is_no_alert() -> None:
    told: list[str] = []
    shown: list[float] = []
    sinks = AlertSinks(None, None, told.append, shown.append)
    sinks.put('{"rule": "rate", "event": "rate", "value": 1003.0, "text": "1,003 a second"}')
    sinks.put('{"rule": "rate", "event": "rate", "value": null, "text": "nobody counts"}')
    sinks.close()
    assert (told, shown) == ([], [1003.0])
