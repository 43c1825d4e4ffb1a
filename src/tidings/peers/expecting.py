"""What a peer tells its user: what may be expected, and what is not kept and why."""

from __future__ import annotations

import math

from tidings.peers import outlooks, upward
from tidings.peers.accuracy import Accuracy
from tidings.peers.cells import is_set
from tidings.peers.core import Core
from tidings.peers.events import Admit, Report
from tidings.peers.messages import Enquire, Foresee, Profile
from tidings.peers.outlooks import Cause, Outlook, Violation
from tidings.space.expressions import Set, canonical

ENQUIRIES_MAX = 6
"""How often a newcomer asks what it may expect; then it goes by what it knows itself."""


class Expecting:
    """The outlook of one peer, and of those who ask it."""

    def __init__(self, core: Core, accuracy: Accuracy) -> None:
        self._core = core
        self._accuracy = accuracy
        self._enquiry = -1
        """The number of the enquiry that is not answered yet."""
        self._contacts: tuple[str, ...] = ()
        """Who may be asked."""
        self._enquired: list[str] = []
        """Who was asked so far, the last one at the end."""
        self._best: Outlook | None = None
        """The best that those have foreseen who said no."""
        self._again_at = 0
        """The cycle in which another one is asked."""
        self._hungry = 0
        """Cycles in which something was not kept."""
        self._reported: Cause | None = None

    def begin(self) -> None:
        """Another subscription."""
        self._hungry = 0
        self._reported = None

    def enquire(self, contacts: tuple[str, ...]) -> None:
        """Ask one of some others what may be expected; the next one if that does not know, or is silent."""
        core = self._core
        self._enquiry = -1
        if not core.interest:
            return
        self._enquiry = core.next_number()
        self._contacts = contacts
        self._enquired = []
        self._best = None
        self._ask()

    def _ask(self) -> None:
        core = self._core
        count = len(self._enquired)
        if not self._contacts or count >= ENQUIRIES_MAX:
            outlook = self._best
            if core.satisfied:
                outlook = Outlook(True, 0.0, "")
            elif outlook is None:
                outlook, _ = self._foresee(core.name, core.interest, core.bound, core.allowed)
            self._admit(outlook)
            return
        contact = self._contacts[count % len(self._contacts)]
        self._enquired.append(contact)
        self._again_at = core.cycle + core.settings.answer_within
        core.send(contact, Enquire(self._enquiry, core.interest, core.bound, core.allowed))

    def _admit(self, outlook: Outlook) -> None:
        self._enquiry = -1
        self._core.out.append(Admit(outlook))

    def wait(self) -> None:
        """Ask another one, if that is due."""
        if self._enquiry >= 0 and self._core.cycle >= self._again_at:
            self._ask()

    def on_enquire(self, sender: str, message: Enquire) -> None:
        core = self._core
        limit = core.settings
        if (
            not is_set(message.dz, limit.dz_max, limit.dz_depth_max)
            or not 0.0 < message.bound < math.inf
            or not 0.0 <= message.allowed <= 1.0
        ):
            core.counts.malformed += 1
            return
        outlook, parent = self._foresee(sender, message.dz, message.bound, message.allowed)
        core.send(
            sender,
            Foresee(
                message.number,
                outlook.met,
                1.0 if outlook.waste is None else outlook.waste,
                parent,
                outlook.text,
                bool(core.view.roots or core.advertised),
            ),
        )

    def _foresee(self, peer: str, dz: Set, bound: float, allowed: float) -> tuple[Outlook, Profile | None]:
        """What somebody may expect by what is known here, and who would feed it."""
        core = self._core
        profiles = [one for one in core.view.profiles.values() if one.peer != peer]
        roots = dict(core.view.roots)
        if core.name != peer:
            if core.dz:
                profiles.append(core.relay_profile())
            if core.advertised:
                roots[core.name] = core.root_profile()
        outlook = outlooks.foresee(
            dz,
            bound - 1.0 if core.settings.metric == "hops" else math.nextafter(bound, 0.0),
            self._bound_text(bound),
            allowed,
            profiles,
            roots,
            lambda coarse: self._accuracy.waste_of(coarse, dz),
        )
        parents = (one for one in (*profiles, *roots.values()) if one.peer == outlook.parent)
        return outlook, next(parents, None)

    def on_foresee(self, sender: str, message: Foresee) -> None:
        core = self._core
        parent = message.parent
        if sender in self._enquired and message.number != self._enquiry:
            # Another one was quicker.
            return
        if (
            message.number != self._enquiry
            or sender not in self._enquired
            or not 0.0 <= message.waste <= 1.0
            or (parent is not None and not core.view.sound(parent))
        ):
            core.counts.malformed += 1
            return
        if not message.knows:
            # It has come only just now, perhaps: somebody else may know, or the same one later.
            self._again_at = core.cycle + 1
            return
        waste = message.waste if parent is not None else None
        if parent is not None and parent.peer != core.name:
            core.view.learn((parent,), (1,), core.cycle)
        outlook = Outlook(message.met, waste, "" if parent is None else parent.peer, message.text[:1000])
        best = self._best
        if outlook.met or best is None or _needs(outlook) < _needs(best):
            self._best = best = outlook
        if best.met or len(self._enquired) >= min(len(self._contacts), ENQUIRIES_MAX):
            self._admit(best)
        else:
            # It knows a few of all, and another one may know somebody who has room.
            self._ask()

    def violation(self) -> Violation | None:
        """What is asked for and not kept, and why."""
        core = self._core
        fed = core.fed
        unfed = tuple(one for one in core.interest if not one.startswith(fed))
        if not unfed:
            return self._exceeded()
        if not core.view.roots and not core.advertised:
            return Violation(Cause.PUBLISHER, unfed, outlooks.UNKNOWN)
        served = tuple(upward.served(core.parents.values()))
        unserved = tuple(one for one in unfed if not one.startswith(served))
        if unserved:
            return self._unserved(unserved)
        names = sorted(
            parent.peer
            for parent in core.parents.values()
            if not parent.root and unfed[0].startswith(parent.asked)
        )
        gets = "do not get it themselves" if len(names) > 1 else "does not get it itself"
        text = f"{', '.join(names[:3])}, which should feed {unfed[0] or 'the whole space'}, {gets}"
        return Violation(Cause.WAITING, unfed, text)

    def _exceeded(self) -> Violation | None:
        """Which limit is not kept where all comes."""
        core = self._core
        if core.delay > core.bound:
            late, bound = self._bound_text(core.delay), self._bound_text(core.bound)
            return Violation(Cause.LATE, core.interest, f"events come after {late}, the bound is {bound}")
        over = self._accuracy.over
        if over is None:
            return None
        if over is Cause.WASTE:
            share = outlooks.percent(core.waste or 0.0)
            text = f"{share} of all events come unwanted, {outlooks.percent(core.allowed)} are allowed"
        else:
            text = (
                f"{core.incoming.received_rate or 0.0:g} events a second come, "
                f"{core.received_max() or 0.0:g} may with {core.settings.out_degree} children"
            )
        return Violation(over, core.interest, text)

    def _unserved(self, unfed: Set) -> Violation:
        """Why some parts have no parent: by the one that is worst off."""
        core = self._core
        limit = core.limit()
        # Publishers that are parents already have room, whoever else they would take.
        roots = {
            peer: root for peer, root in core.view.roots.items() if (peer, True) not in core.parents
        } or core.view.roots
        wanted = outlooks.Wanted(unfed)
        found = [outlooks.best(one, wanted, limit, core.view.profiles.values(), roots) for one in unfed]
        coarse = [one.coarser for one in found if one.coarser is not None]
        waste: float | None = None
        if len(coarse) < len(unfed):
            # No waste would cover all that is missing.
            at = next(at for at, one in enumerate(found) if one.coarser is None)
        else:
            at = next((at for at, one in enumerate(found) if one.coarser != unfed[at]), 0)
            if found[at].coarser != unfed[at]:
                waste = self._accuracy.waste_of(canonical((*core.interest, *coarse)))
        if found[at].coarser == unfed[at]:
            cause = Cause.ASKING
        else:
            cause = Cause.ROOM if found[at].could else Cause.PARENT
        bound = self._bound_text(core.bound)
        text = outlooks.sentence(unfed[at], bound, found[at], waste, len(unfed) - 1)
        return Violation(cause, unfed, text, waste)

    def complain(self) -> None:
        """Report what is not kept once that has lasted, and when it is kept again."""
        core = self._core
        fed = core.fed
        if (
            self._accuracy.over is None
            and core.delay <= core.bound
            and all(one.startswith(fed) for one in core.interest)
        ):
            self._hungry = 0
            if self._reported is not None:
                self._reported = None
                core.out.append(Report(None))
            return
        self._hungry += 1
        patience = core.settings.coarsen_after
        if self._hungry < patience or self._hungry % patience:
            return
        violation = self.violation()
        if violation is not None and violation.cause is not self._reported:
            self._reported = violation.cause
            core.out.append(Report(violation))

    def _bound_text(self, bound: float) -> str:
        if self._core.settings.metric == "ms":
            return f"{bound:g} ms"
        return f"{bound:g} hop" if bound == 1.0 else f"{bound:g} hops"


def _needs(outlook: Outlook) -> float:
    """How much waste it takes; more than all if none helps."""
    return 2.0 if outlook.waste is None else outlook.waste
