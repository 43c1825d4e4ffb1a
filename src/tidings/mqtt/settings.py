"""What can be set about the front door, with the defaults and their reasons."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB

ACCEPT, REFUSE = "accept", "refuse"
"""User properties of SUBSCRIBE that are not ours: ignored, or refused."""


@dataclass(frozen=True, slots=True)
class Settings:
    """Of the MQTT side of one broker. Durations are seconds, sizes bytes."""

    connect_within_s: float = 10.0
    """A connection that has not sent CONNECT by then is closed."""

    keep_alive_max_s: int = 0
    """The longest keep-alive that a client may choose; it is told otherwise. 0: any, none included."""

    session_expiry_max_s: int = 7 * 24 * 3600
    """The longest that a session is kept for a client that is away; also for 3.1.1 without clean session."""

    receive_maximum: int = 1024
    """QoS 1 and 2 publications of one client that may be under way to us."""

    inflight_max: int = 1024
    """And to one client, even if it allows more."""

    inflight_bytes: int = 4 * MIB
    """And how much of it, if it is more than one."""

    topic_alias_maximum: int = 10
    """Topic aliases that a client may set, and that are set for it if it wants; mosquitto's default."""

    packet_bytes_max: int = 2_000_000
    """The largest packet that is taken; mosquitto's default."""

    queue_messages: int = 65_000
    """Publications of QoS 1 and 2 that wait for one client. Less than there are packet identifiers."""

    queue_bytes: int = 16 * MIB
    """The same in bytes."""

    queues_bytes: int = 1024 * MIB
    """For all clients together."""

    slow_bytes: int = MIB
    """Of QoS 0 for a client that takes less than it asked for; what does not fit is dropped and counted."""

    sessions_max: int = 100_000
    """Sessions, of clients that are there or away."""

    subscriptions_max: int = 10_000
    """Of one session."""

    retained_messages: int = 100_000
    retained_bytes: int = 256 * MIB

    publish_rate: float = 0.0
    """Publications per second that one client may send, on average over a second; 0 for any."""

    publish_bytes_rate: float = 0.0
    """The same in bytes."""

    unknown_properties: str = ACCEPT
    """What is done with user properties of SUBSCRIBE that are not ours. Misspelt ones are always refused."""

    sys_every_s: float = 10.0
    """How often `$SYS` is brought up to date; 0 for never."""


DEFAULT = Settings()
"""As shipped."""
