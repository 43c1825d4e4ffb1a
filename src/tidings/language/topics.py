"""Topics: what a declaration says about the reports of one name, or of all names that match one.

A plain topic carries messages as they are. A gathered topic turns reports into events; how is in its
`Gathering`. Declarations come as mappings, from a TOML file (see `declarations`), a program or another
broker. A mapping is checked as a whole and all its faults are found at once, each with the place it is at.
How each option is read is one line of `OPTIONS`; docs/topics.md explains them, and a test keeps the two
together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from tidings.errors import DeclarationError, FilterError, Problem
from tidings.language import durations
from tidings.language.faults import Fault, Faults, choice, shown
from tidings.language.fields import Conflict, Field, Path, Type, path_text
from tidings.language.keys import Item, Whole, parse_item
from tidings.language.names import Pattern, parse_pattern
from tidings.language.payloads import INT_MAX, Encoding
from tidings.language.schemas import NAME_LENGTH_MAX, field_mapping, read_fields

if TYPE_CHECKING:
    from tidings.language.filters import Filter

Read = TypeVar("Read")

FOREVER = math.inf
"""How long what is never thrown away is kept."""


class Kind(StrEnum):
    """What a topic does with what is published on it."""

    GATHERED = "gathered"
    """Reports travel to one broker and grow into events there."""

    PLAIN = "plain"
    """Messages go straight to the subscribers that they match."""


class StaysOpen(StrEnum):
    """Which reports restart the redundant clock, Tr, and so keep an event open."""

    MERGED = "merged"
    """Those that change the event, as published."""

    REPORTED = "reported"
    """All reports: an event is open while somebody still reports it."""


class TellFirst(StrEnum):
    """When an event is told for the first time."""

    MERGE_AFTER = "merge_after"
    """When the merge clock, Tm, has run out, as published."""

    NOW = "now"
    """At once; its growth every Tm."""


class Complete(StrEnum):
    """What is told at once because no field is missing."""

    EVENT = "event"
    """An event, as soon as reports together have filled it."""

    REPORT = "report"
    """Only a report that fills all fields by itself, as in the paper's experiments."""

    ONCE = "once"
    """An event, when reports together have filled it; what changes after that is told every Tm."""


class Strategy(StrEnum):
    """Which broker gathers."""

    CENTRE = "centre"
    """The one whose farthest broker is nearest, as published."""

    MEDIAN = "median"
    """The one with the least sum of distances to all."""

    TRAFFIC = "traffic"
    """The same, weighted by where reports enter and events leave."""


class Scope(StrEnum):
    """Which brokers count when a seat is chosen."""

    TREE = "tree"
    """All of the topic's tree."""

    TOPIC = "topic"
    """Those with publishers or subscribers of the topic, and those between them, as published."""


class BeforeSeat(StrEnum):
    """What becomes of a report while no seat is known."""

    WAIT = "wait"
    """It waits where it entered."""

    PASS = "pass"  # noqa: S105
    """It is delivered as it is, as published."""


class OnTheWay(StrEnum):
    """What brokers between a publisher and the seat do with reports."""

    NOTHING = "nothing"
    """Pass them on."""

    DROP = "drop"
    """Drop those that say what the seat is known to have."""

    MERGE = "merge"
    """That, and merge those that meet within a short time."""


class Overflow(StrEnum):
    """What happens when more is open at a seat than it may hold."""

    TELL = "tell"
    """The event that changed longest ago is told; a digest stays, by which redundant reports are known."""

    REFUSE = "refuse"
    """Reports that would open another event are refused."""


class UnknownFields(StrEnum):
    """What becomes of fields that the topic does not declare."""

    REFUSE = "refuse"
    """The whole payload is refused."""

    DROP = "drop"
    """They are left out."""

    KEEP = "keep"
    """They stay, untyped; on plain topics only, since an event cannot merge what it does not know."""


