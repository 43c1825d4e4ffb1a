"""`$SYS/broker/…`: what this broker tells about itself, under the names that mosquitto uses.

They are of this broker alone and never leave it. A client sees them by name, and if it may: a leading
wildcard does not match them [MQTT-4.7.2-1].
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import tidings
from tidings.mqtt.clients import State
from tidings.overlay.publication import Publication

if TYPE_CHECKING:
    from tidings.mqtt.front import Front


class SysTopics:
    """The values, and which of them have changed."""

    def __init__(self, front: Front) -> None:
        self._front = front
        self._told: dict[str, str] = {}
        self.started_at = 0.0
        """When the broker started."""

    def messages(self) -> list[Publication]:
        """All of them, as they are now."""
        return [self._message(name, value) for name, value in self._values().items()]

    def changed(self) -> list[Publication]:
        """Those that are different from the last time."""
        values = self._values()
        changed = {name: value for name, value in values.items() if self._told.get(name) != value}
        self._told = values
        return [self._message(name, value) for name, value in changed.items()]

    def _message(self, name: str, value: str) -> Publication:
        core = self._front.broker.core
        return Publication(core.id, core.incarnation, "", 0, f"$SYS/broker/{name}", value.encode())

    def _values(self) -> dict[str, str]:
        front = self._front
        now = front.broker.core.now
        status = front.status(now)
        counters = status.counters
        connected = sum(client.state is State.OPEN for client in front.clients.values())
        return {
            "version": f"tidings version {tidings.__version__}",
            "uptime": f"{int(now - self.started_at)} seconds",
            "clients/total": str(status.sessions),
            "clients/connected": str(connected),
            "clients/active": str(connected),
            "clients/disconnected": str(status.sessions - connected),
            "clients/inactive": str(status.sessions - connected),
            "messages/received": str(counters["packets_in"]),
            "messages/sent": str(counters["packets_out"]),
            "messages/stored": str(status.queued + status.retained),
            "publish/messages/received": str(counters["published"]),
            "publish/messages/sent": str(counters["delivered"]),
            "publish/messages/dropped": str(sum(counters["dropped"].values())),
            "publish/bytes/received": str(counters["published_bytes"]),
            "publish/bytes/sent": str(counters["delivered_bytes"]),
            "bytes/received": str(counters["bytes_in"]),
            "bytes/sent": str(counters["bytes_out"]),
            "retained messages/count": str(status.retained),
            "subscriptions/count": str(status.subscriptions),
            "store/messages/count": str(status.queued + status.retained),
            "store/messages/bytes": str(status.queued_bytes + status.retained_bytes),
        }
