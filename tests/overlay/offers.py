"""Publications one by one: as a client offers them, and as sessions are given them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tidings.overlay.events import Deliver, PublicationsOffered
from tidings.overlay.matches import Matches
from tidings.overlay.publication import Batch, Head, Publication


def offer_of(
    session: str,
    token: int,
    topic: str,
    payload: bytes,
    qos: int = 0,
    content_type: str = "",
    properties: tuple[tuple[str, str], ...] = (),
    retain: bool = False,
    **more: Any,
) -> PublicationsOffered:
    """One publication of a client."""
    head = Head(topic, qos, session, content_type, properties, retain, **more)
    return PublicationsOffered(session, (token,), Batch.offered(head, payload))


class Given(NamedTuple):
    """One publication for sessions."""

    publication: Publication
    subscriptions: tuple[tuple[str, str], ...]
    hops: int


def given(effects: Iterable[object]) -> list[Given]:
    """What effects hand to sessions, one publication after the other."""
    return [
        Given(publication, subscriptions, effect.hops)
        for effect in effects
        if isinstance(effect, Deliver)
        for publication, subscriptions in zip(effect.batch, effect.matches, strict=True)
        if subscriptions
    ]


def deliver(publication: Publication, subscriptions: tuple[tuple[str, str], ...], hops: int) -> Deliver:
    """One publication, handed to sessions."""
    return Deliver(Batch.of(publication), Matches(1, subscriptions), hops)
