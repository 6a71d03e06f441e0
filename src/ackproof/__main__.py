"""`python -m ackproof`: the command line."""

import os
import signal
from types import FrameType
from typing import NoReturn


def _end(number: int, _: FrameType | None) -> NoReturn:
    """Nothing has begun yet, so there is nothing to put in order."""
    os._exit(128 + number)


def main() -> NoReturn:
    """What is imported takes a while, and a signal may come meanwhile; then the command line hears them itself."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    from ackproof import cli

    cli.main()


if __name__ == "__main__":
    main()
