"""Events on their way: each is delivered once, and goes on to the children that asked for where it lies."""

from __future__ import annotations

import math

from tidings.errors import InputError
from tidings.peers.core import Core
from tidings.peers.events import Deliver, Published, Send
from tidings.peers.messages import Event


class Carrying:
    """The events of one peer."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self._seen: dict[tuple[str, int], str] = {}
        """By event: who brought it first."""

    def on_published(self, event: Published) -> None:
        core = self._core
        if not core.advertised or not event.point.startswith(core.advertised):
            raise InputError(
                f"event {event.number} of peer {core.name!r} lies at {event.point!r}, outside its "
                f"advertisement {', '.join(core.advertised) or 'of nothing'}; advertise that part first"
            )
        point, number = event.point, event.number
        core.published.taken += 1
        core.published.points.append(point)
        if point.startswith(core.interest):
            core.counts.delivered += 1
            core.out.append(Deliver(core.name, number, point, 0.0, False, event.payload))
        message = Event(core.name, number, point, 0.0, event.payload)
        for child in core.children.values():
            if not child.ghost and point.startswith(child.asked):
                core.counts.forwarded += 1
                core.out.append(Send(child.peer, message))

    def on_event(self, sender: str, message: Event) -> None:
        core = self._core
        publisher, point, counts = message.publisher, message.point, core.counts
        parent = core.parents.get((sender, False)) or core.parents.get((sender, True))
        if parent is not None:
            delay = message.delay + parent.link
        elif sender in core.left:
            delay = message.delay + 1.0 if core.settings.metric == "hops" else message.delay
        else:
            counts.strays += 1
            return
        if (
            point.strip("01")
            or len(point) > core.settings.dz_depth_max
            or len(publisher) > core.settings.name_max
            or not 0.0 <= delay < math.inf
            or (
                parent is not None
                and parent.root
                and sender != publisher
                and (sender, False) not in core.parents
            )
        ):
            counts.malformed += 1
            return
        # From here on it has used the access link, whatever it is good for.
        core.incoming.received += 1
        measured = core.counted
        seen, key = self._seen, (publisher, message.number)
        if publisher == core.name:
            counts.repeated += 1
            return
        if key in seen:
            counts.repeated += 1
            # Two parents send the same. One that repeats itself, or was left, says nothing of the other.
            if parent is not None and seen[key] != sender and core.is_parent(seen[key]):
                core.doubled = True
            return
        if not point.startswith(core.dz):
            counts.outside += 1
            measured.wasted += 1
            return
        seen[key] = sender
        if len(seen) > core.settings.seen:
            del seen[next(iter(seen))]
        counts.received += 1
        measured.taken += 1
        measured.points.append(point)
        out = core.out
        if point.startswith(core.interest):
            counts.delivered += 1
            late = delay > core.bound
            if late:
                counts.late += 1
            out.append(Deliver(publisher, message.number, point, delay, late, message.payload))
        else:
            counts.wasted += 1
            measured.wasted += 1
        if core.relays:
            onward = Event(publisher, message.number, point, delay, message.payload)
            for peer, asked in core.relays:
                if point.startswith(asked) and peer != publisher and peer != sender:
                    counts.forwarded += 1
                    out.append(Send(peer, onward))
