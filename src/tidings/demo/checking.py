"""What every subscriber got, against what happened: nothing may be missing, wrong, or there twice.

A filter is judged by its own plain evaluation, never by a broker's index. How many versions of an event are
told on the way is the network's affair; what it ends as is not.

Nothing here knows how reports and events travelled.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidings.console.day import Check
from tidings.demo.city import City, Fields, Subscriber
from tidings.demo.playing import Delivered
from tidings.language import names

WITHDRAWN = "withdrawn"

ARRIVES = "Every event that a subscriber asked for arrives, and ends as it was"
MATCHES = "Nothing arrives that was not asked for"
ONCE = "No version of an event arrives twice"


@dataclass(frozen=True, slots=True)
class Difference:
    """Something that a subscriber should have got and did not, or the other way round."""

    promise: str
    """Which of the three is broken."""

    subscriber: Subscriber
    story: int | None
    event: str
    why: str


@dataclass(frozen=True)
class Verdict:
    """What was found."""

    due: int
    """Pairs of a subscriber and an event that it must have heard of."""

    deliveries: int
    versions: int
    """Different ones, of all events."""

    withdrawn: int
    differences: tuple[Difference, ...] = field(default=())

    @property
    def checks(self) -> tuple[Check, ...]:
        """The three promises."""
        counts = dict.fromkeys((ARRIVES, MATCHES, ONCE), 0)
        for one in self.differences:
            counts[one.promise] += 1
        return (
            Check(ARRIVES, f"{self.due - counts[ARRIVES]:,} of {self.due:,}", not counts[ARRIVES]),
            Check(MATCHES, f"{counts[MATCHES]:,} of {self.deliveries:,} deliveries", not counts[MATCHES]),
            Check(ONCE, f"{counts[ONCE]:,} of {self.deliveries:,} deliveries", not counts[ONCE]),
        )


def due(city: City) -> dict[int, dict[int, Fields]]:
    """For each subscriber the stories that it must hear of, and what they end as."""
    judge = _Judge()
    by_topic: dict[str, list[tuple[int, Fields]]] = defaultdict(list)
    for truth in city.truths.values():
        by_topic[truth.topic].append((truth.story, truth.fields))
    return {
        one.client: {
            story: fields
            for topic, stories in by_topic.items()
            if names.match(one.topic_filter, topic)
            for story, fields in stories
            if judge.asked(one, topic, fields)
        }
        for one in city.subscribers
    }


def check(city: City, delivered: Sequence[Delivered]) -> Verdict:
    """Judge everything that every subscriber got, in the order in which it came."""
    wanted = due(city)
    got: dict[int, list[Delivered]] = defaultdict(list)
    for one in delivered:
        got[one.subscriber].append(one)
    judge = _Judge()
    told = _told(delivered)
    found: list[Difference] = []
    for subscriber in city.subscribers:
        mine = got[subscriber.client]
        found += _wrong(city, judge, told, subscriber, mine)
        found += _again(subscriber, mine)
        found += _endings(subscriber, mine, wanted[subscriber.client])
    return Verdict(
        due=sum(map(len, wanted.values())),
        deliveries=len(delivered),
        versions=len({(one.event, one.version) for one in delivered}),
        withdrawn=sum(one.state == WITHDRAWN for one in delivered),
        differences=tuple(found),
    )


class _Judge:
    """Whether a subscriber asked for something. Filters look at few fields: most was judged before."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], bool] = {}

    def asked(self, subscriber: Subscriber, topic: str, fields: Fields) -> bool:
        if not names.match(subscriber.topic_filter, topic):
            return False
        if subscriber.filter is None:
            return True
        seen = (subscriber.where, *(fields.get(path[0]) for path in subscriber.filter.paths))
        if seen not in self._known:
            self._known[seen] = subscriber.filter.matches(fields)
        return self._known[seen]


def _told(delivered: Sequence[Delivered]) -> dict[tuple[str, int], Fields]:
    """What each version of each event says, as it first came to anybody."""
    found: dict[tuple[str, int], Fields] = {}
    for one in delivered:
        if one.state != WITHDRAWN:
            found.setdefault((one.event, one.version), one.fields)
    return found


