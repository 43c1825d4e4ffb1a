"""What filters see of a publication: the fields of its payload, and what is said of it."""

from __future__ import annotations

import pytest

from tests.overlay.bench import Middle, kinds
from tests.overlay.offers import offer_of
from tidings.language.declarations import parse_topic
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import Deliver, Deny, PublicationsOffered, SessionOpened, SubscriptionAsked
from tidings.overlay.publishing.messages import Publish

DECLARED = parse_topic('name = "road/+name"\nkind = "plain"\n[fields]\nseverity = { type = "int" }\n')


def offer(
    topic: str, payload: bytes = b"{}", properties: tuple[tuple[str, str], ...] = ()
) -> PublicationsOffered:
    return offer_of("publisher", 1, topic, payload, 0, properties=properties)


@pytest.mark.parametrize("topic", ["road/a", "plain/a"], ids=["declared", "undeclared"])
@pytest.mark.parametrize(
    ("where", "properties", "wanted"),
    [
        ("$topic LIKE '%/a'", (), True),
        ("$topic = 'b'", (), False),
        ("$user.lang = 'el'", (("lang", "el"),), True),
        ("$user.lang = 'el'", (("lang", "el"), ("lang", "en")), True),
        ("$user.lang = 'en'", (("lang", "el"), ("lang", "en")), False),
        ("$user.lang = 'el'", (), False),
        ("$user.lang IS NULL", (("Lang", "el"),), True),
        ("severity > 3 AND $user.lang = 'el'", (("lang", "el"),), True),
    ],
)
def test_filters_see_topic_and_user_properties_here_and_behind_links(
    topic: str, where: str, properties: tuple[tuple[str, str], ...], wanted: bool
) -> None:
    it = Middle(wants={"x": [Subscription("#", where)]}, topics=[DECLARED])
    it.tell(SessionOpened("s", False))
    asked = it.tell(SubscriptionAsked("s", "1", Subscription(topic, where)))
    assert kinds(asked, Deny) == []
    effects = it.tell(offer(topic, b'{"severity": 4}', properties))
    assert bool(kinds(effects, Deliver)) is wanted
    assert bool(it.heard(effects, Publish)) is wanted


def test_a_payload_cannot_say_what_is_said_of_it() -> None:
    it = Middle(wants={"x": [Subscription("#", "$topic = 'secret' OR $user.role = 'admin'")]})
    lie = b'{"$topic": "secret", "$user": {"role": "admin"}}'
    assert it.heard(it.tell(offer("open", lie)), Publish) == []
    assert it.heard(it.tell(offer("open", lie, (("role", "guest"),))), Publish) == []
    ((peer, _),) = it.heard(it.tell(offer("secret", lie)), Publish)
    assert peer == "x"
