"""The catalogue of one broker: what is taken, what is told to neighbours, what is forgotten."""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.overlay.bench import BEGIN, Middle, Peer, kinds, started
from tests.overlay.offers import offer_of
from tidings.language import names
from tidings.language.declarations import parse_topic
from tidings.language.subscriptions import Subscription
from tidings.language.topics import Topic
from tidings.language.views import View
from tidings.overlay.broker import Broker
from tidings.overlay.events import (
    CatalogueChanged,
    Decline,
    Deliver,
    Deny,
    Effect,
    Enlist,
    EntryOffered,
    Erase,
    Grant,
    HangUp,
    Log,
    NeighbourAdded,
    Reject,
    SessionOpened,
    SubscriptionAsked,
    Sync,
    Synchronised,
    TimerFired,
    Write,
    WritesSynced,
)
from tidings.overlay.routing import catalogue
from tidings.overlay.routing.catalogue import (
    AFTER_MAX,
    ALONE_AFTER_S,
    REACH_WITHIN_S,
    SYNCHRONISE_WITHIN_S,
    TOMBSTONE_US,
)
from tidings.overlay.routing.messages import Catalogue, Enter, Entry
from tidings.overlay.routing.topics import Patterns

PLAIN = 'name = "t"\nkind = "plain"'
TYPED = 'name = "t"\nkind = "plain"\n[fields]\nx = { type = "int" }'
MORE = TYPED + '\ny = { type = "string" }'
DAY_S = TOMBSTONE_US / 1e6


def offered(text: str = PLAIN, name: str = "", token: int = 1, **more: Any) -> EntryOffered:
    return EntryOffered("c", token, more.pop("kind", "topic"), name, text, **more)


def entry(version: int, broker: str, text: str = PLAIN, name: str = "t", **more: Any) -> Entry:
    if not text and "removed_at_us" not in more:
        more["removed_at_us"] = round(BEGIN * 1e6)
    return Entry(more.pop("kind", "topic"), name, version, broker, text, **more)


def told(broker: Broker, event: Any, now: float = BEGIN) -> list[Effect]:
    """What becomes of an event, with its writes synced."""
    effects = broker.handle(event, now)
    for sync in kinds(effects, Sync):
        assert isinstance(sync, Sync)
        effects += broker.handle(WritesSynced(sync.token), now)
    return effects


def answer(effects: Iterable[Effect]) -> str:
    """Empty if the entry was taken, else why not."""
    (said,) = kinds(effects, Enlist, Decline)
    return said.reason if isinstance(said, Decline) else ""


def warnings(effects: Iterable[Effect]) -> list[dict[str, str]]:
    return [dict(effect.about) for effect in effects if isinstance(effect, Log) and effect.level == "warning"]


def writes(effects: Iterable[Effect], key: str = "catalogue/") -> list[Write]:
    return [effect for effect in effects if isinstance(effect, Write) and effect.key.startswith(key)]


def saved(effects: Iterable[Effect]) -> dict[str, bytes]:
    """What a store holds after these effects."""
    rows: dict[str, bytes] = {}
    for effect in effects:
        if isinstance(effect, Write):
            rows[effect.key] = effect.value
        elif isinstance(effect, Erase):
            rows.pop(effect.key, None)
    return rows


def known(broker: Broker, kind: str = "topic") -> list[tuple[str, int, str]]:
    return [(it.name, it.version, it.broker) for it in broker.catalogue.entries(kind)]


# From clients here.


def test_an_entry_is_on_disk_before_it_holds_and_anybody_is_told() -> None:
    m = Middle()
    first = m.tell(offered())
    assert len(writes(first)) == 1
    assert kinds(first, Enlist, Decline, CatalogueChanged) == []
    assert m.heard(first, Enter) == []
    assert m.broker.catalogue.topic("t") is None
    (sync,) = kinds(first, Sync)
    assert isinstance(sync, Sync)
    then = m.tell(WritesSynced(sync.token))
    assert kinds(then, Enlist, CatalogueChanged) == [CatalogueChanged("topic", "t"), Enlist("c", 1)]
    assert m.heard(then, Enter) == [("a", Enter(entry(1, "m"))), ("x", Enter(entry(1, "m")))]
    assert m.broker.catalogue.topic("t") == parse_topic(PLAIN)
    assert m.broker.catalogue.entry("topic", "t") == entry(1, "m")


