"""A run directory in, one HTML page out; the same verdict for the terminal, for scripts and for CI."""

from ackproof.report.contract import run_json, write_junit
from ackproof.report.index import write_index
from ackproof.report.page import write_report
from ackproof.report.terminal import terminal_summary

__all__ = ["run_json", "terminal_summary", "write_index", "write_junit", "write_report"]
