"""What an overlay of peers promises, judged from outside: checkers that know the promises and nothing else.

They read photographs of all links, and the ledger of events. While things go wrong, a peer cannot know at
once that something above it is gone; what it is then excused of is said at each promise. Once all has been
quiet for a while, nothing is excused. An empty list means that all promises were kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from math import inf

from tidings.sim.brokers.promises import BREACHES_MAX, Breach
from tidings.sim.peers.trace import Missed, Photo, Seen, Stray, Tally


def cycles(photo: Photo) -> list[Breach]:
    """Nobody is below itself: events go round nowhere."""
    done: set[str] = set()
    for start in photo:
        if start in done:
            continue
        way: dict[str, None] = {}
        stack: list[tuple[str, bool]] = [(start, True)]
        while stack:
            name, entering = stack.pop()
            if not entering:
                del way[name]
                done.add(name)
                continue
            if name in way:
                ring = list(way)[list(way).index(name) :]
                return [Breach("no cycle", " -> ".join((*ring, name)))]
            if name in done or name not in photo:
                continue
            way[name] = None
            stack.append((name, False))
            stack += [(child, True) for child in sorted(photo[name].children)]
    return []


def bounds(photo: Photo, anew: float = inf) -> list[Breach]:
    """Every link goes from a tighter bound to a looser one, whichever end one asks.

    A link is excused that only one end knows of if the other has subscribed to something else after `anew`:
    it is a link of the subscription before, and word of its end takes time.
    """
    return [
        Breach(
            "bounds ordered", f"{above} ({photo[above].bound:g}) is above {below} ({photo[below].bound:g})"
        )
        for above, below in _links(photo)
        if not photo[above].bound < photo[below].bound
        and not (_one_sided(photo, above, below) and max(photo[above].since, photo[below].since) > anew)
    ][:BREACHES_MAX]


def degrees(photo: Photo) -> list[Breach]:
    """Nobody has more children than it may have."""
    return [
        Breach("out-degree", f"{name} has {seen.degree} children and may have {seen.degree_max}")
        for name, seen in photo.items()
        if seen.degree > seen.degree_max
    ][:BREACHES_MAX]


def links(photo: Photo, anew: float = inf) -> list[Breach]:
    """All that must hold of links at any time."""
    return [*cycles(photo), *bounds(photo, anew), *degrees(photo)]


def agreement(photos: Sequence[Photo]) -> list[Breach]:
    """Both ends of a link know of it, in one of some successive photographs at least."""
    first = photos[0]
    found = []
    for above, below in _links(first):
        if all(_one_sided(photo, above, below) for photo in photos):
            knower = above if below in photos[-1][above].children else below
            text = f"only {knower} knows of a link from {above} to {below}, in {len(photos)} photographs"
            found.append(Breach("both ends", text))
    return found[:BREACHES_MAX]


def arrivals(missed: Iterable[Missed], before: Photo, after: Photo, *, quiet: bool) -> list[Breach]:
    """Who says that it gets all of its events in time does.

    Judged are peers that said so before and after the event. Unless all is quiet they are excused if a way
    from a publisher down to them was not whole, or was another, before or after: news of that takes time.
    """
    found = []
    for one in missed:
        was, then = before.get(one.peer), after.get(one.peer)
        if was is None or then is None or not (was.fed and then.fed) or was.since != then.since:
            continue
        if not quiet:
            way = ways(before, one.peer)
            if way is None or way != ways(after, one.peer):
                continue
        came = "never came" if one.delay is None else f"came late ({one.delay:g})"
        found.append(
            Breach(
                "in time",
                f"event {one.event} ({one.dz}) of {one.at:.3f} s {came} to {one.peer}, bound {was.bound:g}",
            )
        )
    return found[:BREACHES_MAX]


def told(missed: Iterable[Missed], lately: Sequence[Photo]) -> list[Breach]:
    """In quiet, whoever does not get its events has told its user so, and why."""
    found: dict[str, Breach] = {}
    for one in missed:
        seen = [photo[one.peer] for photo in lately if one.peer in photo]
        if len(seen) == len(lately) and not any(peer.fed or peer.reported for peer in seen):
            text = f"{one.peer} did not get event {one.event} ({one.dz}) and has reported nothing"
            found.setdefault(one.peer, Breach("told", text))
    return list(found.values())[:BREACHES_MAX]


def once(twice: Iterable[tuple[int, str]]) -> list[Breach]:
    """A user is given an event once."""
    return [Breach("once", f"{peer} gave event {event} to its user again") for event, peer in twice][
        :BREACHES_MAX
    ]


def repeats(tallies: Mapping[str, Tally]) -> list[Breach]:
    """In quiet, not even a peer gets an event twice."""
    return [
        Breach("once", f"{name} got {tally.repeats} events again, in quiet")
        for name, tally in tallies.items()
        if tally.repeats
    ][:BREACHES_MAX]


def boxes(strays: Iterable[Stray], lately: Sequence[Photo]) -> list[Breach]:
    """Nothing comes that lies outside what a peer holds, or held in one of the photographs of late."""
    found = []
    for one in strays:
        if not one.known:
            found.append(
                Breach("made up", f"{one.sender} sent event {one.event} to {one.peer} and never had it")
            )
        elif not any(one.peer in photo and one.dz.startswith(photo[one.peer].held) for photo in lately):
            found.append(
                Breach("boxes", f"event {one.event} ({one.dz}) came to {one.peer} from {one.sender}")
            )
    return found[:BREACHES_MAX]


def budgets(
    windows: Sequence[tuple[int, Mapping[str, Tally]]], allowed: Mapping[str, float], slack: float
) -> list[Breach]:
    """Whoever gets more than it allowed in one window of measurement has put that right by the next.

    `windows` are events published, and what came of them, in successive windows; `slack` is the share by
    which a measurement may be wrong.
    """
    found = []
    for name, share in allowed.items():
        wastes = [
            tallies[name].extra / published for published, tallies in windows if published and name in tallies
        ]
        if len(wastes) == len(windows):
            found += [
                Breach(
                    "budget", f"{name} allowed {share:.2%} and got {one:.2%}, then {other:.2%}, unasked for"
                )
                for one, other in pairwise(wastes)
                if min(one, other) > share + slack
            ][:1]
    return found[:BREACHES_MAX]


def bandwidths(
    windows: Sequence[tuple[float, Mapping[str, Tally]]], limit: float, slack: float, lately: Sequence[Photo]
) -> list[Breach]:
    """Whoever gets more than its access link allows, all told, has put that right by the next window.

    `windows` are seconds, and what came in them; `limit` is events a second, and `slack` the events in a
    second by which a measurement may be wrong. Who asks for no more than its user wants can do nothing.
    """
    found = []
    first, *others = (set(tallies) for _, tallies in windows)
    for name in sorted(first.intersection(*others)):
        if any(name not in photo or photo[name].held == photo[name].wanted for photo in lately):
            continue
        got = [tallies[name].came / seconds for seconds, tallies in windows]
        if min(got) > limit + slack:
            rates = ", then ".join(f"{one:g}" for one in got)
            found.append(Breach("bandwidth", f"{name} may get {limit:g} events a second and got {rates}"))
    return found[:BREACHES_MAX]


def stillness(photos: Sequence[Photo]) -> list[Breach]:
    """After quiet the overlay stops changing: parents and what is held are the same in all photographs.

    A child that does not know of the link is none: it has asked to find out how long a link takes, and does
    not want it. How long that may last is judged by `agreement`.
    """
    first = photos[0]
    for later, photo in enumerate(photos[1:], 1):
        found = [
            Breach("stillness", f"{name} {what} {later} cycles later")
            for name in sorted({*first, *photo})
            if (what := _changed(first.get(name), photo.get(name)))
        ]
        if found:
            return found[:BREACHES_MAX]
    return []


def _changed(was: Seen | None, now: Seen | None) -> str:
    """What is other than it was."""
    if was is None or now is None:
        return "is new," if was is None else "is no longer there,"
    same = {"boxes": was.held == now.held, "parents": was.parents == now.parents}
    changed = [what for what, kept in same.items() if not kept]
    return f"has other {' and '.join(changed)}" if changed else ""


def ways(photo: Photo, name: str) -> frozenset[tuple[str, str]] | None:
    """The links above a peer, up to publishers; None if one of them is not there at both ends."""
    found: set[tuple[str, str]] = set()
    waiting = [name]
    for below in waiting:
        seen = photo.get(below)
        if seen is None:
            return None
        if seen.publishes:
            continue
        if not seen.parents:
            return None
        for above in sorted(seen.parents):
            if (above, below) in found:
                continue
            there = photo.get(above)
            if there is None or below not in there.children:
                return None
            found.add((above, below))
            waiting.append(above)
    return frozenset(found)


def _links(photo: Photo) -> list[tuple[str, str]]:
    """From above to below, as either end has it; peers that are gone are left out."""
    found: dict[tuple[str, str], None] = {}
    for name, seen in photo.items():
        for child in sorted(seen.children):
            if child in photo:
                found[name, child] = None
        for parent in sorted(seen.parents):
            if parent in photo:
                found[parent, name] = None
    return list(found)


def _one_sided(photo: Photo, above: str, below: str) -> bool:
    if above not in photo or below not in photo:
        return False
    return (below in photo[above].children) is not (above in photo[below].parents)
