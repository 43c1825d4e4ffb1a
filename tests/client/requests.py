"""Requests to the broker itself: `$tidings/topic/list` and its like, over MQTT."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidings.client.network import Network, connect


async def ask(
    network: Network | str | Sequence[str],
    topic: str,
    body: Mapping[str, object] | None = None,
    *,
    timeout: float | None = None,
    **how: Any,
) -> dict[str, object]:
    """Ask a broker, by a network that is connected or by URL; the answer as it came, `{"ok": …}`.

    A refusal, `{"ok": false, "reason": …}`, is an answer too. AccessError if the broker does not let us ask,
    NetworkError if none answers. `how` goes to `connect` where a URL is given.
    """
    if isinstance(network, Network):
        return await network.request(topic, body or {}, timeout=timeout)
    async with connect(network, **how) as connected:
        return await connected.request(topic, body or {}, timeout=timeout)