@dataclass(frozen=True, slots=True)
class Gathering:
    """How the reports of a topic become events. Durations are whole microseconds."""

    key: tuple[Item, ...]
    """What says which event a report is about."""

    merge_after_us: int
    """Tm: how long an event collects reports before it is told, and between one telling and the next."""

    redundant_for_us: int
    """Tr: how long after the last report that counts an event stays open."""

    window_us: int | None
    """W: how long after its first report an event is closed in any case; None for never."""

    stays_open: StaysOpen
    """Which reports restart Tr."""

    ends_when: Filter | None
    """An event that satisfies this is told as ended and closed."""

    tell_first: TellFirst
    """When an event is first told."""

    tell_now: Filter | None
    """A version that newly satisfies this is told at once."""

    every_min_us: int
    """The shortest cycle that a subscriber's `every` can ask of the seat."""

    complete: Complete
    """What is told at once because no field is missing."""

    keep_reports_us: float | None
    """How long each broker keeps the reports that entered there; None for not at all."""

    encoding: Encoding
    """How told events are written."""

    seat: Strategy
    """Which broker gathers."""

    seat_scope: Scope
    """Which brokers count when it is chosen."""

    seats: int
    """Among how many brokers the keys are divided."""

    before_seat: BeforeSeat
    """What becomes of reports while no seat is known."""

    on_the_way: OnTheWay
    """What brokers before the seat do with reports."""

    open_max: int
    """Events that may be open at one seat."""

    event_bytes_max: int
    """What one event may hold, in bytes."""

    overflow: Overflow
    """What happens beyond."""


@dataclass(frozen=True, slots=True)
class Topic:
    """One declaration. Make one with `Topic.from_mapping` or `declarations.read_topic`, which check it."""

    pattern: Pattern
    """Its name, taken apart."""

    version: int
    """Of two declarations of one name the higher version holds."""

    fields: Mapping[Path, Field]
    """The declared fields, in their order; named levels that are not declared come first."""

    unknown_fields: UnknownFields
    """What becomes of other fields."""

    keep_us: float | None
    """How long told events (or, on a plain topic, messages) stay in the log; None for not at all."""

    root: str | None
    """The broker whose tree the topic uses; None for the one that its name picks."""

    gathering: Gathering | None
    """How reports become events; None on a plain topic."""

    @property
    def name(self) -> str:
        """The name as declared."""
        return self.pattern.text

    @property
    def kind(self) -> Kind:
        """Gathered or plain."""
        return Kind.PLAIN if self.gathering is None else Kind.GATHERED

    @property
    def key(self) -> tuple[Item, ...]:
        """The items of the key; none on a plain topic."""
        return () if self.gathering is None else self.gathering.key

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object], source: str = "declaration") -> Topic:
        """A checked topic; DeclarationError holds everything that is wrong with it."""
        topic = examine(mapping)
        if isinstance(topic, Topic):
            return topic
        raise DeclarationError([Problem(fault.message) for fault in topic], source)

    def to_mapping(self) -> dict[str, object]:
        """The declaration with every option said, in plain values that `from_mapping` reads back."""
        mapping: dict[str, object] = {"name": self.name, "kind": self.kind.value, "version": self.version}
        if self.root is not None:
            mapping["root"] = self.root
        if self.keep_us is not None:
            mapping["keep"] = _lasting_text(self.keep_us)
        if self.fields:
            mapping["unknown_fields"] = self.unknown_fields.value
        if self.gathering is not None:
            mapping |= _gathering_mapping(self.gathering)
        tree: dict[str, Any] = {}
        for path, field in self.fields.items():
            group = tree
            for name in path[:-1]:
                group = group.setdefault(name, {})
            group[path[-1]] = field_mapping(field)
        if tree:
            mapping["fields"] = tree
        return mapping


