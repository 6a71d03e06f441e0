"""`python -m ackproof`: the command line."""

import os
import signal
import sys
from types import FrameType
from typing import NoReturn


def _end(number: int, _: FrameType | None) -> NoReturn:
    """End at once: nothing was started yet, so there is nothing to clean up."""
    os._exit(128 + number)


def main() -> NoReturn:
    """Run the command line. Until its imports are done, which takes a while, a signal ends the process at once."""
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    from ackproof.host import outputs

    outputs.guard()
    _load()
    from ackproof.cli import main as cli

    cli.main()


def _load() -> None:
    """Import the command line. If that is impossible here, say why in one sentence, and exit."""
    from ackproof.core.errors import CannotHere
    from ackproof.host.limits import check_address_space, limit_of

    # OpenBLAS, which numpy loads and we never use, starts a thread for each processor, and ends the process with
    # SIGINT if it may not. The programs that we start do not inherit the setting.
    threads = os.environ.get("OPENBLAS_NUM_THREADS")
    os.environ["OPENBLAS_NUM_THREADS"] = "1"
    try:
        check_address_space()
        from ackproof.cli import main as cli  # noqa: F401
    except CannotHere as problem:
        _refuse(problem.message)
    except Exception as problem:  # noqa: BLE001  # nothing else is loaded yet that could report it
        limit = limit_of(problem)
        _refuse(limit.message if limit else f"a part of the program cannot be loaded ({problem}): install it again")
    finally:
        os.environ.pop("OPENBLAS_NUM_THREADS")
        if threads is not None:
            os.environ["OPENBLAS_NUM_THREADS"] = threads


def _refuse(why: str) -> NoReturn:
    print(f"ackproof: {' '.join(why.split())}", file=sys.stderr)
    sys.exit(4)


if __name__ == "__main__":
    main()
