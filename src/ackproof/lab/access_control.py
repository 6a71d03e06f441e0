"""Who may do what: users come in on a listener of their own, on which they say who they are, and an authorizer asks.

Brokers, controllers and the laboratory itself speak to each other as before, on listeners where nobody says who he is:
Kafka calls such a one ANONYMOUS, and he is the super user. The authorizer differs between the modes; the rules and the
tool that sets them do not.
"""

from __future__ import annotations

from collections.abc import Mapping

LISTENER = "USERS"
HIDDEN = "hidden"  # where nobody needs to know a password

_AUTHORIZERS = {
    "zookeeper": "kafka.security.authorizer.AclAuthorizer",
    "kraft": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def authorizer(mode: str) -> dict[str, str]:
    return {"authorizer.class.name": _AUTHORIZERS[mode], "super.users": "User:ANONYMOUS"}


def users_listener(users: tuple[str, ...], passwords: Mapping[str, str]) -> dict[str, str]:
    """The settings of the listener for these users, with a password each."""
    logins = " ".join(f'user_{user}="{passwords.get(user, HIDDEN)}"' for user in users)
    prefix = f"listener.name.{LISTENER.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f"{_LOGIN} required {logins};",
    }
