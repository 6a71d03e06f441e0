"""Users and access rules: users log in on a listener of their own, and an authorizer checks what they do.

Brokers, controllers and the lab itself use the other listeners, which ask for no user. Kafka calls such a client
ANONYMOUS, and here ANONYMOUS is the super user. The authorizer differs between the modes; the rules and the tool that
sets them do not.
"""

from __future__ import annotations

from collections.abc import Mapping

LISTENER = "USERS"
HIDDEN = "hidden"  # stands in for a password in settings that are only compared

_AUTHORIZERS = {
    "zookeeper": "kafka.security.authorizer.AclAuthorizer",
    "kraft": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
}
_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


def authorizer(mode: str) -> dict[str, str]:
    return {"authorizer.class.name": _AUTHORIZERS[mode], "super.users": "User:ANONYMOUS"}


def users_listener(users: tuple[str, ...], passwords: Mapping[str, str]) -> dict[str, str]:
    """The settings of the listener for users, with the password of each user."""
    logins = " ".join(f'user_{user}="{passwords.get(user, HIDDEN)}"' for user in users)
    prefix = f"listener.name.{LISTENER.lower()}"
    return {
        f"{prefix}.sasl.enabled.mechanisms": "PLAIN",
        f"{prefix}.plain.sasl.jaas.config": f"{_LOGIN} required {logins};",
    }
