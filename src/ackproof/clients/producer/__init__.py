"""Producers: plain, with an outbox, and transactional; and what their delivery reports and errors mean."""
