"""Whom a peer knows: views kept by gossip.

An epidemic protocol of peer sampling: every cycle a peer sends one that it knows a part of its view, with the
newest word of itself, and is sent a part of the other's, which takes the places of those it has sent. So
nobody is driven out by those who are known to more. A profile has a version and an age; the newer replaces
the older, one that grows too old is forgotten, so that the dead fade.

As in the paper the protocol is modified to keep those that matter. One half of a view is a sample of all
peers, and what is told on; the other half is for possible parents, and only another one takes the place of
one. Publishers are kept apart, all of them, since all that are relevant are needed. What the view is used for
is not known here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from tidings.peers.cells import is_set
from tidings.peers.messages import Profile
from tidings.peers.settings import PeerSettings
from tidings.space.expressions import Set, covers, volume

RATE_MAX = 1e9
"""Events a second in one expression that are believed: more than any overlay carries. Without a limit one
publisher could make all others look like nothing."""

PARTS_MAX = 16
"""Parts that a seeker lacks of which is looked who gets them: it may say that it lacks hundreds."""


class View:
    """Of one peer."""

    def __init__(self, me: str, settings: PeerSettings, random: random.Random) -> None:
        self.profiles: dict[str, Profile] = {}
        """By peer, as relays."""
        self.roots: dict[str, Profile] = {}
        """By peer, as publishers; never its own."""
        self.passing: dict[str, Profile] = {}
        """Relays heard of in this cycle that are `ready`: a small view may have lost them by its end."""
        self.refused = 0
        """Profiles that cannot be what they say."""
        self._me = me
        self._settings = settings
        self._random = random
        self._open: list[str] = []
        """Those in `profiles` that are a sample of all."""
        self._open_max = (settings.view + 1) // 2
        self._kept: list[str] = []
        """The others: possible parents, and anybody while there are not so many."""
        self._kept_max = settings.view - self._open_max
        self._met: dict[str, None] = {}
        """Those that were partners lately, if somebody is looked for who is `ready`."""
        self._heard: dict[str, int] = {}
        """Those that were heard of meanwhile, kept or not, and were no partners: when. The latest last."""
        self._born: dict[str, int] = {}
        """The cycle of this peer in which a relay said what is known of it."""
        self._roots_born: dict[str, int] = {}
        self._gone: dict[tuple[str, bool], int] = {}
        """By standing: the last version that is not believed any more."""
        self._dz: Set = ()
        self._bound = 0.0
        self._ready = False
        self._cycle = 0
        self._checked = 0

    def prefer(self, dz: Set, bound: float, *, ready: bool = False) -> None:
        """Keep those that could be a parent for this; `ready`: that get a part of it now and have room."""
        self._dz, self._bound, self._ready = dz, bound, ready

    def end_search(self) -> None:
        """Nobody is looked for any more who is `ready`."""
        self._ready = False
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
        self, profiles: Sequence[Profile], ages: Sequence[int], cycle: int, told: Iterable[str] = ()
    ) -> bool:
        """Take what another has said, if it is newer. Those that it was `told` of make room first.

        Whether somebody publishes who did not before, or more, or who has started anew.
        """
        held, stale_after = self.profiles, self._settings.stale_after
        spare = list(told)
        arrived = False
        for profile, age in zip(profiles, ages, strict=True):
            if profile.root:
                arrived |= self._learn_root(profile, age, cycle)
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
            if known is None:
                if self._ready:
                    self._hear(peer, cycle - age)
                if not self._place(profile, spare):
                    continue
            held[peer] = profile
            self._born[peer] = cycle - age
            if self._ready and len(self.passing) < self._settings.view and self._matters(profile):
                self.passing[peer] = profile
        return arrived

    def _hear(self, peer: str, born: int) -> None:
        """Somebody is there to go to."""
        heard = self._heard
        if peer not in self._met:
            heard.pop(peer, None)
            heard[peer] = born
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

    def _learn_root(self, profile: Profile, age: int, cycle: int) -> bool:
        """Whether it publishes what it did not before, as far as is known, or in another life."""
        peer = profile.peer
        known = self.roots.get(peer)
        if known is None:
            if peer == self._me or profile.version <= self._gone.get((peer, True), -1) or not profile.dz:
                return False
            if len(self.roots) >= self._settings.publishers_max:
                return False
        elif profile.version <= known.version:
            return False
        if not 0 <= age < self._settings.stale_after:
            return False
        if not self.sound(profile):
            self.refused += 1
            return False
        if not profile.dz:
            self.forget(peer, root=True)
            return False
        self.roots[peer] = profile
        self._roots_born[peer] = cycle - age
        return known is None or known.life != profile.life or not covers(known.dz, profile.dz)

    def _place(self, profile: Profile, spare: list[str]) -> bool:
        """Make room for a peer that is new here; whether there is some."""
        open_, kept, peer = self._open, self._kept, profile.peer
        if self._kept_max and self._matters(profile):
            if len(kept) < self._kept_max:
                kept.append(peer)
                return True
            at = int(self._random.random() * len(kept))
            other = kept[at]
            if not self._matters(self.profiles[other]):
                kept[at] = peer
                if len(open_) < self._open_max:
                    open_.append(other)
                else:
                    self._forget_profile(other)
                return True
        for places, most in ((open_, self._open_max), (kept, self._kept_max)):
            if len(places) < most:
                places.append(peer)
                return True
        if not open_:
            return False
        at = self._spared(spare)
        self._forget_profile(open_[at])
        open_[at] = peer
        return True

    def _spared(self, spare: list[str]) -> int:
        """The place of one that another was told of, else of anybody, in the sample."""
        while spare:
            one = spare.pop()
            if one in self.profiles and one in self._open:
                return self._open.index(one)
        return int(self._random.random() * len(self._open))

    def _forget_profile(self, peer: str) -> None:
        del self.profiles[peer], self._born[peer]

    def _remove(self, peer: str) -> None:
        self._forget_profile(peer)
        (self._open if peer in self._open else self._kept).remove(peer)

    # Forgetting.

    def forget(self, peer: str, root: bool = False, life: int | None = None) -> None:
        """A peer does not answer: believe only what it says after what is known of it.

        If it has started anew since the `life` in which it was asked, it is there.
        """
        known = (self.roots if root else self.profiles).get(peer)
        if not root:
            self._heard.pop(peer, None)
        if known is None or (life is not None and known.life > life):
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

    def age(self, cycle: int) -> bool:
        """Look at some of what is known, all within ten cycles; whether a publisher was forgotten."""
        self._cycle = cycle
        oldest = cycle - self._settings.stale_after
        names = self._open + self._kept
        for _ in range(min(len(names), self._settings.view // 10 + 1)):
            self._checked = (self._checked + 1) % len(names)
            peer = names[self._checked]
            if peer in self.profiles and self._born[peer] <= oldest:
                self._remove(peer)
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
        names = self._open + self._kept
        if not self._ready:
            return names[int(self._random.random() * len(names))] if names else None
        unmet = [peer for peer in names if peer not in self._met]
        found = self._last_heard() if not unmet or self._random.random() < 0.5 else None
        if found is None and not unmet:
            self._met.clear()
            unmet = names
        if found is None:
            if not unmet:
                return None
            found = unmet[int(self._random.random() * len(unmet))]
            self._heard.pop(found, None)
        self._met[found] = None
        if len(self._met) > self._settings.remembered:
            del self._met[next(iter(self._met))]
        return found

    def _last_heard(self) -> str | None:
        """The latest that was heard of, if that is not too long ago."""
        while self._heard:
            peer, born = self._heard.popitem()
            if born > self._cycle - self._settings.stale_after:
                return peer
        return None

    def some(self, count: int, without: Iterable[str]) -> list[str]:
        """So many at most that are known, but for those who need not be told."""
        left_out = set(without)
        names = [peer for peer in self._open + self._kept if peer not in left_out]
        return self._random.sample(names, min(count, len(names)))

    def sample(
        self, mine: Sequence[Profile], cycle: int, seeker: Profile | None = None
    ) -> tuple[tuple[Profile, ...], tuple[int, ...]]:
        """What to tell: the peer's own profiles, all publishers, and some relays, with their ages.

        A seeker is told first of those that it looks for: they are half of the relays at most, unless the
        sample happens to have more. As long as the view has room for all it is all a sample.
        """
        count = self._settings.shuffled()
        told = self._open if len(self._kept) == self._kept_max else self._open + self._kept
        if len(told) > count:
            # Places are taken at random: those that follow each other are a sample.
            start = int(self._random.random() * len(told))
            told = (told[start:] + told[:start])[:count]
        if seeker is not None:
            found = self._serving(seeker)
            most = (count + 1) // 2
            if len(found) > most:
                found = self._random.sample(found, most)
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

    def _serving(self, seeker: Profile) -> list[str]:
        """Those that could be the parent that another one looks for."""
        bound = seeker.bound
        limit = bound - 1.0 if self._settings.metric == "hops" else math.nextafter(bound, 0.0)
        fed = seeker.fed
        lacking = (one for one in seeker.dz if not one.startswith(fed))
        missing = list(islice(lacking, PARTS_MAX))
        profiles = self.profiles
        return [
            peer
            for peer in self._open + self._kept
            if profiles[peer].bound <= limit and _takes(profiles[peer], missing)
        ]

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
