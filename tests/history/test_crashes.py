"""Whatever is appended, whenever the machine dies, at whatever byte: the promises of a log, and a model."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.examples import examples
from tests.history.samples import NAME, A, logs_of
from tidings.history.entries import EVENTS, Entry
from tidings.history.files import MemoryFiles
from tidings.history.logs import Logs, Syncing

STEPS = st.one_of(
    st.tuples(st.just("append"), st.lists(st.integers(0, 300), min_size=1, max_size=8)),
    st.tuples(st.sampled_from(["write", "commit", "sync", "reopen"])),
    st.tuples(st.just("retain"), st.integers(0, 40)),
    st.tuples(st.just("crash"), st.sampled_from([0, 0.3, 0.9, 1]), st.sampled_from([0, 0, 1, 77])),
)


class Model:
    """What has been promised."""

    def __init__(self, syncing: Syncing) -> None:
        self.files = MemoryFiles()
        self.syncing = syncing
        self.salt = 1
        self.logs = self.open()
        self.durable = 0
        """The number behind the last that was synced."""
        self.next = 0
        self.seen: dict[int, Entry] = {}
        """All that was ever shown."""
        self.clock = 0

    def open(self) -> Logs:
        self.salt += 1
        return logs_of(self.files, salt=self.salt, syncing=self.syncing, segment_bytes=700)

    def append(self, sizes: list[int]) -> None:
        for size in sizes:
            self.clock += 1
            # The clock makes it another entry than any that had this number and was lost.
            self.logs.append(NAME, EVENTS, A, Entry(self.next, self.clock, "t", b"x" * size))
            self.next += 1

    def write(self) -> None:
        """As far as a commit comes that a crash ends."""
        for log in self.logs._logs.values():
            log.write()

    def commit(self) -> None:
        self.logs.commit()
        if self.syncing is Syncing.ALWAYS:
            self.durable = self.next

    def sync(self) -> None:
        self.logs.sync()
        self.durable = self.next

    def reopen(self) -> None:
        self.logs.sync()
        self.logs.close()
        self.durable = self.next
        self.logs = self.open()

    def retain(self, keep: int) -> None:
        self.logs.retain(self.clock, {(NAME, EVENTS): keep})
        self.durable = max(self.durable, self.logs.holders(NAME)[0][2] if self.logs.holders(NAME) else 0)

    def crash(self, share: float, noise: int) -> None:
        def left(_path: str, unsynced: bytes) -> bytes:
            torn = bytearray(unsynced[: round(len(unsynced) * share)])
            if torn and noise:
                # Pages reach a disk in any order: a hole before what is there.
                torn[noise % len(torn)] ^= noise
            return bytes(torn)

        self.files.crash(left)
        self.logs = self.open()
        self.next = self.logs.next_numbers().get((NAME, EVENTS), 0)
        assert self.next >= self.durable, "what was synced is there"
        self.durable = self.next

    def check(self) -> None:
        for _, first, shown in self.logs.holders(NAME):
            entries = list(self.logs.read(NAME, EVENTS, A, first))
            assert [one.number for one in entries] == list(range(first, shown)), "numbers are dense"
            if self.syncing is not Syncing.NEVER:
                assert shown <= self.durable, "only what is durable is shown"
            for one in entries:
                assert self.seen.setdefault(one.number, one) == one, "what was shown is never another"
            for one in entries[::7]:
                expected = next(other.number for other in entries if other.at_us >= one.at_us)
                assert self.logs.at(NAME, EVENTS, one.at_us) == {A: expected}


def run(syncing: Syncing, steps: list[tuple[object, ...]]) -> None:
    model = Model(syncing)
    for name, *arguments in steps:
        getattr(model, str(name))(*arguments)
        model.check()


@given(st.lists(STEPS, max_size=30))
@settings(max_examples=examples(300), deadline=None)
def test_synced_with_every_commit(steps: list[tuple[object, ...]]) -> None:
    run(Syncing.ALWAYS, steps)


@given(st.lists(STEPS, max_size=30))
@settings(max_examples=examples(150), deadline=None)
def test_synced_at_intervals(steps: list[tuple[object, ...]]) -> None:
    run(Syncing.INTERVAL, steps)


@given(st.lists(STEPS.filter(lambda step: step[0] != "crash"), max_size=30))
@settings(max_examples=examples(50), deadline=None)
def test_never_synced(steps: list[tuple[object, ...]]) -> None:
    run(Syncing.NEVER, steps)


def test_a_crash_at_every_byte_of_a_batch() -> None:
    for lost in range(400):
        model = Model(Syncing.ALWAYS)
        model.append([10, 20])
        model.commit()
        model.check()
        model.append([30, 5, 60])
        model.write()
        model.crash(lost / 400, 0)
        assert 2 <= model.next <= 5
        model.check()
        model.append([1])
        model.commit()
        model.check()


def test_what_a_crash_has_left_is_synced_before_it_is_shown() -> None:
    model = Model(Syncing.ALWAYS)
    model.append([10, 20])
    model.write()
    model.crash(1, 0)
    model.check()
    assert len(model.seen) == 2
    model.crash(0, 0)
    model.check()