def _wrong(
    city: City,
    judge: _Judge,
    told: Mapping[tuple[str, int], Fields],
    subscriber: Subscriber,
    mine: Sequence[Delivered],
) -> Iterator[Difference]:
    """What should not have come: not asked for, not reported, or not what others were told."""

    def different(one: Delivered, why: str) -> Difference:
        return Difference(MATCHES, subscriber, one.story, one.event, f"version {one.version} {why}")

    held: set[str] = set()
    for one in mine:
        if one.state == WITHDRAWN:
            if one.event not in held:
                yield different(one, "was withdrawn, and nothing had been told before")
            held.discard(one.event)
            continue
        held.add(one.event)
        if not judge.asked(subscriber, one.topic, one.fields):
            yield different(one, "does not match the filter")
        elif (strange := _unreported(city, one)) is not None:
            yield different(one, f"says {strange}, which nobody reported")
        elif one.fields != told[one.event, one.version]:
            yield different(one, "says something else than the same version did elsewhere")


def _unreported(city: City, one: Delivered) -> str | None:
    """A field of a told event that none of its reports says so; None if there is none."""
    reports = city.reports_of.get(one.story, ()) if one.story is not None else ()
    for name, value in one.fields.items():
        if not any(report.fields.get(name) == value for report in reports):
            return f"{name} = {value}"
    return None


def _again(subscriber: Subscriber, mine: Sequence[Delivered]) -> Iterator[Difference]:
    """Versions that came twice, and stories that came as two events."""
    seen: set[tuple[str, int]] = set()
    events: dict[int, str] = {}
    for one in mine:
        if (one.event, one.version) in seen:
            yield Difference(ONCE, subscriber, one.story, one.event, f"version {one.version} came again")
        seen.add((one.event, one.version))
        if one.story is not None and events.setdefault(one.story, one.event) != one.event:
            why = f"it came as {events[one.story]} and again as {one.event}"
            yield Difference(ONCE, subscriber, one.story, one.event, why)


def _endings(
    subscriber: Subscriber, mine: Sequence[Delivered], wanted: Mapping[int, Fields]
) -> Iterator[Difference]:
    """Events that did not end as they should have: with the truth, or withdrawn."""
    last = {one.story: one for one in mine if one.story is not None}
    for story, fields in wanted.items():
        ended = last.get(story)
        if ended is None:
            yield Difference(ARRIVES, subscriber, story, "", "nothing of it came")
        elif ended.state == WITHDRAWN:
            yield Difference(
                ARRIVES, subscriber, story, ended.event, "the last of it was that it is withdrawn"
            )
        elif ended.fields != fields:
            why = f"version {ended.version}, the last that came, says something else"
            yield Difference(ARRIVES, subscriber, story, ended.event, why)
    for story, ended in last.items():
        if story not in wanted and ended.state != WITHDRAWN:
            why = f"it ended as something else, and version {ended.version} was never withdrawn"
            yield Difference(MATCHES, subscriber, story, ended.event, why)


def explained(city: City, difference: Difference, delivered: Sequence[Delivered]) -> list[str]:
    """A difference in full: what was asked for, the truth, the reports, and what the subscriber got."""

    def told(fields: Mapping[str, int]) -> str:
        return ", ".join(f"{name} {value}" for name, value in city.shown(fields)) or "nothing"

    one = difference.subscriber
    truth = city.truths.get(difference.story) if difference.story is not None else None
    lines = [
        f"{difference.promise}: not so. To {one.session} at {one.broker}: {difference.why}.",
        f"asked for   {one.topic_filter} where {one.where or 'anything'}",
        f"event       {difference.event or '(none)'}, story {difference.story}",
        f"truth       {told(truth.fields) if truth else 'nothing of this story happened'}",
    ]
    reports = city.reports_of.get(difference.story, ()) if difference.story is not None else ()
    lines += [
        f"reported    {report.due_s:8.2f} s at {report.broker}: {told(report.fields)}" for report in reports
    ]
    mine = [
        came
        for came in delivered
        if came.subscriber == one.client
        and (came.event == difference.event or came.story == difference.story)
    ]
    lines += [
        f"got         {came.at_s:8.2f} s version {came.version}, {came.state}: {told(came.fields)}"
        for came in mine
    ]
    return lines if mine else [*lines, "got         nothing"]