def test_each_change_has_the_next_version_or_the_one_that_is_declared() -> None:
    broker = started("m")
    for text, version in ((PLAIN, 1), (PLAIN + "\n", 2), (PLAIN + "\nversion = 9", 9), (PLAIN, 10)):
        assert answer(told(broker, offered(text))) == ""
        assert known(broker) == [("t", version, "m")]


def test_changes_that_are_asked_for_before_the_first_is_on_disk_follow_each_other() -> None:
    broker = started("m")
    effects = broker.handle_all([offered(TYPED, token=1), offered(MORE, token=2)], BEGIN)
    (sync,) = kinds(effects, Sync)
    assert isinstance(sync, Sync)
    done = broker.handle(WritesSynced(sync.token), BEGIN)
    assert kinds(done, Enlist, Decline) == [Enlist("c", 1), Enlist("c", 2)]
    assert known(broker) == [("t", 2, "m")]
    assert broker.catalogue.entries("topic")[0].text == MORE


def test_what_is_declared_already_is_taken_without_a_change() -> None:
    broker = started("m")
    told(broker, offered(TYPED))
    again = told(broker, offered(TYPED))
    assert answer(again) == ""
    assert writes(again) == []
    assert known(broker) == [("t", 1, "m")]


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (offered("kind = 7"), "name is missing"),
        (offered("name ="), "this is not TOML"),
        (offered(PLAIN, name="other"), "the text declares 't', not 'other'"),
        (offered("x", kind="song"), "there is no kind 'song'"),
        (offered("x" * (catalogue.TEXT_LENGTH_MAX + 1)), "the limit is"),
        (offered(PLAIN + "\n# \ud800"), "surrogate"),
        (offered("", name="t"), "there is no topic 't'; `tidings topic list` shows"),
        (offered("", name="t", kind="view"), "there is no view 't'"),
        (offered('{"name": "v", "from": "a/#/b"}', kind="view"), "'#' must be the whole of the last level"),
        (offered('{"name": "v", "from": "a", "every": "soon"}', kind="view"), "every"),
    ],
)
def test_what_is_no_entry_is_declined_with_a_reason(event: EntryOffered, reason: str) -> None:
    broker = started("m")
    effects = told(broker, event)
    assert reason in answer(effects)
    assert writes(effects) == []


def test_a_field_may_be_added_while_the_network_runs() -> None:
    broker = started("m")
    told(broker, offered(TYPED))
    payload = offer_of("p", 1, "t", b'{"x": 1, "y": "new"}', 1)
    assert kinds(broker.handle(payload, BEGIN), Reject)
    assert answer(told(broker, offered(MORE))) == ""
    assert not kinds(broker.handle(payload, BEGIN), Reject)


def test_a_change_that_breaks_is_declined_with_all_that_it_breaks_and_done_with_force() -> None:
    broker = started("m")
    told(broker, offered(MORE))
    worse = 'name = "t"\nkind = "gathered"\nkey = ["y"]\n[fields]\ny = { type = "int" }'
    reason = answer(told(broker, offered(worse)))
    assert [line.strip().partition(":")[0] for line in reason.splitlines()[1:]] == ["kind", "x", "y"]
    assert known(broker) == [("t", 1, "m")]
    assert answer(told(broker, offered(worse, force=True))) == ""
    assert known(broker) == [("t", 2, "m")]


def test_a_topic_that_others_rely_on_is_removed_only_with_force() -> None:
    broker = started("m")
    timed = 'name = "t"\nkind = "plain"\n[fields]\nopened = { type = "timestamp" }'
    told(broker, offered(timed))
    assert "opened" in answer(told(broker, offered("", name="t")))
    assert answer(told(broker, offered("", name="t", force=True))) == ""
    assert known(broker) == []
    assert broker.catalogue.topic("t") is None


def test_subscriptions_stay_as_they_were_read_when_a_topic_is_declared() -> None:
    broker = started("m")
    broker.handle(SessionOpened("s"), BEGIN)
    broker.handle(SubscriptionAsked("s", "q", Subscription("t", "z = 1")), BEGIN)
    told(
        broker, offered('name = "t"\nkind = "plain"\nunknown_fields = "keep"\n[fields]\nx = { type = "int" }')
    )
    effects = broker.handle(offer_of("p", 1, "t", b'{"x": 1, "z": 1}', 0), BEGIN)
    assert kinds(effects, Deliver)
    assert not kinds(broker.handle(SubscriptionAsked("s", "r", Subscription("t", "z = 1")), BEGIN), Grant)


