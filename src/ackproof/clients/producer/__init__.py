"""Producers: plain, with an outbox, transactional; and what their reports and errors mean."""
