"""Who is to feed a peer: Algorithm 1 from the side of the child, lines 1-6 and 21-30.

Every cycle it looks what of its subscription has no parent, and asks the best that it knows for it. What it
knows of itself and of others is in `core` and `views`; what a parent answers is in `feeding`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import msgspec

from tidings.peers import upward
from tidings.peers.accuracy import Accuracy
from tidings.peers.cells import is_set
from tidings.peers.core import Core
from tidings.peers.messages import Accept, Alive, Connect, Evict, Feed, Leave, Profile, Refuse, Why
from tidings.peers.rates import SETTLED
from tidings.peers.upward import Parent
from tidings.space.expressions import Set, canonical, covers, difference, intersection, overlaps, volume

FAR = 64
"""Cycles for which a peer is not asked again whose link is too slow. Each time it may send somebody away for
nothing, and links seldom get faster."""

HINTS_MAX = 4
"""Hints that wait to be followed."""

SEARCH = 2
"""Windows without cover after which a peer that has been there for long goes on to those whom it does not
know. After ten, as we had it first, each such find set others off that took as long again."""

LINK_WEIGHT = 0.25
"""How much a new measurement of a link counts against the old ones, twice TCP's 1/8: there is one a cycle."""


class Asking:
    """A request that is not answered yet."""

    __slots__ = ("asked", "cycle", "life", "number", "sent")

    def __init__(self, number: int, asked: Set, cycle: int, sent: float, life: int) -> None:
        self.number = number
        self.asked = asked
        self.cycle = cycle
        self.sent = sent
        self.life = life
        """Of whom was asked, as far as was known."""