def test_views_are_entries_too() -> None:
    broker = started("m")
    view = View("severe", "traffic/#", "severity >= 3")
    effects = told(broker, offered(view.text, kind="view"))
    assert answer(effects) == ""
    assert CatalogueChanged("view", "severe") in effects
    assert broker.catalogue.view("severe") == view
    assert known(broker, "view") == [("severe", 1, "m")]
    assert known(broker, "topic") == []
    told(broker, offered(View("severe", "traffic/#").text, kind="view"))
    assert known(broker, "view") == [("severe", 2, "m")]
    told(broker, offered("", "severe", kind="view"))
    assert broker.catalogue.view("severe") is None


MISFITS = ("sevrity >= 3", "severity >= 'high'")
DECLARED = 'name = "traffic/athens"\nkind = "plain"\n[fields]\nseverity = { type = "int" }'


@pytest.mark.parametrize("where", MISFITS)
def test_a_view_of_one_declared_topic_is_refused_with_the_sentence_of_a_subscription(where: str) -> None:
    broker = started("m")
    told(broker, offered(DECLARED))
    broker.handle(SessionOpened("s"), BEGIN)
    (denied,) = kinds(
        broker.handle(SubscriptionAsked("s", "n", Subscription("traffic/athens", where)), BEGIN), Deny
    )
    assert isinstance(denied, Deny)
    view = View("severe", "traffic/athens", where)
    assert answer(told(broker, offered(view.text, kind="view"))) == denied.reason
    assert answer(told(broker, offered(view.text, kind="view", force=True))) == denied.reason
    assert known(broker, "view") == []


def test_a_view_of_several_topics_may_name_a_field_that_one_of_them_declares_not() -> None:
    broker = started("m")
    told(broker, offered(DECLARED))
    for topic_filter in ("traffic/+", "traffic/patras"):
        view = View("severe", topic_filter, "sevrity >= 3")
        assert answer(told(broker, offered(view.text, kind="view"))) == ""


FLEET = 'name = "fleet/+vehicle/status"\nkind = "plain"\n[fields]\nspeed = { type = "float" }'


@pytest.mark.parametrize(
    ("others", "topic_filter", "where", "said"),
    [
        ((), "fleet/+/status", "sped > 3", "declares no field sped"),
        ((), "fleet/+/status", "speed > 'high'", "speed"),
        ((), "fleet/+/status", "speed > 3 AND vehicle = 'v7' AND $topic LIKE 'fleet/%'", ""),
        # The less specific ones govern nothing of it.
        (("#", "fleet/#", "+a/+b/+c"), "fleet/+/status", "sped > 3", "declares no field sped"),
        # The more specific one governs a part of it.
        (("fleet/v7/status",), "fleet/+/status", "sped > 3", ""),
        (("fleet/v7/+what",), "fleet/+/status", "sped > 3", ""),
        (("fleet/v7/load", "street/v7/status"), "fleet/+/status", "sped > 3", "declares no field sped"),
        # Topics that are not declared, or otherwise, are among those that it looks at.
        ((), "fleet/#", "sped > 3", ""),
        ((), "fleet/v7/+", "sped > 3", ""),
        # Nothing is known of the fields of a plain topic that declares none.
        (("fleet/#",), "fleet/+/load", "sped > 3", ""),
    ],
)
def test_a_view_is_checked_where_one_declaration_governs_all_that_it_looks_at(
    others: tuple[str, ...], topic_filter: str, where: str, said: str
) -> None:
    broker = started("m")
    for text in (FLEET, *(f'name = "{name}"\nkind = "plain"' for name in others)):
        assert answer(told(broker, offered(text))) == ""
    answered = answer(told(broker, offered(View("v", topic_filter, where).text, kind="view")))
    assert said in answered
    assert bool(said) is bool(answered)
    assert known(broker, "view") == ([] if said else [("v", 1, "m")])


# From neighbours.


def test_a_newer_entry_is_stored_applied_and_told_to_all_but_its_source() -> None:
    m = Middle(children=("x", "y"))
    effects = m["x"].say(Enter(entry(3, "far", TYPED)))
    assert len(writes(effects)) == 1
    assert kinds(effects, CatalogueChanged) == [CatalogueChanged("topic", "t")]
    assert [peer for peer, _ in m.heard(effects, Enter)] == ["a", "y"]
    assert m.broker.catalogue.topic("t") == parse_topic(TYPED)


