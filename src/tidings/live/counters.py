"""What a node has done since it started, in numbers that only grow."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counters:
    """Of one node. Read them whenever you like; only the node writes them."""

    frames_in: int = 0
    """From other brokers."""

    frames_out: int = 0
    """To other brokers."""

    bytes_in: int = 0
    """From other brokers."""

    bytes_out: int = 0
    """To other brokers."""

    kinds_in: Counter[type] = field(default_factory=Counter)
    """Messages from other brokers."""

    kinds_out: Counter[type] = field(default_factory=Counter)
    """Messages to other brokers."""

    connections_made: int = 0
    connections_lost: int = 0

    connections_refused: int = 0
    """There were too many, or the handshake failed."""

    checks_refused: int = 0
    """MQTT clients sent away because too many passwords were being checked."""

    dials_failed: int = 0

    links_up: int = 0
    """Links that came up, those that came back included."""

    faults: int = 0
    """Connections that were closed for malformed bytes."""

    syncs: int = 0
    """Commits of the store."""

    rows: int = 0
    """Changes that they wrote."""

    sync_seconds: float = 0.0
    """Time that they took."""

    @property
    def messages_in(self) -> dict[str, int]:
        """Messages from other brokers by kind."""
        return _by_name(self.kinds_in)

    @property
    def messages_out(self) -> dict[str, int]:
        """Messages to other brokers by kind."""
        return _by_name(self.kinds_out)


def _by_name(kinds: Counter[type]) -> dict[str, int]:
    return dict(sorted((kind.__name__, count) for kind, count in kinds.items()))
