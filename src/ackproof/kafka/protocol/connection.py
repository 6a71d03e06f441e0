"""One connection to one node, kept for many questions.

The two sides agree on the version of each message when the connection is made; a broker that comes back as another
version is a new connection.

After a time-out the connection stays. A paused process accepts connections without looking at them (the kernel does
it), and a new one for each question would fill its backlog and so change what real clients see. Answers that come
late are recognised by their number and dropped.
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

# Version 3 is understood by every broker since 2.4, so the first message needs no negotiation.
API_VERSIONS = Api(18, "api_versions", 3)
# A connection that has said nothing for this long is given up, in case it leads to a host that no longer exists.
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
        """The connection to ourselves. Yields the deadline, which also covers the wait for whoever asked before."""
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
        """An old connection that the peer has closed says nothing about the peer now: ask once more on a new one."""
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
                raise Malformed("the answer to a question that was not asked")

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