@pytest.mark.parametrize("older", [entry(2, "z", TYPED), entry(3, "b", TYPED), entry(3, "far", TYPED)])
def test_an_older_entry_or_the_same_changes_nothing(older: Entry) -> None:
    m = Middle()
    m["a"].say(Enter(entry(3, "far", TYPED)))
    effects = m["x"].say(Enter(older))
    assert not kinds(effects, Write, CatalogueChanged)
    assert m.heard(effects, Enter) == []


def test_of_two_with_one_version_that_of_the_larger_broker_holds_and_the_other_is_reported() -> None:
    for first, second in (
        (entry(2, "b", TYPED), entry(2, "c", MORE)),
        (entry(2, "c", MORE), entry(2, "b", TYPED)),
    ):
        m = Middle()
        m["a"].say(Enter(first))
        (about,) = warnings(m["x"].say(Enter(second)))
        assert known(m.broker) == [("t", 2, "c")]
        assert about["name"] == "t"
        assert about["holds"] == "version 2 of broker 'c'"
        assert about["lost"] == "version 2 of broker 'b'"
        assert about["lost_text"] == TYPED


def test_an_entry_that_took_the_place_of_another_is_no_conflict_with_it() -> None:
    other = started("o")
    told(other, offered(TYPED))
    old = other.catalogue.entries("topic")[0]
    for count in range(AFTER_MAX):
        told(other, offered(MORE + "\n" * count))
    new = other.catalogue.entries("topic")[0]
    assert len(new.after) == AFTER_MAX
    for first, second in ((old, new), (new, old)):
        m = Middle()
        m["a"].say(Enter(first))
        assert warnings(m["x"].say(Enter(second))) == []
        assert known(m.broker) == [("t", AFTER_MAX + 1, "o")]


def test_a_catalogue_that_comes_with_a_link_is_taken_entry_by_entry() -> None:
    m = Middle()
    first, second = entry(1, "far"), entry(4, "far", 'name = "u"\nkind = "plain"', "u")
    effects = m["x"].say(Catalogue((first,), more=True), Catalogue((second,)))
    assert known(m.broker) == [("t", 1, "far"), ("u", 4, "far")]
    assert m.heard(effects, Enter) == [("a", Enter(first)), ("a", Enter(second))]


def test_a_new_link_is_told_all_in_parts() -> None:
    broker = started("m")
    for number in range(300):
        told(broker, offered(f'name = "t{number}"\nkind = "plain"\n#{"x" * 1000}'))
    told(broker, offered("", name="t7"))
    peer = Peer(broker, "z", 1)
    parts = [message for message in peer.heard(peer.link()) if isinstance(message, Catalogue)]
    assert [part.more for part in parts] == [True] * (len(parts) - 1) + [False]
    assert sum(len(part.entries) for part in parts) == 300
    assert {it.name for part in parts for it in part.entries if it.removed_at_us} == {"t7"}
    assert all(len(part.entries) <= 4 for part in parts)


def test_an_entry_of_a_later_release_is_kept_and_passed_on_but_not_understood() -> None:
    m = Middle()
    strange = [entry(1, "far", 'name = "t"\nkind = "woven"'), entry(1, "far", "?", "s", kind="song")]
    effects = m["x"].say(Catalogue(tuple(strange)))
    assert [about["reason"].startswith("declaration:2: kind") for about in warnings(effects)] == [True]
    assert m.heard(effects, Enter) == [("a", Enter(it)) for it in strange]
    assert m.broker.catalogue.topic("t") is None
    assert known(m.broker) == [("t", 1, "far")]


@pytest.mark.parametrize(
    "strange",
    [
        entry(0, "b"),
        entry(2**53, "b"),
        entry(1, "b", kind=""),
        entry(1, "b", name=""),
        entry(1, "b" * 256),
        entry(1, "b", "x" * (catalogue.TEXT_LENGTH_MAX + 1)),
        entry(1, "b", removed_at_us=5),
        entry(1, "b", "", removed_at_us=0),
        entry(1, "b", "", removed_at_us=-1),
        entry(1, "b", after=tuple(range(AFTER_MAX + 1))),
    ],
)
def test_an_entry_that_no_broker_would_make_costs_the_link(strange: Entry) -> None:
    m = Middle()
    effects = m["x"].say(Catalogue((entry(1, "far", name="u", text='name = "u"\nkind = "plain"'), strange)))
    (closed,) = kinds(effects, HangUp)
    assert isinstance(closed, HangUp)
    assert "no entry of a catalogue" in closed.reason
    assert known(m.broker) == [("u", 1, "far")]


