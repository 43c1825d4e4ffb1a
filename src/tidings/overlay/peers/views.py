"""Whom a peer knows: views kept by gossip.

An epidemic protocol of peer sampling: every cycle a peer sends one that it knows a part of its view, with the
newest word of itself, and is sent a part of the other's. A profile has a version and an age; the newer
replaces the older, one that grows too old is forgotten, so that the dead fade.

As in the paper the protocol is modified to keep those that matter. One half of a view is a sample of all
peers; the other half is for possible parents, and only another one takes the place of one. Publishers are
kept apart, all of them, since all that are relevant are needed. What the view is used for is not known here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence

from tidings.overlay.peers.cells import is_set
from tidings.overlay.peers.messages import Profile
from tidings.overlay.peers.settings import PeerSettings
from tidings.space.expressions import Set, volume

RATE_MAX = 1e9
"""Events a second in one expression that are believed: more than any overlay carries. Without a limit one
publisher could make all others look like nothing."""


class View:
    """Of one peer."""

    def __init__(self, me: str, settings: PeerSettings, random: random.Random) -> None:
        self.profiles: dict[str, Profile] = {}
        """By peer, as relays."""
        self.roots: dict[str, Profile] = {}
        """By peer, as publishers; never its own."""
        self.passing: dict[str, Profile] = {}
        """Relays heard of in this cycle that are `ready`: a small view may have lost them by its end."""
        self.arrived = False
        """Whether somebody publishes, since this was last looked at, who did not, or in an earlier life."""
        self.refused = 0
        """Profiles that cannot be what they say."""
        self._me = me
        self._settings = settings
        self._random = random
        self._names: list[str] = []
        """Those in `profiles`; the first half of the places is open to all."""
        self._met: dict[str, None] = {}
        """Those that were partners lately, if somebody is looked for who is `ready`."""
        self._heard: dict[str, None] = {}
        """Those that were heard of meanwhile, in the view or not, and were no partners; the latest last."""
        self._born: dict[str, int] = {}
        """The cycle of this peer in which a relay said what is known of it."""
        self._roots_born: dict[str, int] = {}
        self._gone: dict[tuple[str, bool], int] = {}
        """By standing: the last version that is not believed any more."""
        self._given: list[str] = []
        """Those that whoever is being listened to was told of."""
        self._dz: Set = ()
        self._bound = 0.0
        self._ready = False
        self._checked = 0

    def prefer(self, dz: Set, bound: float, *, ready: bool = False) -> None:
        """Keep those that could be a parent for this; `ready`: that get a part of it now and have room."""
        self._dz, self._bound, self._ready = dz, bound, ready
        if not ready:
            self._met.clear()
            self._heard.clear()

    def _matters(self, profile: Profile) -> bool:
        if profile.bound >= self._bound:
            return False
        if self._ready:
            return _takes(profile, self._dz)
        theirs = profile.dz
        return any(one.startswith(theirs) for one in self._dz)

    # Learning.

    def learn(
        self, profiles: Sequence[Profile], ages: Sequence[int], cycle: int, given: Sequence[str] = ()
    ) -> None:
        """Take what another has said, if it is newer.

        Those `given` are known to the other in turn: they make room first.
        """
        self._given = [peer for peer in given if peer in self.profiles]
        held, stale_after = self.profiles, self._settings.stale_after
        for profile, age in zip(profiles, ages, strict=True):
            if profile.root:
                self._learn_root(profile, age, cycle)
                continue
            peer = profile.peer
            known = held.get(peer)
            if known is not None:
                if profile.version <= known.version:
                    continue
            elif peer == self._me or profile.version <= self._gone.get((peer, False), -1):
                continue
            if not 0 <= age < stale_after:
                continue
            if not self.sound(profile):
                self.refused += 1
                continue
            if self._ready and known is None:
                self._hear(peer)
            if known is None and not self._place(profile):
                continue
            held[peer] = profile
            self._born[peer] = cycle - age
            if self._ready and len(self.passing) < self._settings.view and self._matters(profile):
                self.passing[peer] = profile

    def _hear(self, peer: str) -> None:
        """Somebody is there to go to."""
        heard = self._heard
        if peer not in self._met:
            heard.pop(peer, None)
            heard[peer] = None
            if len(heard) > self._settings.remembered:
                del heard[next(iter(heard))]

    def sound(self, profile: Profile) -> bool:
        """Whether a profile can be what it says."""
        limit = self._settings
        dz, fed, rates = profile.dz, profile.fed, profile.rates
        return (
            0 < len(profile.peer) <= limit.name_max
            and profile.version >= 0
            and 0.0 <= profile.bound < math.inf
            and (profile.bound > 0.0) is not profile.root
            and 0.0 <= profile.delay < math.inf
            and 0.0 <= profile.floor <= 1.0
            and is_set(dz, limit.dz_max, limit.dz_depth_max)
            and (fed == dz or fed == () or is_set(fed, 2 * limit.dz_max, limit.dz_depth_max))
            and (not rates or (len(rates) == len(dz) and all(0.0 <= rate <= RATE_MAX for rate in rates)))
        )

    def _learn_root(self, profile: Profile, age: int, cycle: int) -> None:
        peer = profile.peer
        known = self.roots.get(peer)
        if known is None:
            if peer == self._me or profile.version <= self._gone.get((peer, True), -1) or not profile.dz:
                return
            if len(self.roots) >= self._settings.publishers_max:
                return
        elif profile.version <= known.version:
            return
        if not 0 <= age < self._settings.stale_after:
            return
        if not self.sound(profile):
            self.refused += 1
        elif not profile.dz:
            self.forget(peer, root=True)
        else:
            self.arrived |= known is None or known.life != profile.life
            self.roots[peer] = profile
            self._roots_born[peer] = cycle - age

    def _place(self, profile: Profile) -> bool:
        """Make room for a peer that is new here; whether there is some."""
        names, size = self._names, self._settings.view
        if len(names) < size:
            names.append(profile.peer)
            return True
        if size == 0:
            return False
        half = (size + 1) // 2
        at = -1
        if half < size and self._matters(profile):
            preferred = half + int(self._random.random() * (size - half))
            if not self._matters(self.profiles[names[preferred]]):
                at = preferred
        if at < 0:
            at = self._spare(half)
        self._remove(names[at])
        names[at] = profile.peer
        return True

    def _spare(self, half: int) -> int:
        """The place of one that was given away, else of anybody, among those that are open to all."""
        given, names = self._given, self._names
        while given:
            peer = given.pop()
            if peer in self.profiles:
                at = names.index(peer)
                if at < half:
                    return at
        return int(self._random.random() * half)

    def _remove(self, peer: str) -> None:
        del self.profiles[peer], self._born[peer]

    # Forgetting.

    def forget(self, peer: str, root: bool = False) -> None:
        """A peer does not answer: believe only what it says after what is known of it."""
        known = (self.roots if root else self.profiles).get(peer)
        if known is None:
            return
        key = (peer, root)
        self._gone.pop(key, None)
        self._gone[key] = known.version
        if len(self._gone) > self._settings.remembered:
            del self._gone[next(iter(self._gone))]
        if root:
            del self.roots[peer], self._roots_born[peer]
        else:
            self.passing.pop(peer, None)
            self._remove(peer)
            self._names.remove(peer)

    def age(self, cycle: int) -> bool:
        """Look at some of what is known, all within ten cycles; whether a publisher was forgotten."""
        oldest = cycle - self._settings.stale_after
        names = self._names
        for _ in range(min(len(names), self._settings.view // 10 + 1)):
            self._checked = (self._checked + 1) % len(names)
            peer = names[self._checked]
            if self._born[peer] <= oldest:
                self._remove(peer)
                last = names.pop()
                if last != peer:
                    names[self._checked] = last
                if not names:
                    break
                self._checked %= len(names)
        old = [peer for peer, born in self._roots_born.items() if born <= oldest]
        for peer in old:
            del self.roots[peer], self._roots_born[peer]
        return bool(old)

    # Telling.

    def partner(self) -> str | None:
        """Somebody to gossip with.

        Possible parents know each other, and small views that prefer them are alike. So who lacks something
        for long goes on to those whom it has not met yet, half of the time to the latest that it heard of,
        whether or not it has kept them: from one to the next it comes to everybody.
        """
        names = self._names
        if not self._ready:
            return names[int(self._random.random() * len(names))] if names else None
        found = ""
        if self._heard and self._random.random() < 0.5:
            found, _ = self._heard.popitem()
        elif names:
            unmet = [peer for peer in names if peer not in self._met]
            if not unmet and self._heard:
                found, _ = self._heard.popitem()
            else:
                if not unmet:
                    self._met.clear()
                    unmet = names
                found = unmet[int(self._random.random() * len(unmet))]
                self._heard.pop(found, None)
        if not found:
            return None
        self._met[found] = None
        if len(self._met) > self._settings.remembered:
            del self._met[next(iter(self._met))]
        return found

    def sample(
        self, mine: Sequence[Profile], cycle: int, seeker: Profile | None = None
    ) -> tuple[tuple[Profile, ...], tuple[int, ...]]:
        """What to tell: the peer's own profiles, all publishers, and some relays, with their ages.

        Half of these are such as a seeker looks for, if one is told and such are known.
        """
        count = self._settings.shuffled()
        told = self._names[: (self._settings.view + 1) // 2]
        if len(told) > count:
            # Places are taken at random: those that follow each other are a sample.
            start = int(self._random.random() * len(told))
            told = (told[start:] + told[:start])[:count]
        if seeker is not None:
            found = [peer for peer in self._names if _serves(self.profiles[peer], seeker)]
            if len(found) > count // 2:
                found = self._random.sample(found, count // 2)
            told = list(dict.fromkeys(found + told))[:count]
        profiles, born = self.profiles, self._born
        return (
            (*mine, *self.roots.values(), *[profiles[peer] for peer in told]),
            (
                *[0] * len(mine),
                *[cycle - at for at in self._roots_born.values()],
                *[cycle - born[peer] for peer in told],
            ),
        )

    def sought(self, profiles: Iterable[Profile], sender: str) -> Profile | None:
        """What a sender says of itself as a relay, if it says that it looks for somebody for long."""
        for profile in profiles:
            if profile.peer == sender and not profile.root:
                looks = not profile.hope and profile.fed != profile.dz
                return profile if looks and self.sound(profile) else None
        return None

    def relays(self) -> Iterable[Profile]:
        """Those that may be asked now."""
        return ({**self.passing, **self.profiles} if self.passing else self.profiles).values()

    def relevant(self, one: str) -> Iterator[Profile]:
        """The publishers that may publish in an expression."""
        for profile in self.roots.values():
            theirs = profile.dz
            if one.startswith(theirs) or any(other.startswith(one) for other in theirs):
                yield profile


def _takes(profile: Profile, missing: Iterable[str]) -> bool:
    """Whether a relay gets a part of what is missing, and has room for one who asks for that."""
    fed = profile.fed
    return volume([one for one in missing if one.startswith(fed)]) > profile.floor


def _serves(profile: Profile, seeker: Profile) -> bool:
    """Whether a relay could be the parent that another one looks for."""
    if profile.bound >= seeker.bound:
        return False
    return _takes(profile, (one for one in seeker.dz if not one.startswith(seeker.fed)))
