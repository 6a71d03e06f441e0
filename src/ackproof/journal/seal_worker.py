"""Seals streams that their writer has ended: `python -m ackproof.journal.seal_worker STREAM…`.

It uses only the processor time that brokers and clients leave over. If it is killed, the run seals the streams.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from ackproof.journal.seal import seal_stream

NICE = 19  # the lowest priority

if __name__ == "__main__":
    os.nice(NICE)
    for path in sys.argv[1:]:
        seal_stream(Path(path))