def test_an_offer_that_a_newer_entry_overtakes_is_declined() -> None:
    m = Middle()
    first = m.tell(offered(TYPED))
    m["x"].say(Enter(entry(5, "far", MORE)))
    (sync,) = kinds(first, Sync)
    assert isinstance(sync, Sync)
    then = m.tell(WritesSynced(sync.token))
    assert "version 5 of broker 'far'" in answer(then)
    assert len(warnings(then)) == 1
    assert known(m.broker) == [("t", 5, "far")]


def test_an_offer_that_beats_what_came_meanwhile_stays_on_disk() -> None:
    m = Middle()
    effects = m.tell(offered(MORE + "\n"))
    effects += m["x"].say(Enter(entry(1, "a", TYPED)))
    assert known(m.broker) == [("t", 1, "a")]
    (sync, *_) = kinds(effects, Sync)
    assert isinstance(sync, Sync)
    effects += m.tell(WritesSynced(sync.token))
    assert answer(effects) == ""
    again = started("m", saved=saved(effects), boot=2)
    assert known(again) == known(m.broker) == [("t", 1, "m")]


# Removal.


def test_what_was_removed_does_not_come_back_from_who_was_away() -> None:
    m = Middle()
    m["a"].say(Enter(entry(3, "far", TYPED)))
    effects = m["x"].say(Enter(entry(4, "far", "")))
    assert known(m.broker) == []
    assert kinds(effects, CatalogueChanged) == [CatalogueChanged("topic", "t")]
    assert m.heard(effects, Enter) == [("a", Enter(entry(4, "far", "")))]
    m["a"].say(Enter(entry(3, "far", TYPED)))
    assert known(m.broker) == []
    m["a"].say(Enter(entry(5, "far", TYPED)))
    assert known(m.broker) == [("t", 5, "far")]


def test_what_was_removed_is_remembered_for_a_day_and_then_forgotten() -> None:
    broker = started("m")
    told(broker, offered())
    told(broker, offered("", name="t"))
    before = broker.handle(TimerFired(), BEGIN + DAY_S - 1)
    assert not kinds(before, Erase)
    after = broker.handle(TimerFired(), BEGIN + DAY_S + 2)
    assert kinds(after, Erase) == [Erase("catalogue/topic/t")]
    peer = Peer(broker, "z", 1)
    (part,) = peer.heard(peer.link(BEGIN + DAY_S + 2), Catalogue)
    assert part.entries == ()


def test_what_others_remember_for_longer_is_not_taken_up_again() -> None:
    m = Middle()
    late = BEGIN + 2 * DAY_S
    m.tell(TimerFired(), BEGIN + 1)
    effects = m["x"].say(Enter(entry(2, "far", "", removed_at_us=round(BEGIN * 1e6))), now=late)
    assert not writes(effects)
    assert m.heard(effects, Enter) == []


def test_an_old_removal_still_removes_what_holds_here() -> None:
    m = Middle()
    m["a"].say(Enter(entry(1, "far")))
    m["x"].say(Enter(entry(2, "far", "", removed_at_us=1)), now=BEGIN + 2 * DAY_S)
    assert known(m.broker) == []


# Bounds.


def test_the_number_of_entries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "ENTRIES_MAX", 3)
    m = Middle()
    for number in range(3):
        assert answer(told(m.broker, offered(f'name = "t{number}"\nkind = "plain"'))) == ""
    assert "the catalogue is full: 3 entries of 3" in answer(told(m.broker, offered()))
    assert answer(told(m.broker, offered('name = "t0"\nkind = "plain"\nversion = 7'))) == ""
    errors = [
        effect
        for number in range(9)
        for effect in m["x"].say(Enter(entry(1, "far", f'name = "u{number}"\nkind = "plain"', f"u{number}")))
        if isinstance(effect, Log) and effect.level == "error"
    ]
    assert len(m.broker.catalogue.entries("topic")) == 6
    assert len(errors) == 1