def examine(mapping: Mapping[str, object]) -> Topic | list[Fault]:
    """The topic that a mapping declares, or all of its faults."""
    faults = Faults()
    given: dict[str, Any] = {}
    for name, value in mapping.items():
        if name not in OPTIONS:
            faults.add((name,), f"there is no option {shown(name)}{_nearest(name)}")
            continue
        try:
            given[name] = OPTIONS[name].read(value)
        except ValueError as error:
            faults.add((name,), f"{name}: {error}")

    pattern: Pattern | None = given.get("name")
    if "name" not in mapping:
        faults.add((), 'name is missing; write name = "traffic/athens", say')
    kind: Kind | None = given.get("kind")
    if "kind" not in mapping:
        faults.add((), 'kind is missing; write kind = "gathered" or kind = "plain"')
    if kind is Kind.PLAIN:
        faults += [
            Fault((name,), f'{name} is for gathered topics only; leave it out, or write kind = "gathered"')
            for name in mapping
            if name in OPTIONS and OPTIONS[name].gathered
        ]

    found = len(faults)
    fields = read_fields(given.get("fields", {}), pattern, faults)
    unread = _unread(faults[found:], fields)
    readable = {name for name in OPTIONS if name in given or name not in mapping}
    # Of a name that cannot be read the levels are not known, and a field that is missing may be one of them.
    fields_known = "fields" in readable and ("name" in readable or "+" not in str(mapping.get("name")))
    gathering = None
    if kind is Kind.GATHERED or (kind is None and any(OPTIONS[name].gathered for name in given)):
        if not fields and not unread and fields_known:
            faults.add((), "fields are missing; a gathered topic declares them under [fields]")
        declared = Declared(fields, unread) if fields_known and (fields or unread) else None
        gathering = _read_gathering(given, readable, declared, faults)
    typed = kind is Kind.GATHERED or bool(mapping.get("fields"))
    unknown_fields = given.get("unknown_fields", UnknownFields.REFUSE if typed else UnknownFields.KEEP)
    if kind is Kind.GATHERED and unknown_fields is UnknownFields.KEEP:
        faults.add(
            ("unknown_fields",),
            "unknown_fields = 'keep' is for plain topics; an event cannot merge fields that it does not "
            "know: declare them, or write 'drop' or 'refuse'",
        )
    if kind is Kind.PLAIN and not typed and unknown_fields is not UnknownFields.KEEP:
        faults.add(("unknown_fields",), f"unknown_fields = '{unknown_fields}' needs [fields]; there are none")

    if faults or pattern is None:
        return faults
    return Topic(
        pattern=pattern,
        version=given.get("version", 1),
        fields=fields,
        unknown_fields=unknown_fields,
        keep_us=given.get("keep"),
        root=given.get("root"),
        gathering=gathering,
    )


# Reading one option at a time: a value that is wrong raises ValueError with the reason.


def _read_name(value: object) -> Pattern:
    return parse_pattern(_read_string(value))


def _read_string(value: object) -> str:
    if isinstance(value, str):
        return value
    raise ValueError(f"{shown(value)} is not a string; put it in quotes")


def _read_version(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= INT_MAX:
        return value
    raise ValueError(f"{shown(value)} is not a whole number from 1 up")


SEATS_MAX = 64
"""Seats of one topic: more than brokers near a centre."""

OPEN_LIMIT = 100_000_000
EVENT_BYTES_MIN, EVENT_BYTES_LIMIT = 1_024, 16 * 1_048_576
"""An event below the one could not hold a handful of fields; above the other it could not be sent."""


def _read_count(least: int, most: int) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, int) and not isinstance(value, bool) and least <= value <= most:
            return value
        raise ValueError(f"{shown(value)} is not a whole number from {least:,} to {most:,}")

    return read


def _read_window(value: object) -> int | None:
    return None if value == "none" else durations.parse(value)


def _read_keep(value: object) -> float | None:
    if value == "forever" or value is True:
        return FOREVER
    if value is False:
        return None
    keep_us = durations.parse(value)
    if keep_us == 0:
        raise ValueError(f"{shown(value)} does not say how long; write '7d' or 'forever', or leave it out")
    return keep_us


def _read_keep_reports(value: object) -> float | bool | None:
    return value if isinstance(value, bool) else _read_keep(value)


def _read_root(value: object) -> str:
    root = _read_string(value)
    if 0 < len(root) <= NAME_LENGTH_MAX and root.isprintable() and root == root.strip():
        return root
    raise ValueError(
        f"{shown(root)} is not the id of a broker; it must have 1 to {NAME_LENGTH_MAX} printable characters "
        "and no space at its ends"
    )


def _read_table(value: object) -> Mapping[str, object]:
    if isinstance(value, Mapping):
        return value
    raise ValueError(f"{shown(value)} is not a table; write [fields] and below it one line for each field")


