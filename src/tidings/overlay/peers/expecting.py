"""What a peer tells its user: what may be expected, and what is not kept and why."""

from __future__ import annotations

import math

from tidings.overlay.peers import outlooks
from tidings.overlay.peers.accuracy import Accuracy
from tidings.overlay.peers.cells import is_set
from tidings.overlay.peers.core import Core
from tidings.overlay.peers.events import Admit, Report
from tidings.overlay.peers.messages import Enquire, Foresee
from tidings.overlay.peers.outlooks import Cause, Outlook, Violation
from tidings.space.expressions import canonical


class Expecting:
    """The outlook of one peer, and of those who ask it."""

    def __init__(self, core: Core, accuracy: Accuracy) -> None:
        self._core = core
        self._accuracy = accuracy
        self._enquiry = -1
        """The number of the enquiry that is not answered yet."""
        self._hungry = 0
        """Cycles in which something was not kept."""
        self._reported: Cause | None = None

    def begin(self) -> None:
        """Another subscription."""
        self._hungry = 0
        self._reported = None

    def enquire(self, contact: str | None) -> None:
        core = self._core
        if contact is None or not core.interest:
            return
        self._enquiry = core.next_number()
        core.send(contact, Enquire(self._enquiry, core.interest, core.bound, core.allowed))

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
        profiles = [one for one in core.view.profiles.values() if one.peer != sender]
        roots = dict(core.view.roots)
        if core.dz:
            profiles.append(core.relay_profile())
        if core.advertised:
            roots[core.name] = core.root_profile()
        outlook = outlooks.foresee(
            message.dz,
            message.bound - 1.0 if limit.metric == "hops" else math.nextafter(message.bound, 0.0),
            self._bound_text(message.bound),
            message.allowed,
            profiles,
            roots,
            lambda dz: self._accuracy.waste_of(dz, message.dz),
        )
        core.send(
            sender,
            Foresee(
                message.number,
                outlook.met,
                1.0 if outlook.waste is None else outlook.waste,
                next(
                    (one for one in (*profiles, *roots.values()) if one.peer == outlook.parent),
                    None,
                ),
                outlook.text,
            ),
        )

    def on_foresee(self, sender: str, message: Foresee) -> None:  # noqa: ARG002
        core = self._core
        parent = message.parent
        if (
            message.number != self._enquiry
            or not 0.0 <= message.waste <= 1.0
            or (parent is not None and not core.view.sound(parent))
        ):
            core.counts.malformed += 1
            return
        self._enquiry = -1
        waste = message.waste if parent is not None else None
        if parent is not None and parent.peer != core.name:
            core.view.learn((parent,), (1,), core.cycle)
        core.out.append(
            Admit(
                Outlook(
                    message.met,
                    waste,
                    "" if parent is None else parent.peer,
                    message.text[:1000],
                )
            )
        )

    def violation(self) -> Violation | None:
        """What is asked for and not kept, and why."""
        core = self._core
        cause = self._cause()
        if cause is None:
            return None
        fed, dz = core.fed, core.interest
        unfed = tuple(one for one in dz if not one.startswith(fed))
        bound = self._bound_text(core.bound)
        waste: float | None = None
        if cause is Cause.PUBLISHER:
            text = "no publisher is known"
        elif cause is Cause.LATE:
            text = f"events come after {self._bound_text(core.delay)}, the bound is {bound}"
        elif cause is Cause.WASTE:
            share = outlooks.percent(core.waste or 0.0)
            text = f"{share} of all events come unwanted, {outlooks.percent(core.allowed)} are allowed"
        elif cause is Cause.BANDWIDTH:
            text = (
                f"{core.counted.received_rate or 0.0:g} events a second come, "
                f"{core.received_max() or 0.0:g} may with {core.settings.out_degree} children"
            )
        elif cause is Cause.WAITING:
            names = ", ".join(sorted({one.peer for one in core.parents.values() if not one.feeds})[:3])
            text = f"{names}, which should feed {unfed[0] or 'the whole space'}, gets nothing itself"
        else:
            found = outlooks.best(unfed[0], core.limit(), core.view.profiles.values(), core.view.roots)
            if found.coarser is not None and found.coarser != unfed[0]:
                waste = self._accuracy.waste_of(canonical((*dz, found.coarser)))
            text = outlooks.sentence(unfed[0], bound, found, waste)
        return Violation(cause, unfed or dz, text, waste)

    def _cause(self) -> Cause | None:
        core = self._core
        fed = core.fed
        if all(one.startswith(fed) for one in core.interest):
            return Cause.LATE if core.delay > core.bound else self._accuracy.over
        if not core.view.roots and not core.advertised:
            return Cause.PUBLISHER
        unfed = next(one for one in core.interest if not one.startswith(fed))
        if any(unfed.startswith(one.asked) for one in core.parents.values() if not one.root):
            return Cause.WAITING
        limit = core.limit()
        could = any(
            one.bound <= limit and unfed.startswith(one.fed) for one in core.view.profiles.values()
        ) or (limit >= 0.0 and next(core.view.relevant(unfed), None) is not None)
        return Cause.ROOM if could else Cause.PARENT

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
        cause = self._cause()
        if cause is not None and cause is not self._reported:
            self._reported = cause
            core.out.append(Report(self.violation()))

    def _bound_text(self, bound: float) -> str:
        if self._core.settings.metric == "ms":
            return f"{bound:g} ms"
        return f"{bound:g} hop" if bound == 1.0 else f"{bound:g} hops"