def test_the_size_of_all_entries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "CATALOGUE_BYTES_MAX", 100)
    broker = started("m")
    assert answer(told(broker, offered(PLAIN))) == ""
    assert "the catalogue is full" in answer(
        told(broker, offered(f'name = "u"\nkind = "plain"\n#{"x" * 80}'))
    )


def test_the_number_of_removed_entries_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalogue, "TOMBSTONES_MAX", 2)
    m = Middle()
    for number in range(4):
        m["x"].say(Enter(entry(1, "far", "", f"t{number}", removed_at_us=round(BEGIN * 1e6) - number)))
    peer = Peer(m.broker, "z", 9)
    (part,) = peer.heard(peer.link(), Catalogue)
    assert [it.name for it in part.entries] == ["t0", "t1"]


# Restarts and files.


def test_entries_and_removals_survive_a_restart() -> None:
    broker = started("m")
    effects = told(broker, offered(TYPED))
    effects += told(broker, offered('name = "u"\nkind = "plain"'))
    effects += told(broker, offered("", name="u"))
    effects += told(broker, offered(View("v", "a/#").text, kind="view"))
    again = Broker("m", boot=2, incarnation=1, random=random.Random(0), saved=saved(effects))
    first = again.start(BEGIN)
    assert kinds(first, CatalogueChanged) == [
        CatalogueChanged("topic", "t"),
        CatalogueChanged("topic", "u"),
        CatalogueChanged("view", "v"),
    ]
    assert known(again) == [("t", 1, "m")]
    assert again.catalogue.view("v") == View("v", "a/#")
    told(again, offered('name = "u"\nkind = "plain"'))
    assert known(again) == [("t", 1, "m"), ("u", 3, "m")]


def test_a_view_of_a_file_that_does_not_fit_its_topic_is_not_taken() -> None:
    view = View("severe", "traffic/athens", "sevrity >= 3")
    broker = Broker(
        "m",
        boot=1,
        incarnation=1,
        random=random.Random(0),
        topics=[parse_topic(DECLARED)],
        views=[view],
    )
    effects = [*broker.start(BEGIN), *broker.handle(TimerFired(), BEGIN + ALONE_AFTER_S)]
    (said,) = kinds(effects, Log)
    assert isinstance(said, Log)
    assert "declares no field sevrity" in dict(said.about)["reason"]
    assert known(broker, "view") == []
    assert not any("view" in write.key for write in writes(effects, "catalogue"))


def test_a_view_of_a_file_goes_if_the_network_declares_its_topic_otherwise() -> None:
    view = View("severe", "traffic/athens", "sevrity >= 3")
    broker = started("m", views=[view])
    broker.handle(NeighbourAdded("there"), BEGIN)
    peer = Peer(broker, "z", 1)
    peer.link()
    assert broker.catalogue.view("severe") == view
    effects = peer.say(Catalogue((entry(1, "far", DECLARED, "traffic/athens"),)))
    assert broker.catalogue.view("severe") is None
    assert not any(it.entry.kind == "view" for it in peer.heard(effects, Enter))
    assert CatalogueChanged("view", "severe") in effects
    (said,) = [effect for effect in effects if isinstance(effect, Log) and effect.level == "error"]
    assert dict(said.about)["name"] == "severe"
    assert known(broker, "view") == []


Restarted = tuple[Broker, list[Effect], dict[str, bytes]]
"""A broker, its first effects, and what its store then holds."""


def restarted(rows: dict[str, bytes], boot: int, *topics: str) -> Restarted:
    """A broker without neighbours that has been started with some files, and has let clients in."""
    files = [parse_topic(text) for text in topics]
    broker = Broker("m", boot=boot, incarnation=1, random=random.Random(0), saved=rows, topics=files)
    effects = [*broker.start(BEGIN), *broker.handle(TimerFired(), BEGIN + ALONE_AFTER_S)]
    rows = dict(rows)
    for effect in effects:
        if isinstance(effect, Write):
            rows[effect.key] = effect.value
        elif isinstance(effect, Erase):
            rows.pop(effect.key, None)
    return broker, effects, rows


def test_brokers_with_the_same_file_make_the_same_entry() -> None:
    topic = parse_topic(TYPED)
    made = [started(id_, topics=[topic]).catalogue.entries("topic") for id_ in "abc"]
    assert made[0] == made[1] == made[2]
    assert [(it.name, it.version, it.broker) for it in made[0]] == [("t", 1, "")]


