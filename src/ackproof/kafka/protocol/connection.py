"""One connection to one node, kept open for many questions.

Both sides agree on the version of each message when the connection is made. A broker that returns with another version
is a new connection.

After a timeout the connection stays open. The kernel accepts connections for a paused process; a new connection for
each question would fill its backlog, and so change what real clients see. A late answer is recognised by its number
and dropped.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ackproof.kafka.protocol.codec import CLIENT_ID, Api, Codec, Make, Malformed, codec, error_name
from ackproof.kafka.protocol.framing import Link, NoAnswer, deadline_after
from ackproof.kafka.protocol.responses import ApiVersions, api_versions_of

T = TypeVar("T")
Request = Callable[[Make], Any]

# Every broker since 2.4 understands version 3, so the first message needs no negotiation.
API_VERSIONS = Api(18, "api_versions", 3)
# A connection that was silent for so long is closed: its host may no longer exist.
SILENCE_S_MAX = 10.0


class Conversation:
    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.peer = f"{host}:{port}"
        self._turn = threading.Lock()
        self._link: Link | None = None
        self._silent_since: float | None = None
        self._versions: ApiVersions | None = None
        self._questions = 0

    def close(self) -> None:
        with self._turn:
            self._drop()

    @contextmanager
    def asking(self, timeout_s: float) -> Iterator[float]:
        """Take the connection for one caller. Yields the deadline, which includes the wait for the caller before."""
        deadline = deadline_after(timeout_s)
        if not self._turn.acquire(timeout=timeout_s):
            raise NoAnswer(self.peer, "timeout", "an earlier question is still open")
        try:
            yield deadline
        finally:
            self._turn.release()

    def negotiate(self, deadline: float) -> ApiVersions:
        return self._again_if_stale(lambda: self._negotiate(deadline))

    def ask(self, api: Api, request: Request, deadline: float) -> Any:
        return self._again_if_stale(lambda: self._ask(api, request, deadline))

    def expect_none(self, code: int) -> None:
        if error := error_name(code):
            raise NoAnswer(self.peer, "error", f"answered {error}", error)

    def _again_if_stale(self, ask: Callable[[], T]) -> T:
        """Ask; if the peer had closed an old connection, ask once more on a new one."""
        reused = self._link is not None
        try:
            return ask()
        except NoAnswer as why:
            if not (reused and why.kind == "closed"):
                raise
        return ask()

    def _ask(self, api: Api, request: Request, deadline: float) -> Any:
        versions = self._versions or self._negotiate(deadline)
        version = api.common_version(versions.ranges.get(api.key))
        if version is None:
            raise NoAnswer(self.peer, "unsupported", f"speaks no version of {api.name} that we know")
        return self._round_trip(codec(api.key, version), request, deadline)

    def _negotiate(self, deadline: float) -> ApiVersions:
        def request(make: Make) -> Any:
            return make("ApiVersionsRequest", client_software_name=CLIENT_ID, client_software_version="1")

        response = self._round_trip(codec(API_VERSIONS.key, API_VERSIONS.oldest), request, deadline)
        self.expect_none(response.error_code)
        self._versions = api_versions_of(response)
        return self._versions

    def _round_trip(self, form: Codec, request: Request, deadline: float) -> Any:
        try:
            link = self._connected(deadline)
            self._questions += 1
            link.send_frame(form.encode(request(form.make), self._questions), deadline)
            return form.decode(self._answer(link, deadline))
        except Malformed as why:
            self._drop()
            raise NoAnswer(self.peer, "garbage", f"answered with garbage: {why}") from None
        except NoAnswer as why:
            if why.kind != "timeout":
                self._drop()
            elif self._silent_since is None:
                self._silent_since = time.monotonic()
            raise

    def _answer(self, link: Link, deadline: float) -> bytes:
        while True:
            frame = link.receive_frame(deadline)
            self._silent_since = None
            number = int.from_bytes(frame[:4], "big")
            if number == self._questions:
                return frame
            if not 0 < number < self._questions:
                raise Malformed("an answer to a request that was not sent")

    def _connected(self, deadline: float) -> Link:
        if self._silent_since is not None and time.monotonic() - self._silent_since > SILENCE_S_MAX:
            self._drop()
        if self._link is None:
            self._link = Link(self.host, self.port, deadline)
            self._questions = 0
        return self._link

    def _drop(self) -> None:
        if self._link is not None:
            self._link.close()
        self._link = self._versions = self._silent_since = None
