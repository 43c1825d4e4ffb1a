"""A broker in the middle with a client that asks, and what others are told of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tests.overlay.bench import BEGIN, Middle
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import Effect, SessionOpened, SubscriptionAsked
from tidings.overlay.routing.messages import Change
from tidings.overlay.settings import DEFAULT, Settings
from tidings.overlay.status import SetStatus

WIDE = Subscription("roads/#", "severity > 3", qos=1)
NARROW = Subscription("roads/a1", "severity > 5", qos=1)


def middle(children: tuple[str, ...] = ("x",), settings: Settings = DEFAULT, **more: Any) -> Middle:
    """A broker between neighbours, with a client."""
    it = Middle(children, settings, **more)
    it.tell(SessionOpened("client"))
    return it


def ask(
    it: Middle, name: str, subscription: Subscription, session: str = "client", now: float = BEGIN
) -> list[Effect]:
    return it.tell(SubscriptionAsked(session, name, subscription), now)


def told(it: Middle, effects: Iterable[Effect]) -> list[Change]:
    """What the root is told of the broker's own set."""
    return [change for change in it["a"].heard(effects, Change) if change.home == "m"]


def known(it: Middle, home: str, now: float = BEGIN) -> SetStatus | None:
    """What a broker knows of a home's set."""
    sets = it.broker.status(now, filters=True).sets
    return next((one for one in sets if one.home == home), None)
