"""Scenario files: found, read, overridden and checked. The bundled ones are in `library`."""
