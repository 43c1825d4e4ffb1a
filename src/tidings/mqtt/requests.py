"""Requests to the broker itself: what the network has declared, and its views.

A request is a JSON object published to `$tidings/<what>/<do>` with a response topic below `$tidings/reply/`,
to which the client has subscribed. The answer goes there, with the request's correlation data: an object with
`ok`, and `reason` if that is false. To change something takes the right `declare` on the topics concerned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tidings.errors import DeclarationError, PayloadError
from tidings.language import declarations, names, payloads, views
from tidings.language.payloads import Encoding
from tidings.mqtt.access import ACTIONS, allowed
from tidings.mqtt.clients import Client
from tidings.mqtt.core import Core
from tidings.mqtt.costs import REQUEST_STEPS
from tidings.mqtt.events import Access
from tidings.mqtt.packets import Publish
from tidings.overlay.broker import Broker
from tidings.overlay.events import Decline, Enlist, EntryOffered
from tidings.overlay.publication import Publication
from tidings.overlay.routing.messages import Entry
from tidings.overlay.status import GatheredStatus

REPLY = "$tidings/reply/"

WAITING_MAX = 1000
"""Requests that wait for their answer, of all clients together."""

Answer = dict[str, object]


class Refused(Exception):
    """A request that is not carried out; the reason is for the client."""


class Requests:
    """All requests of clients here."""

    def __init__(
        self,
        core: Core,
        broker: Broker,
        say: Callable[[Publication], None],
        heard: Callable[[str], bool],
    ) -> None:
        """`say` sends an answer; `heard` tells whether anybody would get it."""
        self._core = core
        self._broker = broker
        self._say = say
        self._heard = heard
        self.access = Access()
        self._tokens = 0
        self._waiting: dict[int, Publish] = {}
        """What the broker has yet to decide."""
        self._kinds: dict[str, Callable[[Client, Mapping[str, Any], Publish], Answer | None]] = {
            "topic/declare": self._declare,
            "topic/remove": self._remove,
            "topic/list": lambda client, _, __: {"topics": self._topics(client)},
            "topic/show": self._show,
            "view/add": self._add_view,
            "view/remove": self._remove_view,
            "view/list": lambda client, _, __: {"views": self._views(client)},
        }

    def on_request(self, client: Client, packet: Publish) -> None:
        """A PUBLISH to `$tidings/…`."""
        self._core.steps += REQUEST_STEPS
        topic = packet.properties.response_topic
        if topic is None or not topic.startswith(REPLY):
            self._core.refuse(client.id, f"request {packet.topic[:200]}", f"no response topic below {REPLY}")
            return
        if not self._heard(topic):
            self._core.refuse(
                client.id, f"request {packet.topic[:200]}", "nobody subscribes to its response topic"
            )
            return
        try:
            kind = self._kinds.get(packet.topic.removeprefix("$tidings/"))
            if kind is None:
                raise Refused(f"there is no request {packet.topic!r}; there are {', '.join(self._kinds)}")
            answer = kind(client, payloads.decode(packet.payload, Encoding.JSON), packet)
        except Refused as refused:
            self._core.refuse(client.id, f"request {packet.topic[:200]}", str(refused))
            answer = {"ok": False, "reason": str(refused)}
        except PayloadError as error:
            answer = {"ok": False, "reason": f"the request is not a JSON object: {error}"}
        if answer is not None:
            self._answer(packet, answer)

    def _answer(self, packet: Publish, answer: Answer) -> None:
        core, properties = self._broker.core, packet.properties
        self._say(
            Publication(
                core.id,
                core.incarnation,
                "",
                0,
                properties.response_topic or "",
                msgspec.json.encode({"ok": True} | answer),
                1,
                core.at_us,
                content_type="application/json",
                correlation=properties.correlation_data,
            )
        )

    # What is declared.

    def _topics(self, client: Client) -> list[Answer]:
        return [
            self._topic(entry)
            for entry in self._broker.catalogue.entries("topic")
            if self._may_see(client, names.parse_pattern(entry.name).filter)
        ]

    def _topic(self, entry: Entry) -> Answer:
        topic = self._broker.catalogue.topic(entry.name)
        return {
            "name": entry.name,
            "version": entry.version,
            "broker": entry.broker,
            # A later release may have declared what this one does not understand.
            "kind": topic.kind.value if topic is not None else "unknown",
            "fields": len(topic.fields) if topic is not None else 0,
            "text": entry.text,
        }

    def _may_see(self, client: Client, topic_filter: str) -> bool:
        """Whether a client has anything to do with some topics, and so may know what is declared of them."""
        return any(allowed(self.access, client.user, client.id, action, topic_filter) for action in ACTIONS)

    def _show(self, client: Client, body: Mapping[str, Any], _packet: Publish) -> Answer:
        name, catalogue = _text(body, "name"), self._broker.catalogue
        entry = catalogue.entry("topic", name)
        if entry is not None:
            asked = names.parse_pattern(name).filter
        else:
            # For `fleet/+vehicle/status`: a topic, `fleet/v7/status`, or its topic filter, `fleet/+/status`.
            topic = names.name_fault(name) is None
            entry, asked = catalogue.governing(name) if topic else catalogue.declaring(name), name
        if entry is None or not self._may_see(client, asked):
            raise Refused(
                f"no topic {name!r} is declared, and no declaration matches it; see them with: tidings topic "
                "list"
            )
        answer: Answer = {"topic": self._topic(entry)}
        if seats := self._broker.gathered(entry.name):
            answer["gathered"] = [_seat(status) for status in seats]
        return answer

    def _declare(self, client: Client, body: Mapping[str, Any], packet: Publish) -> None:
        text = _text(body, "text")
        try:
            topic = declarations.parse_topic(text)
        except DeclarationError as error:
            raise Refused(str(error)) from None
        self._check_right(client, topic.pattern.filter)
        self._offer(client, packet, "topic", topic.name, text, bool(body.get("force")))

    def _remove(self, client: Client, body: Mapping[str, Any], packet: Publish) -> None:
        name = _text(body, "name")
        if self._broker.catalogue.entry("topic", name) is None:
            raise Refused(f"no topic {name!r} is declared; see them with: tidings topic list")
        self._check_right(client, names.parse_pattern(name).filter)
        self._offer(client, packet, "topic", name, "", bool(body.get("force")))

    # Views.

    def _views(self, client: Client) -> list[Answer]:
        catalogue = self._broker.catalogue
        return [
            view.to_mapping() | {"version": entry.version, "broker": entry.broker}
            for entry in catalogue.entries("view")
            if (view := catalogue.view(entry.name)) is not None
            and (
                self._may_see(client, view.topic_filter)
                or allowed(self.access, client.user, client.id, "subscribe", f"view/{entry.name}/#")
            )
        ]

    def _add_view(self, client: Client, body: Mapping[str, Any], packet: Publish) -> None:
        try:
            view = views.View.from_mapping({key: value for key, value in body.items() if key != "force"})
        except DeclarationError as error:
            raise Refused(str(error)) from None
        self._check_right(client, view.topic_filter)
        old = self._broker.catalogue.view(view.name)
        if old is not None:
            self._check_right(client, old.topic_filter)
        self._offer(client, packet, "view", view.name, view.text, bool(body.get("force")))

    def _remove_view(self, client: Client, body: Mapping[str, Any], packet: Publish) -> None:
        name = _text(body, "name")
        if self._broker.catalogue.entry("view", name) is None:
            raise Refused(f"there is no view {name!r}; see them with: tidings view list")
        view = self._broker.catalogue.view(name)
        self._check_right(client, view.topic_filter if view is not None else "#")
        self._offer(client, packet, "view", name, "", force=False)

    def _check_right(self, client: Client, topic_filter: str) -> None:
        if not allowed(self.access, client.user, client.id, "declare", topic_filter):
            raise Refused(f"this client lacks the right to declare {topic_filter!r}; see access_file")

    # What the broker decides.

    def _offer(self, client: Client, packet: Publish, kind: str, name: str, text: str, force: bool) -> None:
        if len(self._waiting) >= WAITING_MAX:
            raise Refused("too many requests wait for their answer; try again")
        self._tokens += 1
        self._waiting[self._tokens] = packet
        self._broker.tell(EntryOffered(client.id, self._tokens, kind, name, text, force))

    def on_enlisted(self, effect: Enlist) -> None:
        packet = self._waiting.pop(effect.token, None)
        if packet is not None:
            self._answer(packet, {})

    def on_declined(self, effect: Decline) -> None:
        packet = self._waiting.pop(effect.token, None)
        if packet is not None:
            self._core.refuse(effect.session, f"request {packet.topic[:200]}", effect.reason)
            self._answer(packet, {"ok": False, "reason": effect.reason})


def _seat(status: GatheredStatus) -> Answer:
    """What is known of a seat, with the share of its reports that nobody else had to hear of."""
    suppressed = status.merged + status.redundant
    return {
        **msgspec.structs.asdict(status),
        "suppression": suppressed / status.received if status.received else 0.0,
    }


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise Refused(f"the request lacks {name!r}, a text")
    return value