def _read_key(value: object) -> list[object]:
    if not isinstance(value, (list, tuple)):
        raise ValueError(f'{shown(value)} is not a list; write key = ["place"], say')
    if not value:
        raise ValueError("the list is empty; name what says which event a report is about")
    return list(value)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a declaration."""

    read: Callable[[Any], Any]
    """Takes the value as written; raises ValueError."""

    gathered: bool = False
    """Whether it is for gathered topics only."""


OPTIONS: dict[str, Option] = {
    "name": Option(_read_name),
    "kind": Option(choice(Kind)),
    "version": Option(_read_version),
    "fields": Option(_read_table),
    "unknown_fields": Option(choice(UnknownFields)),
    "keep": Option(_read_keep),
    "root": Option(_read_root),
    "key": Option(_read_key, gathered=True),
    "merge_after": Option(durations.parse, gathered=True),
    "redundant_for": Option(durations.parse, gathered=True),
    "window": Option(_read_window, gathered=True),
    "stays_open": Option(choice(StaysOpen), gathered=True),
    "ends_when": Option(_read_string, gathered=True),
    "tell_first": Option(choice(TellFirst), gathered=True),
    "tell_now": Option(_read_string, gathered=True),
    "every_min": Option(durations.parse, gathered=True),
    "complete": Option(choice(Complete), gathered=True),
    "keep_reports": Option(_read_keep_reports, gathered=True),
    "encoding": Option(choice(Encoding), gathered=True),
    "seat": Option(choice(Strategy), gathered=True),
    "seat_scope": Option(choice(Scope), gathered=True),
    "seats": Option(_read_count(1, SEATS_MAX), gathered=True),
    "before_seat": Option(choice(BeforeSeat), gathered=True),
    "on_the_way": Option(choice(OnTheWay), gathered=True),
    "open_max": Option(_read_count(1, OPEN_LIMIT), gathered=True),
    "event_bytes_max": Option(_read_count(EVENT_BYTES_MIN, EVENT_BYTES_LIMIT), gathered=True),
    "overflow": Option(choice(Overflow), gathered=True),
}

MERGE_AFTER_US, REDUNDANT_FOR_US, WINDOW_US = 4_000_000, 60_000_000, 600_000_000
"""Tm, Tr and W where they are not declared: those of the example in docs/topics.md."""

OPEN_MAX = 100_000
"""Events open at a seat where it is not declared: some 200 MB of events with 20 fields."""

COUNTING = (Conflict.LAST, Conflict.UNION, Conflict.MAJORITY)
"""Policies by which it matters that a value is said once more."""

EVENT_BYTES_MAX = 1_048_576
"""Of one event where it is not declared: as much as one payload may have."""

# The paper's letters, and words that people try first.
_ALSO_CALLED = {"tm": "merge_after", "tr": "redundant_for", "w": "window", "topic": "name", "type": "kind"}


# Reading what depends on more than one option.

UNREAD_MAX = 2
"""Fields of unknown type with which a key or a filter is tried: it is read 25 times at most."""


@dataclass(frozen=True, slots=True)
class Declared:
    """The fields that keys and filters are checked against."""

    fields: Mapping[Path, Field]
    """Those whose types could be read."""

    unread: frozenset[Path]
    """The others."""

    def check(self, text: str, read: Callable[[str, Mapping[Path, Field]], Read]) -> Read | None:
        """What a text says that mentions fields; None if it mentions one whose type is not known.

        Then it is tried with every type. If it is wrong with all of them, that is raised with which it gets
        farthest; else enough is said by what is wrong with the field.
        """
        mentioned = [path for path in sorted(self.unread) if any(_mentions(text, name) for name in path)]
        if not mentioned:
            return read(text, self.fields)
        # What was to be a field may be meant as a group, of which no field is known either.
        if len(mentioned) > UNREAD_MAX or any(_mentions(text, path[-1], r"[`\s]*\.") for path in mentioned):
            return None
        wrong: list[ValueError | FilterError] = []
        for kinds in product(Type, repeat=len(mentioned)):
            tried = {path: Field(path, kind) for path, kind in zip(mentioned, kinds, strict=True)}
            try:
                read(text, {**self.fields, **tried})
            except (ValueError, FilterError) as error:
                wrong.append(error)
            else:
                return None
        often = Counter(map(str, wrong))
        raise max(wrong, key=lambda error: (getattr(error, "start", 0), often[str(error)]))


def _mentions(text: str, name: str, then: str = "") -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w){then}", text) is not None


def _unread(faults: Iterable[Fault], fields: Mapping[Path, Field]) -> frozenset[Path]:
    """The fields that faults are about, but for those that have only another trait wrong than their type."""
    found = set()
    for fault in faults:
        path = tuple(str(name) for name in fault.where[1:])
        if path and path[:-1] not in fields:
            found.add(path[:-1] if path[-1] == "type" and len(path) > 1 else path)
    return frozenset(found)


def _read_gathering(
    given: Mapping[str, Any], readable: set[str], declared: Declared | None, faults: Faults
) -> Gathering:
    merge_after_us = given.get("merge_after", MERGE_AFTER_US)
    redundant_for_us = given.get("redundant_for", REDUNDANT_FOR_US)
    window_us = given.get("window", WINDOW_US)
    stays_open = given.get("stays_open", StaysOpen.MERGED)

    def clock(name: str, duration_us: int) -> str:
        return f"{name} ({durations.text(duration_us)}{'' if name in given else ', the default'})"

    if {"merge_after", "redundant_for"} <= readable and merge_after_us > redundant_for_us:
        faults.add(
            ("merge_after",) if "merge_after" in given else ("redundant_for",),
            f"{clock('merge_after', merge_after_us)} is longer than "
            f"{clock('redundant_for', redundant_for_us)}; an event must not be forgotten before it is told",
        )
    if window_us is None:
        if stays_open is not StaysOpen.REPORTED and "stays_open" in readable:
            faults.add(
                ("window",),
                "window = 'none' leaves an event open for as long as it changes; it needs "
                "stays_open = 'reported'",
            )
    elif {"redundant_for", "window"} <= readable and redundant_for_us > window_us:
        faults.add(
            ("redundant_for",) if "redundant_for" in given else ("window",),
            f"{clock('redundant_for', redundant_for_us)} is longer than {clock('window', window_us)}; "
            "the window must be the longest of the three",
        )
    keep_reports = given.get("keep_reports")
    if keep_reports is True:
        keep_reports = given.get("keep")
        if keep_reports is None and "keep" in readable:
            faults.add(
                ("keep_reports",),
                "keep_reports = true means as long as keep, which is missing; write a duration",
            )
    if "key" not in given and "key" in readable:
        faults.add((), "key is missing; a gathered topic names what says which event a report is about")
    key: tuple[Item, ...] = ()
    from tidings.language import filters

    asked: dict[str, Filter | None] = {"ends_when": None, "tell_now": None}
    if declared is not None:
        key = tuple(_read_items(given.get("key", []), declared, faults))
        for name in asked:
            if name in given:
                try:
                    asked[name] = declared.check(given[name], filters.parse)
                except FilterError as error:
                    faults.add((name,), f"{name}: {error.reason}")
    counting = ""
    if declared is not None and {"stays_open", "ends_when"} <= readable:
        counting = _every_report_counts(declared.fields.values(), stays_open, "ends_when" in given)
    # Of a greatest or smallest value a repeat may disagree by the time that it arrives, which is a conflict
    # to be counted: such reports are dropped only where that is asked for.
    steady = declared is not None and all(
        field.conflict is Conflict.FIRST for field in declared.fields.values()
    )
    unasked = OnTheWay.DROP if steady and not counting else OnTheWay.NOTHING
    on_the_way = given.get("on_the_way", unasked)
    if counting and on_the_way is not OnTheWay.NOTHING:
        faults.add(
            ("on_the_way",),
            f"on_the_way = '{on_the_way}' is for topics on which a report that repeats what is known changes "
            f"nothing; with {counting} it does: leave that out, or write on_the_way = 'nothing'",
        )
    return Gathering(
        key=key,
        merge_after_us=merge_after_us,
        redundant_for_us=redundant_for_us,
        window_us=window_us,
        stays_open=stays_open,
        ends_when=asked["ends_when"],
        tell_first=given.get("tell_first", TellFirst.MERGE_AFTER),
        tell_now=asked["tell_now"],
        every_min_us=given.get("every_min", merge_after_us),
        complete=given.get("complete", Complete.EVENT),
        keep_reports_us=keep_reports or None,
        encoding=given.get("encoding", Encoding.JSON),
        seat=given.get("seat", Strategy.TRAFFIC),
        seat_scope=given.get("seat_scope", Scope.TREE),
        seats=given.get("seats", 1),
        before_seat=given.get("before_seat", BeforeSeat.WAIT),
        on_the_way=on_the_way,
        open_max=given.get("open_max", OPEN_MAX),
        event_bytes_max=given.get("event_bytes_max", EVENT_BYTES_MAX),
        overflow=given.get("overflow", Overflow.TELL),
    )


def _every_report_counts(fields: Iterable[Field], stays_open: StaysOpen, ends: bool) -> str:
    """Why a report that says nothing new may still change an event; empty if it never does."""
    for field in fields:
        if field.conflict in COUNTING:
            return f"conflict = '{field.conflict}' of {path_text(field.path)!r}"
    if stays_open is StaysOpen.REPORTED:
        return "stays_open = 'reported'"
    return "ends_when" if ends else ""


def _read_items(written: list[object], declared: Declared, faults: Faults) -> Iterator[Item]:
    seen: set[str] = set()
    fields = declared.fields
    for at, text in enumerate(written):
        try:
            item = declared.check(_read_string(text), parse_item)
        except ValueError as error:
            faults.add(("key", at), f"key: {error}")
            continue
        if item is None:
            continue
        if item.text in seen:
            faults.add(("key", at), f"key: {item.text!r} is there twice; once is enough")
        seen.add(item.text)
        for path in item.paths:
            if fields[path].many:
                faults.add(
                    ("key", at),
                    f"key: {path_text(path)!r} has conflict = 'union' and so many values; a key needs one",
                )
        if isinstance(item, Whole) and fields[item.path].tolerance is not None:
            faults.add(
                ("key", at),
                f"key: {item.text!r} has a tolerance, but keys are compared exactly; round it in the key "
                "with floor(f / n) or bucket(t, '5m'), or drop the tolerance",
            )
        yield item


# Writing a declaration back, and words for messages.


def _gathering_mapping(gathering: Gathering) -> dict[str, object]:
    window_us = gathering.window_us
    mapping: dict[str, object] = {
        "key": [item.text for item in gathering.key],
        "merge_after": durations.text(gathering.merge_after_us),
        "redundant_for": durations.text(gathering.redundant_for_us),
        "window": "none" if window_us is None else durations.text(window_us),
        "stays_open": gathering.stays_open.value,
        "tell_first": gathering.tell_first.value,
        "every_min": durations.text(gathering.every_min_us),
        "complete": gathering.complete.value,
        "encoding": gathering.encoding.value,
        "seat": gathering.seat.value,
        "seat_scope": gathering.seat_scope.value,
        "seats": gathering.seats,
        "before_seat": gathering.before_seat.value,
        "on_the_way": gathering.on_the_way.value,
        "open_max": gathering.open_max,
        "event_bytes_max": gathering.event_bytes_max,
        "overflow": gathering.overflow.value,
    }
    if gathering.ends_when is not None:
        mapping["ends_when"] = gathering.ends_when.source
    if gathering.tell_now is not None:
        mapping["tell_now"] = gathering.tell_now.source
    if gathering.keep_reports_us is not None:
        mapping["keep_reports"] = _lasting_text(gathering.keep_reports_us)
    return mapping


def _lasting_text(duration_us: float) -> str:
    return "forever" if duration_us == FOREVER else durations.text(int(duration_us))


def _nearest(name: object) -> str:
    if not isinstance(name, str) or len(name) > NAME_LENGTH_MAX:
        return ""
    also = _ALSO_CALLED.get(name.lower())
    near = [also] if also else get_close_matches(name.lower(), OPTIONS, n=3)
    if near:
        return "; did you mean " + " or ".join(near) + "?"
    return "; there are " + ", ".join(OPTIONS)