def test_a_file_that_has_not_changed_does_not_beat_what_was_declared_since() -> None:
    broker, _, rows = restarted({}, 1, TYPED)
    rows |= saved(told(broker, offered(MORE)))
    again, _, _ = restarted(rows, 2, TYPED)
    assert known(again) == [("t", 2, "m")]


def test_a_file_that_has_changed_is_the_newest_word() -> None:
    _, _, rows = restarted({}, 1, TYPED)
    again, _, rows = restarted(rows, 2, MORE)
    assert known(again) == [("t", 2, "")]
    _, effects, _ = restarted(rows, 3, MORE)
    assert writes(effects, "catalogue") == []


def test_a_file_that_says_what_is_declared_already_makes_no_new_version() -> None:
    broker = started("m")
    rows = saved(told(broker, offered(MORE)))
    again, _, rows = restarted(rows, 2, MORE)
    assert known(again) == [("t", 1, "m")]
    assert "catalogue-file/topic/t" in rows


def test_a_file_that_breaks_what_holds_is_not_taken_and_that_is_said_at_each_start() -> None:
    _, _, rows = restarted({}, 1, MORE)
    for boot in (2, 3):
        again, effects, rows = restarted(rows, boot, TYPED)
        assert known(again) == [("t", 1, "")]
        (said,) = kinds(effects, Log)
        assert isinstance(said, Log)
        assert "y: the field is gone" in dict(said.about)["reason"]


def test_what_was_removed_stays_removed_although_a_file_has_it() -> None:
    broker, _, rows = restarted({}, 1, TYPED)
    rows |= saved(told(broker, offered("", name="t")))
    again, _, rows = restarted(rows, 2, TYPED)
    assert known(again) == []
    again, _, rows = restarted(rows, 3)
    assert not any(key.startswith("catalogue-file/") for key in rows)
    again, _, _ = restarted(rows, 4, TYPED)
    assert known(again) == [("t", 3, "")]


def joining(file: str) -> tuple[Broker, Peer]:
    """A broker with an empty disk and a file, about to be told the catalogue of a neighbour."""
    broker = started("m", topics=[parse_topic(file)])
    broker.handle(NeighbourAdded("there"), BEGIN)
    peer = Peer(broker, "z", 1)
    (part,) = peer.heard(peer.link(), Catalogue)
    assert part.entries == (), "a file is not told before it is known what the network has"
    assert broker.catalogue.topic("t") == parse_topic(file), "but it holds here"
    return broker, peer


def test_a_file_that_the_network_knows_nothing_of_becomes_an_entry() -> None:
    _, peer = joining(TYPED)
    effects = peer.say(Catalogue(()))
    assert [it.entry.broker for it in peer.heard(effects, Enter)] == [""]
    assert {write.key for write in writes(effects, "catalogue")} == {
        "catalogue/topic/t",
        "catalogue-file/topic/t",
    }
    assert kinds(effects, Synchronised)


def test_a_file_that_the_network_has_too_is_not_told_again() -> None:
    broker, peer = joining(TYPED)
    theirs = started("z", topics=[parse_topic(TYPED)]).catalogue.entries("topic")[0]
    effects = peer.say(Catalogue((theirs,)))
    assert not peer.heard(effects, Enter)
    assert not [effect for effect in effects if isinstance(effect, Log) and effect.level == "error"]
    assert known(broker) == [("t", 1, "")]


@pytest.mark.parametrize("theirs", [entry(1, "", MORE), entry(3, "z", TYPED + "\n"), entry(2, "z", "")])
def test_a_broker_that_joins_with_another_file_does_not_undo_what_holds(theirs: Entry) -> None:
    broker, peer = joining(TYPED.replace("int", "string"))
    effects = peer.say(Catalogue((theirs,)))
    assert not peer.heard(effects, Enter)
    assert broker.catalogue.entries("topic") == ([theirs] if theirs.text else [])
    (said,) = [effect for effect in effects if isinstance(effect, Log) and effect.level == "error"]
    assert f"version {theirs.version}" in dict(said.about)["reason"]
    assert writes(effects, "catalogue-file/"), "and it does not try again at the next start"


