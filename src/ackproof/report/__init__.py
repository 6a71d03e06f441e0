"""A run directory in, one HTML page out; the same verdict for the terminal, for scripts and for CI."""

from ackproof.report.index import write_index
from ackproof.report.json_junit import run_json, write_junit
from ackproof.report.page import write_report

__all__ = ["run_json", "write_index", "write_junit", "write_report"]
