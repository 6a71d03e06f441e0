"""Seals streams of a journal whose writer has gone on to the next: `python -m ackproof.journal.seal_worker STREAM…`.

It takes what the brokers and the clients leave of the processors. If it is ended, whoever seals the rest does it again.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ackproof.journal.writer import seal_stream

NICE = 19  # the lowest there is

if __name__ == "__main__":
    os.nice(NICE)
    for path in sys.argv[1:]:
        seal_stream(Path(path))