def test_a_file_with_a_higher_version_than_what_holds_is_taken_if_it_breaks_nothing() -> None:
    broker, peer = joining(MORE.replace("[fields]", "version = 7\n[fields]"))
    effects = peer.say(Catalogue((entry(3, "z", TYPED),)))
    assert [it.entry.version for it in peer.heard(effects, Enter)] == [7]
    assert known(broker) == [("t", 7, "")]
    assert kinds(effects, Synchronised)
    broker, peer = joining(TYPED.replace("[fields]", "version = 7\n[fields]"))
    effects = peer.say(Catalogue((entry(3, "z", MORE),)))
    assert known(broker) == [("t", 3, "z")]


# Until clients may come in.


def synchronised(broker: Broker, now: float) -> int:
    return len(kinds(broker.handle(TimerFired(), now), Synchronised))


def test_a_broker_without_neighbours_lets_clients_in_at_once_and_says_so_once() -> None:
    broker = started("m")
    assert synchronised(broker, BEGIN + ALONE_AFTER_S) == 1
    peer = Peer(broker, "z", 1)
    effects = [*peer.link(BEGIN + 1), *peer.say(Catalogue(()), now=BEGIN + 1)]
    assert not kinds(effects, Synchronised)
    assert synchronised(broker, BEGIN + 100) == 0


def test_a_broker_with_neighbours_waits_for_the_whole_catalogue_of_the_first() -> None:
    broker = started("m")
    broker.handle(NeighbourAdded("there"), BEGIN)
    assert synchronised(broker, BEGIN + 1) == 0
    peer = Peer(broker, "z", 1)
    peer.link(BEGIN + 1)
    assert not kinds(peer.say(Catalogue((entry(1, "z"),), more=True), now=BEGIN + 1), Synchronised)
    assert synchronised(broker, BEGIN + REACH_WITHIN_S) == 0
    last = peer.say(Catalogue((entry(1, "z", TYPED, "t2"),)), now=BEGIN + 4)
    assert kinds(last, CatalogueChanged, Synchronised) == [CatalogueChanged("topic", "t2"), Synchronised()]


def test_a_broker_that_reaches_nobody_lets_clients_in_after_a_while() -> None:
    broker = started("m")
    broker.handle(NeighbourAdded("there"), BEGIN)
    assert synchronised(broker, BEGIN + REACH_WITHIN_S - 0.1) == 0
    assert synchronised(broker, BEGIN + REACH_WITHIN_S) == 1


def test_a_neighbour_that_never_tells_its_catalogue_keeps_clients_out_for_a_while_only() -> None:
    broker = started("m")
    broker.handle(NeighbourAdded("there"), BEGIN)
    peer = Peer(broker, "z", 1)
    peer.link(BEGIN + 1)
    now = BEGIN + 1
    while now < BEGIN + SYNCHRONISE_WITHIN_S - 1:
        now += 1
        peer.say(now=now)  # a heartbeat
        assert synchronised(broker, now) == 0
    assert synchronised(broker, BEGIN + SYNCHRONISE_WITHIN_S) == 1


# The most specific declaration.

levels = st.lists(st.sampled_from(["a", "b", "+", "+x", "+y", ""]), min_size=1, max_size=4)
patterns = st.builds(lambda own, rest: "/".join([*own, *rest]), levels, st.sampled_from([[], ["#"]]))
topic_names = (
    st.lists(st.sampled_from(["a", "b", "$s", ""]), min_size=1, max_size=5).map("/".join).filter(bool)
)


def declared(name: str) -> Topic | None:
    used = [level for level in name.split("/") if level.startswith("+") and len(level) > 1]
    if not name or len(set(used)) < len(used):
        return None
    return Topic.from_mapping({"name": name, "kind": "plain"})


@given(st.lists(patterns, max_size=8, unique=True), st.data())
def test_the_most_specific_declaration_is_found_whatever_comes_and_goes(
    texts: list[str], data: st.DataObject
) -> None:
    held = [topic for text in texts if (topic := declared(text)) is not None]
    index = Patterns()
    for topic in held:
        index.add(topic)
    for topic in list(held):
        if data.draw(st.booleans()):
            index.remove(topic)
            held.remove(topic)
    for _ in range(5):
        name = data.draw(topic_names)
        matching = [topic for topic in held if names.match(topic.pattern.filter, name)]
        assert index.find(name) == min(matching, key=lambda topic: topic.pattern.rank, default=None)
