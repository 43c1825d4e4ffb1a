"""Versions of events that a seat tells: how they enter the network, and what the seat hears of them."""

from __future__ import annotations

from tests.overlay.bench import Bench, Middle, carried, path
from tidings.language.subscriptions import Subscription
from tidings.overlay.events import Accept, Sync, WritesSynced
from tidings.overlay.publication import Told
from tidings.overlay.publishing.messages import Done, Publish
from tidings.overlay.publishing.publications import VersionConfirmed

ALL = Subscription("#", qos=2)


def told(version: int = 1, event: str = "e", **more: object) -> Told:
    return Told("t", event, version, version, False, "m", **more)  # type: ignore[arg-type]


def test_a_told_version_goes_to_all_who_match_and_is_confirmed_when_everyone_has_it() -> None:
    it = Middle(wants={"x": [ALL]})
    confirmed: list[Told] = []
    publications = it.broker._publications
    it.broker.core.heard_by[VersionConfirmed] = lambda notice: confirmed.append(notice.told)
    publications.tell("t", b'{"x":1}', 1, "", told())
    effects = it.broker.collect()
    ((_, message),) = it.heard(effects, Publish)
    assert carried(message).told == told()
    assert (carried(message).origin, carried(message).publisher) == ("m", "")
    it["x"].say(Done("a", (message.slot, message.slot), ()))
    assert confirmed == []  # it is not on this broker's disk yet
    (sync,) = [effect for effect in effects if isinstance(effect, Sync)]
    effects = it.tell(WritesSynced(sync.token))
    assert confirmed == [told()]
    assert not any(isinstance(effect, Accept) for effect in effects)
    assert not publications.outbox.held
    assert publications.outbox.unaccepted_bytes == 0


def test_a_version_of_quality_0_counts_as_told_when_it_is_sent() -> None:
    it = Middle(wants={"x": [ALL]})
    confirmed: list[Told] = []
    it.broker.core.heard_by[VersionConfirmed] = lambda notice: confirmed.append(notice.told)
    it.broker._publications.tell("t", b"{}", 0, "", told())
    assert confirmed == [told()]
    assert [name for name, _ in it.heard(it.broker.collect(), Publish)] == ["x"]


def test_what_a_seat_without_its_term_had_told_is_not_sent_again() -> None:
    bench = Bench("ab", path("a", "b"))
    bench.settle()
    bench.subscribe("b", "s", "t", qos=1)
    bench.settle()
    bench.cut("a", "b")
    bench.advance(3.0)
    publications = bench["a"]._publications
    for event in ("e", "f"):
        publications.tell("t", event.encode(), 1, "", told(event=event))
    publications.drop_told({"e"})
    bench._carry_out("a", bench["a"].collect())
    bench.heal("a", "b")
    bench.settle()
    assert [it.publication.payload for it in bench.given("b")] == [b"f"]
    assert bench.keys("a", "held/") == []
    assert publications.backlog_bytes == publications.outbox.unaccepted_bytes == 0
