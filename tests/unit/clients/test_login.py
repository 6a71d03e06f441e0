"""How a client logs in. No file of a run holds a password."""

from __future__ import annotations

from pathlib import Path

import msgspec

from ackproof.clients.runtime import Login, login_settings


def test_a_clients_configuration_names_the_file_with_the_password(tmp_path: Path) -> None:
    passwords = tmp_path / "users.json"
    passwords.write_text('{"alice": "a-secret", "bob": "b-secret"}')
    login = Login("bob", str(passwords))
    assert b"secret" not in msgspec.json.encode(login)
    settings = login_settings(login)
    assert (settings["sasl.username"], settings["sasl.password"]) == ("bob", "b-secret")
    assert settings["security.protocol"] == "SASL_PLAINTEXT"


def test_without_users_no_client_logs_in() -> None:
    assert login_settings(None) == {}
