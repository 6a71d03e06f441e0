"""The version of the journal's schema, by itself, because run.json needs it without Arrow, which is slow to import."""

from __future__ import annotations

SCHEMA_VERSION = 1
