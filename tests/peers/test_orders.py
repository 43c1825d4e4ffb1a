"""Whatever the order in which messages arrive, and whichever are lost, links stay in order.

A schedule is drawn: which message arrives next or never does, whose timer fires, who wants something else,
who is started anew. After every step the links on which both ends agree must have no cycle, lead from a
tighter to a looser bound, and be no more than the out-degree allows.
"""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tidings.peers.events import Advertised, AnyHappened, Joined, Left, Received, Send, Subscribed, TimerFired
from tidings.peers.messages import AnyMessage
from tidings.peers.peer import Peer
from tidings.peers.settings import DEFAULT, PRINTED, REPAIRED, PeerSettings
from tidings.space.expressions import canonical

CELLS = ["0", "1", "00", "01", "10", "010", "011", "0110"]
FORMS = {"ours": DEFAULT, "repaired": REPAIRED, "printed": PRINTED, "ms": replace(DEFAULT, metric="ms")}


class Schedule:
    """Some peers, and messages that arrive in any order or not at all."""

    def __init__(self, form: PeerSettings, seed: int) -> None:
        self.random = random.Random(seed)
        self.form = replace(form, out_degree=2, view=6, window=2)
        self.now = 0.0
        self.way: list[tuple[str, str, AnyMessage]] = []
        self.lives = dict.fromkeys([f"p{i}" for i in range(8)], 0)
        self.peers: dict[str, Peer] = {}
        for name in self.lives:
            self.start(name)

    def start(self, name: str) -> None:
        self.lives[name] += 1
        rng = random.Random(self.random.getrandbits(32))
        self.peers[name] = Peer(name, life=self.lives[name], random=rng, settings=self.form)
        if name in ("p0", "p1"):
            self.tell(name, Advertised(("",) if name == "p0" else ("0",)))
        if name != "p0":
            self.tell(name, self.subscription())
        self.tell(name, Joined(tuple(self.lives)))

    def subscription(self) -> Subscribed:
        rng = self.random
        dz = canonical(rng.choices(CELLS, k=rng.choice([1, 1, 3])))
        return Subscribed(dz, float(rng.randint(1, 5)), rng.choice([0.0, 0.5]))

    def tell(self, name: str, event: AnyHappened) -> None:
        for effect in self.peers[name].handle(event, self.now):
            if isinstance(effect, Send):
                self.way.append((effect.to, name, effect.message))

    def step(self) -> None:
        rng = self.random
        draw = rng.random()
        name = rng.choice(list(self.lives))
        if self.way and draw < 0.7:
            to, sender, message = self.way.pop(rng.randrange(len(self.way)))
            self.tell(to, Received(sender, message))
        elif self.way and draw < 0.75:
            self.way.pop(rng.randrange(len(self.way)))
        elif draw < 0.97:
            self.now += rng.random()
            self.tell(name, TimerFired())
        elif draw < 0.98:
            self.tell(name, Left())
            self.start(name)
        elif draw < 0.99:
            self.start(name)
        elif name != "p0":
            self.tell(name, self.subscription())

    def check(self) -> None:
        below: dict[str, list[str]] = {name: [] for name in self.peers}
        for name, peer in self.peers.items():
            real = [child for child in peer.children.values() if not child.ghost]
            assert len(real) <= self.form.out_degree
            for child in real:
                if (name, child.root) not in self.peers[child.peer].parents:
                    continue
                bound = 0.0 if child.root else peer.bound
                assert bound < self.peers[child.peer].bound, f"{name} -> {child.peer}"
                if not child.root:
                    below[name].append(child.peer)
        seen: set[str] = set()

        def visit(name: str, path: tuple[str, ...]) -> None:
            assert name not in path, f"a cycle: {path}"
            if name not in seen:
                for child in below[name]:
                    visit(child, (*path, name))
                seen.add(name)

        for name in below:
            visit(name, ())


@settings(max_examples=examples(25), deadline=None)
@given(seed=st.integers(0, 2**32), form=st.sampled_from(sorted(FORMS)))
def test_no_order_of_messages_makes_a_cycle_or_a_child_too_many(seed: int, form: str) -> None:
    schedule = Schedule(FORMS[form], seed)
    for _ in range(400):
        schedule.step()
        schedule.check()


@settings(max_examples=examples(5), deadline=None)
@given(seed=st.integers(0, 2**32))
def test_what_is_kept_is_bounded_whatever_comes(seed: int) -> None:
    schedule = Schedule(DEFAULT, seed)
    for _ in range(600):
        schedule.step()
    for peer in schedule.peers.values():
        assert len(peer.view.profiles) <= schedule.form.view
        assert len(peer.view.roots) <= schedule.form.publishers_max
        assert len(peer.children) <= 2 * schedule.form.out_degree