class Seeking:
    """The links up of one peer."""

    def __init__(self, core: Core, accuracy: Accuracy) -> None:
        self._core = core
        self._accuracy = accuracy
        self._asking: dict[tuple[str, bool], Asking] = {}
        """By standing: the request that it has not answered yet."""
        self._probing: dict[tuple[str, bool], int] = {}
        """By standing that would have to send somebody away: since which cycle its distance is waited for."""
        self._hints: list[Profile] = []
        self._rests: dict[tuple[str, bool], tuple[int, int]] = {}
        """By standing: until when it is not asked again, and how often it has said no."""
        self._since = 0
        """The cycle in which the subscription began, or in which it was last fed that was fed for long."""
        self._whole = 0
        """Cycles in which nothing was missing, up to now."""
        self._lacking = 0
        """Cycles without cover, since the subscription was made coarser."""
        self._hurried = 0
        """How often a hint was followed between two cycles."""
        self._told: tuple[object, ...] = ()
        """What parents were last told of this peer."""

    def begin(self) -> None:
        """Another subscription: what was learnt for the last one is of no use."""
        self._hints.clear()
        self._probing.clear()
        self._rests.clear()
        self._since = self._core.cycle
        self._core.view.end_search()
        self._lacking = self._whole = self._core.seeking = 0

    def part(self) -> None:
        """End all links up."""
        for parent in list(self._core.parents.values()):
            self.leave(parent)
        self._asking.clear()

    def lose(self, peer: str) -> None:
        """A peer is gone."""
        for root in (False, True):
            if (peer, root) in self._core.parents:
                self.drop(self._core.parents[peer, root])
            self._asking.pop((peer, root), None)

    def wait(self) -> None:
        """Give up on those who say nothing."""
        core = self._core
        answer_before = core.cycle - core.settings.answer_within
        for key in [key for key, asking in self._asking.items() if asking.cycle <= answer_before]:
            asking = self._asking.pop(key)
            core.view.forget(*key, asking.life)
            # Perhaps it said yes, and that was lost: a place is not to be kept for nobody, nor a link to end
            # because its parent goes by a request of which the child heard nothing.
            if key in core.parents:
                self._confirm(core.parents[key])
            else:
                core.send(key[0], Leave(key[1], asking.number))
        for key, since in list(self._probing.items()):
            if key[0] in core.links:
                del self._probing[key]
            elif since <= answer_before:
                del self._probing[key]
                core.view.forget(*key)
        silent_before = core.cycle - core.settings.silent_after
        for parent in [one for one in core.parents.values() if one.heard < silent_before]:
            core.view.forget(parent.peer, parent.root, parent.profile.life)
            self.drop(parent)
        for peer in [peer for peer, since in core.left.items() if since < silent_before]:
            del core.left[peer]

    def fit(self) -> None:
        """The subscription has become finer: parents are to send no more than that."""
        core = self._core
        for parent in list(core.parents.values()):
            self._narrow(parent, intersection(parent.asked, core.dz))

    def seek(self) -> None:
        """Look for parents for what is not covered; if there are none, ask for more (Algorithm 2, 1-3)."""
        core = self._core
        settings = core.settings
        self._hurried = 0
        if core.doubled:
            core.doubled = False
            self._once(doubled=True)
            core.settle()
        missing = self._missing()
        if not missing:
            if core.seeking > SEARCH * settings.window:
                core.view.prefer(core.dz, core.bound)
                core.view.end_search()
            self._lacking = core.seeking = 0
            self._whole += 1
            if self._whole >= SETTLED * settings.window:
                # Who loses its place after long looks for another one as a newcomer does.
                self._since = core.cycle
        else:
            self._whole = 0
            core.seeking += 1
            self._lacking += 1
            long = self._lacking > SETTLED * settings.window
            if self._lacking > settings.coarsen_after and self._accuracy.coarsen(missing, long=long):
                self._lacking = 0
                missing = self._missing()
            settled = core.cycle > SETTLED * settings.window
            if missing and settled and core.seeking > SEARCH * settings.window:
                # A small view that is full of those who cannot serve it keeps who could only by chance.
                core.view.prefer(tuple(missing), core.bound, ready=True)
        if missing:
            self._ask(missing)
        core.view.passing.clear()

    def _missing(self) -> list[str]:
        """What of the subscription no subscriber serves nor all relevant publishers do.

        A parent that gets it serves it; one that does not, as long as it has hope.
        """
        core = self._core
        known = core.settings.fed_known
        parts: Set = tuple(
            one
            for parent in core.parents.values()
            if not parent.root
            for one in parent.asked
            if parent.hope or not known or one.startswith(parent.fed)
        )
        if len(parts) > 1:
            parts = canonical(parts)
        missing = [one for one in core.dz if not one.startswith(parts)]
        if not missing:
            return missing
        rooted = tuple(core.rooted(parts))
        if not rooted:
            return missing
        have = canonical((*parts, *rooted))
        return [one for one in missing if not one.startswith(have)]

    def speak(self) -> None:
        """Tell parents that this peer is there, and what has changed in what they look at."""
        core = self._core
        profile = core.relay_profile()
        told: tuple[object, ...] = (profile.dz, profile.fed, profile.floor)
        news = profile if told != self._told else None
        self._told = told
        timed = core.settings.metric == "ms"
        for parent in core.parents.values():
            asked = None if parent.confirmed else parent.asked
            if timed:
                parent.sent.append(core.now)
            core.send(parent.peer, Alive(parent.root, parent.number, core.now, news, asked))

    def _ask(self, missing: list[str]) -> None:
        """Ask for what is missing and not asked for yet.

        The best parent known for one of the expressions is asked for all of them that it has, then the best
        for another of the rest, as far as requests go.
        """
        core = self._core
        asked_for = tuple(one for asking in self._asking.values() for one in asking.asked)
        missing = [one for one in missing if not one.startswith(asked_for)]
        if not missing:
            return
        later = []
        while missing and len(self._asking) + len(self._probing) < core.settings.requests:
            wanted = missing[core.cycle % len(missing)]
            found = self._best(wanted, missing)
            if found is None:
                missing.remove(wanted)
                continue
            if found.floor > 0.0 and core.settings.metric == "ms" and found.peer not in core.links:
                # It would send somebody away, perhaps for one whom it is too far from.
                self._probing[found.peer, found.root] = core.cycle
                core.gossip(found.peer)
                later.append(found)
                missing.remove(wanted)
                continue
            if found.root:
                asked = [one for one in missing if overlaps(found.dz, (one,))]
            else:
                # Of what it does not get yet only that for which there is nobody to wait for.
                waited = tuple(upward.served(core.parents.values())) if core.settings.fed_known else ()
                asked = [
                    one
                    for one in missing
                    if one.startswith(found.dz) and (one.startswith(found.fed) or not one.startswith(waited))
                ]
            missing = [one for one in missing if one not in asked]
            key = (found.peer, found.root)
            parent = core.parents.get(key)
            if parent is not None:
                asked += [one for one in parent.asked if one.startswith(core.dz)]
            number, dz = core.next_number(), canonical(asked)
            self._asking[key] = Asking(number, dz, core.cycle, core.now, found.life)
            self._connect(*key, number, dz)
        # What is of no use for what is missing now is old by the time that it might be.
        self._hints = later[:HINTS_MAX]

    def _connect(self, peer: str, root: bool, number: int, asked: Set) -> None:
        core = self._core
        core.counts.requests += 1
        core.send(peer, Connect(root, number, core.relay_profile(), asked, core.now))

    def _best(self, one: str, missing: Sequence[str]) -> Profile | None:
        """findBestParent: for this peer itself, for one of some expressions that are missing.

        Hints come first. Then, by what is known: who gets it and has room; who does not get it yet, unless
        such a parent is there already; publishers with room; and only then those that were full. Among equals
        the loosest: tight parents are needed by the tight.
        """
        core = self._core
        cycle, limit, fed_known = core.cycle, core.limit(), core.settings.fed_known
        rests, asking, links = self._rests, self._asking, core.links
        size, most = 0.5 ** len(one), volume(missing)
        waiting = any(not parent.root and one.startswith(parent.asked) for parent in core.parents.values())
        for hint in self._hints:
            parent = core.parents.get((hint.peer, hint.root))
            # What a parent says itself is newer than what another says of it.
            fed, hope = (hint.fed, hint.hope) if parent is None else (parent.fed, parent.hope)
            likely = not fed_known or one.startswith(fed) or (hope and not waiting)
            fits = hint.bound + links.get(hint.peer, 0.0) <= limit and one.startswith(hint.dz)
            if likely and fits and self._rested((hint.peer, hint.root)):
                self._hints.remove(hint)
                return hint

        def room(profile: Profile) -> bool:
            """Whether it is likely to take all that it would be asked for, which is worth more than one."""
            floor = profile.floor
            if size > floor:
                return True
            if most <= floor:
                return False
            theirs = profile.dz
            return volume([other for other in missing if other.startswith(theirs)]) > floor

        weary = self._weary()
        best: Profile | None = None
        best_rank: tuple[int, float, float, str] | None = None
        for profile in core.view.relays():
            if profile.bound > limit or not one.startswith(profile.dz):
                continue
            peer = profile.peer
            key = (peer, False)
            if key in asking or key in self._probing or (key in rests and rests[key][0] > cycle):
                continue
            if links and profile.bound + links.get(peer, 0.0) > limit:
                continue
            if not fed_known:
                tier = 0
            elif one.startswith(profile.fed):
                tier = 0 if room(profile) else 3
            elif waiting or not profile.hope:
                continue
            else:
                tier = 1 if room(profile) else 5
            parent = core.parents.get(key)
            if (parent is not None and one.startswith(parent.asked)) or (tier > 2 and weary):
                continue
            rank = (tier, -profile.bound, profile.delay, peer)
            if best_rank is None or rank < best_rank:
                best, best_rank = profile, rank
        if best_rank is not None and best_rank[0] < 2:
            return best
        coming = tuple(
            part
            for parent in core.parents.values()
            if not parent.root
            for part in parent.asked
            if part.startswith(parent.fed)
        )
        for profile in core.view.relevant(one):
            key = (profile.peer, True)
            if limit < links.get(profile.peer, 0.0) or not self._rested(key):
                continue
            parent = core.parents.get(key)
            if parent is not None and one.startswith(canonical(parent.asked + coming)):
                continue
            tier = 2 if not fed_known or room(profile) else 4
            if tier > 2 and weary:
                continue
            rank = (tier, 0.0, 0.0, profile.peer)
            if best_rank is None or rank < best_rank:
                best, best_rank = profile, rank
        return best

    def _rested(self, key: tuple[str, bool]) -> bool:
        """Whether somebody may be asked now."""
        return (
            key not in self._asking
            and key not in self._probing
            and self._rests.get(key, (0, 0))[0] <= self._core.cycle
        )

    def _weary(self) -> bool:
        """Whether this peer has looked for so long that it asks nobody any more who says that it is full.

        Each time another part may be asked for, and one or the other is sent away for it; those come back,
        and so on for ever. Whoever has room after all is asked as before: it says so.
        """
        core = self._core
        return core.cycle - self._since > SETTLED * core.settings.window

    def _rest(self, key: tuple[str, bool], far: bool = False) -> None:
        """Somebody has said no, or is too far away: ask others for a while."""
        core = self._core
        times = self._rests.pop(key, (0, 0))[1]
        pause = FAR if far else min(core.settings.retry_after << min(times, 16), core.settings.retry_max)
        self._rests[key] = (core.cycle + pause, times + 1)
        if len(self._rests) > core.settings.remembered:
            del self._rests[next(iter(self._rests))]

    def on_accept(self, sender: str, message: Accept) -> None:
        core = self._core
        profile = message.profile
        if profile.peer != sender or profile.root is not message.root or not core.view.sound(profile):
            core.counts.malformed += 1
            return
        key = (sender, message.root)
        known = core.parents.get(key)
        asking = self._asking.get(key)
        if asking is None or asking.number != message.number:
            if known is not None and known.number == message.number:
                known.heard = core.cycle
                known.confirmed = True
            else:
                # It comes too late; the place is not needed.
                core.send(sender, Leave(message.root, message.number))
            return
        del self._asking[key]
        self._rests.pop(key, None)
        link = core.measured(asking.sent)
        if core.settings.metric == "ms":
            core.near(sender, link)
        parent = Parent(message.number, profile, asking.asked, link, core.cycle)
        covered = message.root or not core.settings.cover_checked or covers(profile.dz, asking.asked)
        if not covered or not self._bears(parent):
            core.send(sender, Leave(message.root, message.number))
            self._rest(key, far=covered)
            if known is not None:
                self.drop(known)
                core.settle()
            return
        if known is None:
            core.changes += 1
        core.parents[key] = parent
        # The subscription may have become finer since it asked.
        self._narrow(parent, intersection(parent.asked, core.dz))
        self._once()
        core.settle()

    def _bears(self, parent: Parent) -> bool:
        """Whether events come through a parent within the bound, if they come to it within its own."""
        core = self._core
        if not core.settings.requester_compared:
            return True
        theirs = 0.0 if parent.root else parent.profile.bound
        return theirs < core.bound and theirs + parent.link <= core.bound

    def _once(self, doubled: bool = False) -> None:
        """Lines 23-30: nothing is to come twice, so what one parent sends no other has to.

        What comes goes before what does not come yet, where that is known; then the coarser part before the
        finer one, a subscriber before publishers. What does not come replaces nothing. But a parent that does
        not get all may get some: if events have come twice (`doubled`), of two subscribers that should send
        the same one has to go even so, and one that does not get it is not to send what others send,
        publishers among them even if there are more of these than are parents. Nor are these to send what a
        subscriber sends that gets it, though it is less than they were asked for.
        """
        core = self._core
        if len(core.parents) < 2:
            return
        complete = frozenset(core.rooted(()))
        parts = []
        for parent in core.parents.values():
            for one in parent.asked:
                if parent.root:
                    comes = one in complete
                else:
                    comes = not core.settings.fed_known or one.startswith(parent.fed)
                last = not comes and not parent.root
                parts.append((not comes, last, len(one), parent.root, parent.number, parent.peer, one))
        subscribers: Set = ()
        publishers: Set = ()
        hungry: Set = ()
        kept: dict[tuple[str, bool], list[str]] = {key: [] for key in core.parents}
        for missing, _, _, root, _, peer, one in sorted(parts):
            if one.startswith(subscribers) or (not root and one.startswith(publishers + hungry)):
                continue
            if missing and doubled:
                sent = subscribers if root else subscribers + publishers + hungry
                left = difference((one,), canonical(sent))
                kept[peer, root] += left
                hungry += left
                continue
            kept[peer, root].append(one)
            if not missing and root:
                publishers += (one,)
            elif not missing:
                subscribers += (one,)
        for key, asked in kept.items():
            parent = core.parents[key]
            if doubled and not parent.feeds and canonical(asked) != parent.asked:
                self._disbelieve(parent)
            self._narrow(parent, asked)

    def _disbelieve(self, parent: Parent) -> None:
        """A parent that does not get all sends what another sends, too: it is not to be asked again for that
        because of what was said of it before it was a parent.
        """
        view, peer = self._core.view, parent.peer
        view.learn((parent.profile,), (0,), self._core.cycle)
        if peer in view.profiles:
            view.profiles[peer] = msgspec.structs.replace(
                view.profiles[peer], fed=parent.fed, delay=parent.delay, hope=parent.hope
            )
        self._rest(parent.key)

    def _narrow(self, parent: Parent, kept: Iterable[str]) -> None:
        """A parent has to send less, or nothing."""
        asked = canonical(kept)
        if asked == parent.asked or parent.key not in self._core.parents:
            return
        if not asked:
            self.leave(parent)
            return
        # It replaces one that asked for more.
        self._asking.pop(parent.key, None)
        parent.asked = asked
        self._confirm(parent)

    def _confirm(self, parent: Parent) -> None:
        """Let a parent know what it has to send."""
        parent.confirmed = False
        parent.number = self._core.next_number()
        self._connect(parent.peer, parent.root, parent.number, parent.asked)

    def on_refuse(self, sender: str, message: Refuse) -> None:
        core = self._core
        key = (sender, message.root)
        asking = self._asking.get(key)
        known = core.parents.get(key)
        if asking is not None and asking.number == message.number:
            del self._asking[key]
        elif known is not None and known.number == message.number:
            self.drop(known)
        else:
            return
        self._rest(key)
        self._heed(sender, message)
        core.settle()
        self._hurry()

    def on_evict(self, sender: str, message: Evict) -> None:
        core = self._core
        key = (sender, message.root)
        asking = self._asking.get(key)
        known = core.parents.get(key)
        if known is not None and known.number == message.number:
            self.drop(known)
        elif asking is not None and asking.number == message.number:
            # It was taken and sent away at once, and this came first.
            del self._asking[key]
        else:
            return
        if message.why is not Why.STRANGER:
            self._rest(key)
        self._heed(sender, message)
        core.settle()
        self._hurry()

    def _hurry(self) -> None:
        """Follow a hint as soon as it comes: all below this peer wait for it meanwhile."""
        core = self._core
        if not core.settings.hints_at_once or not self._hints or self._hurried >= core.settings.requests:
            return
        missing = self._missing()
        if missing:
            self._hurried += 1
            self._ask(missing)

    def _heed(self, sender: str, message: Refuse | Evict) -> None:
        """A no says why, and perhaps who would say yes."""
        core = self._core
        view = core.view
        if message.why is Why.ROLE:
            # It was said to publish, or to subscribe, and knows nothing of it.
            view.forget(sender, message.root)
        elif message.why is Why.FULL and 0.0 <= message.floor <= 1.0:
            known = view.roots if message.root else view.profiles
            if sender in known:
                known[sender] = msgspec.structs.replace(known[sender], floor=message.floor)
        hint = message.hint
        if hint is None:
            return
        if not view.sound(hint) or hint.root:
            core.counts.malformed += 1
        elif hint.peer != core.name:
            view.learn((hint,), (1,), core.cycle)
            if len(self._hints) < HINTS_MAX:
                self._hints.append(hint)

    def on_feed(self, sender: str, message: Feed) -> None:
        core = self._core
        parent = core.parents.get((sender, message.root))
        if parent is None or parent.number != message.number:
            return
        limit = core.settings
        fed = message.fed
        if (
            not (fed is parent.fed or fed == parent.fed or is_set(fed, 2 * limit.dz_max, limit.dz_depth_max))
            or not 0.0 <= message.delay < math.inf
        ):
            core.counts.malformed += 1
            return
        echoed = message.sent if limit.metric == "ms" else None
        if echoed is not None and echoed not in parent.sent:
            # By what it did not get from here it would choose how near it is.
            core.counts.malformed += 1
            return
        parent.heard = core.cycle
        parent.confirmed = True
        if echoed is not None:
            parent.sent.remove(echoed)
            parent.link += LINK_WEIGHT * (core.measured(echoed) - parent.link)
            if not self._bears(parent):
                self._rest(parent.key, far=True)
                self.leave(parent)
                core.settle()
                return
        elif fed is parent.fed and message.delay == parent.delay and message.hope is parent.hope:
            return
        parent.fed, parent.delay, parent.hope = fed, message.delay, message.hope
        self._once()
        core.settle()

    def leave(self, parent: Parent) -> None:
        """DISCONNECT, to a parent."""
        core = self._core
        core.send(parent.peer, Leave(parent.root, parent.number))
        core.left[parent.peer] = core.cycle
        if len(core.left) > core.settings.remembered:
            del core.left[next(iter(core.left))]
        self.drop(parent)

    def drop(self, parent: Parent) -> None:
        core = self._core
        del core.parents[parent.key]
        core.changes += 1
