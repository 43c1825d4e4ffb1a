"""The opening: reports on a live network, the few events that they become, and who gets them.

A network of processes is started, people report over MQTT, and subscribers listen, all in some twenty
seconds. Half-way the broker that gathers most is killed with -9, and later started again. What was lost and
what came twice is counted by what was published and what arrived.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import shutil
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console

from tidings.client.deliveries import WITHDRAWN, Delivery
from tidings.client.network import Network, connect
from tidings.demo import brokers, completeness, opening_screen, roads, stopping
from tidings.demo.brokers import Brokers
from tidings.demo.completeness import SLOW_S, Ending
from tidings.demo.opening_screen import Screen
from tidings.demo.roads import BROKERS, LINKS, SECONDS, SUBSCRIBERS, TOPICS, Report, Subscriber
from tidings.demo.witness import Delivered, Witness
from tidings.local.network import FIRST_PORT, Seat

DRAW_EVERY_S = 0.125
SESSION_S = 86_400.0
"""Sessions outlive the broker that is killed, however long it takes to come back."""

PAUSE_S_MAX = 0.5
"""Between attempts to reach a broker again that is known to come back soon."""

QUIET_S = 1.5
"""So long nothing more has come once all is there: it would be a repeat, told within Tm (0.8 s)."""

MERGED_INTO = "merged-into"


@dataclass(frozen=True, slots=True)
class Opening:
    """What was seen."""

    reports: int
    events: int
    versions: int
    deliveries: int
    killed: str
    """The broker that was killed."""

    lost: int
    """Events that a subscriber should know of in the end, as they are in the end, and does not."""

    repeated: int
    """How often a subscriber got the same version of an event again, and not as something sent again."""

    resent: int
    """How often a broker sent something again and said so (MQTT's DUP), to who had it already."""

    unwanted: int
    """Versions that a subscriber got though its filter does not ask for them."""

    healed_s: float | None
    """From the death of the seat until a subscriber heard of its topic again; None if none did."""

    seconds: float
    """All of it, the start of the brokers included."""

    @property
    def holds(self) -> bool:
        """Whether everybody got what they asked for, and nothing else."""
        return not self.lost and not self.repeated and not self.unwanted


def run(console: Console, folder: Path, seed: int, first_port: int = FIRST_PORT) -> Opening:
    """Play it, and say what was seen. The network's files are in `opening` in the folder, and are kept."""
    started = time.monotonic()
    console.print(
        f"{len(BROKERS)} brokers start on this machine; {len(SUBSCRIBERS)} subscribers say what they want to "
        "hear of.",
        highlight=False,
    )
    home = folder / "opening"
    brokers.release(home)
    shutil.rmtree(home, ignore_errors=True)
    said = roads.reports(seed)
    play = _Play(Witness(SUBSCRIBERS, said), said, console)
    with _starting(console):
        net = Brokers.start(home, BROKERS, LINKS, {"topics": _declared(home)}, first_port)
    with net, _quiet_clients():
        stopping.run(play.perform(net))
    seen = play.opening(time.monotonic() - started)
    _summarise(console, seen, play)
    return seen


class _Play:
    """A performance: who speaks, who listens, and what happens to the seat."""

    def __init__(self, witness: Witness, said: Sequence[Report], console: Console) -> None:
        self.witness = witness
        self.screen = Screen(console, witness, SUBSCRIBERS)
        self._said = said
        self._killed = ""
        self._killed_at = 0.0
        self._struck = ""
        """The topic that has lost its seat."""
        self._healed = asyncio.Event()
        self._healed_s: float | None = None
        self._heard_at = 0.0

    def opening(self, seconds: float) -> Opening:
        """What came of it."""
        seen = self.witness
        return Opening(
            reports=seen.reports,
            events=len(seen.events),
            versions=seen.versions,
            deliveries=seen.deliveries,
            killed=self._killed,
            lost=len(seen.missing()),
            repeated=len(seen.repeated),
            resent=seen.resent,
            unwanted=len(seen.unwanted),
            healed_s=self._healed_s,
            seconds=seconds,
        )

    async def perform(self, net: Brokers) -> None:
        """All of it, on a network that is up."""
        self.screen.brokers = dict.fromkeys(BROKERS, opening_screen.UP)
        async with contextlib.AsyncExitStack() as stack:
            for one in SUBSCRIBERS:
                await self._listen(net, one, stack)
            voices = {broker: await stack.enter_async_context(_voice(net, broker)) for broker in BROKERS}
            with self.screen:
                drawing = asyncio.create_task(self._draw())
                try:
                    async with asyncio.TaskGroup() as group:
                        for broker, reports in self._by_broker().items():
                            group.create_task(self._speak(voices[broker], reports))
                        group.create_task(self._strike(net))
                    self.screen.say("all is said; who asked for it hears of the last …")
                    await self._until_all_is_heard(net)
                    self._say_how_it_ends()
                finally:
                    drawing.cancel()

    def _by_broker(self) -> dict[str, list[Report]]:
        found: defaultdict[str, list[Report]] = defaultdict(list)
        for report in self._said:
            found[report.broker].append(report)
        return found

    async def _listen(self, net: Brokers, one: Subscriber, stack: contextlib.AsyncExitStack) -> None:
        """Subscribe with a session that outlives its broker: what comes while that is dead is kept for it."""
        url = f"mqtt://{net.mqtt(one.broker)}"
        client = await stack.enter_async_context(
            connect(url, client_id=one.name, session_expiry=SESSION_S, pause_max=PAUSE_S_MAX, timeout=SLOW_S)
        )
        wanted = client.subscribe(one.topic_filter, where=one.where, every=one.every)
        events = await stack.enter_async_context(wanted)

        async def read() -> None:
            async for event in events:
                self._hear(one, event)

        reading = asyncio.create_task(read())
        stack.callback(reading.cancel)

    def _hear(self, one: Subscriber, event: Delivery) -> None:
        self._heard_at = time.monotonic()
        if event.state in (WITHDRAWN, MERGED_INTO):
            return
        self.witness.hears(
            one.name,
            Delivered(
                event.topic,
                event.id or "",
                event.version or 0,
                event.reports or 0,
                event.seat or "",
                event.fields,
                event.dup,
            ),
        )
        if event.topic == self._struck and event.seat != self._killed and not self._healed.is_set():
            self._healed_s = self._heard_at - self._killed_at
            self._healed.set()

    async def _speak(self, voice: Network, reports: Sequence[Report]) -> None:
        """Publish reports when it is time, each acknowledged before the next."""
        began = time.monotonic()
        for report in reports:
            await asyncio.sleep(began + report.at_s - time.monotonic())
            await voice.publish(report.topic, report.fields)
            self.witness.says(report)

    async def _strike(self, net: Brokers) -> None:
        """Half-way: kill the seat that has most to do, see who goes on, and start it again."""
        self.screen.say("people report; most of it is known already")
        await asyncio.sleep(SECONDS / 2)
        seat, broker = await _busiest(net)
        self._killed, self._struck, self._killed_at = broker, seat.topic, time.monotonic()
        await asyncio.to_thread(net.kill, broker)
        self.screen.brokers[broker] = opening_screen.DOWN
        self.screen.say(
            f"kill -9 {broker}: it had the seat of {seat.topic}, with {seat.open} events", "bold red"
        )
        await completeness.wait(self._healed.is_set, self._progress, net.busy)
        after = "nobody has gone on" if self._healed_s is None else f"told on after {self._healed_s:.1f} s"
        self.screen.brokers[broker] = opening_screen.BACK
        self.screen.say(
            f"{seat.deputy or 'another'}, its deputy, has all of it: {after}; {broker} starts again"
        )
        await asyncio.to_thread(net.restart, broker, wait=False)
        await _until_settled(net)
        self.screen.brokers[broker] = opening_screen.UP
        self.screen.say(f"{broker} is back, and its subscribers hear what they have missed", "green")

    def _progress(self) -> tuple[int, int]:
        return self.witness.reports, self.witness.deliveries

    async def _until_all_is_heard(self, net: Brokers) -> None:
        """Until everybody has everything and no more comes, or nothing comes any more."""
        ending = await completeness.wait(
            lambda: not self.witness.missing(), self._progress, net.busy, quiet_s=QUIET_S
        )
        if ending is Ending.TOO_SLOW:
            raise completeness.too_slow(
                f"{len(self.witness.missing())} of {self.witness.expected} events have not come to those who "
                f"asked for them, and nothing has for {SLOW_S:.0f} s while brokers have work queued"
            )

    def _say_how_it_ends(self) -> None:
        if self.witness.missing():
            self.screen.say("not everybody has what they asked for", "bold red")
        else:
            self.screen.say("everybody has what they asked for", "green")

    async def _draw(self) -> None:
        while True:
            self.screen.draw()
            await asyncio.sleep(DRAW_EVERY_S)


async def _busiest(net: Brokers) -> tuple[Seat, str]:
    """The seat that has taken most reports, and its broker."""
    end = time.monotonic() + SLOW_S
    while time.monotonic() < end:
        views = await asyncio.to_thread(net.views)
        if seats := [(seat, shown.id) for shown in views for seat in shown.seats]:
            return max(seats, key=lambda one: one[0].received)
        await asyncio.sleep(DRAW_EVERY_S)
    raise completeness.too_slow(f"no broker has a seat after {SLOW_S:.0f} s; their logs are in {net.folder}")


async def _until_settled(net: Brokers) -> None:
    """Wait in small steps: who presses Ctrl-C does not want to wait for a thread that waits."""
    settled = net.settling()
    try:
        async with asyncio.timeout(SLOW_S):
            while not await asyncio.to_thread(settled):
                await asyncio.sleep(DRAW_EVERY_S)
    except TimeoutError:
        raise net.unsettled() from None


def _voice(net: Brokers, broker: str) -> Network:
    """Where people near a broker publish: there, or at the next one while it is dead."""
    at = BROKERS.index(broker)
    return connect([f"mqtt://{net.mqtt(one)}" for one in (*BROKERS[at:], *BROKERS[:at])], timeout=SLOW_S)


def _declared(home: Path) -> str:
    """The declarations as files, as the brokers' settings name them."""
    folder = home.absolute() / "topics"
    folder.mkdir(parents=True)
    files = [folder / f"{name.replace('/', '-')}.toml" for name in TOPICS]
    for name, file in zip(TOPICS, files, strict=True):
        file.write_text(roads.DECLARATION.format(name=name), encoding="utf-8")
    return ",".join(map(str, files))


def _starting(console: Console) -> contextlib.AbstractContextManager[object]:
    if console.is_interactive:
        return console.status(f"starting {len(BROKERS)} brokers …")
    return contextlib.nullcontext()


@contextlib.contextmanager
def _quiet_clients() -> Iterator[None]:
    """Clients warn that they have lost a broker. It is killed on purpose, and the screen says so."""
    log = logging.getLogger("tidings.client")
    before = log.level
    log.setLevel(logging.ERROR)
    try:
        yield
    finally:
        log.setLevel(before)


def _sent_again(count: int) -> str:
    return f"; {count} more came again marked DUP, as MQTT has it after kill -9" if count else ""


def _summarise(console: Console, seen: Opening, play: _Play) -> None:
    console.print(
        f"\n{seen.reports} reports became {seen.events} events, told in {seen.versions} versions. "
        f"{len(SUBSCRIBERS)} subscribers got {seen.deliveries} messages. Half-way {seen.killed} was killed"
        + ("." if seen.healed_s is None else f"; {seen.healed_s:.1f} s later its deputy had gone on."),
        highlight=False,
    )
    console.print(
        f"[bold]Lost: {seen.lost}[/] of {play.witness.expected} events that somebody asked for. "
        f"[bold]Repeated: {seen.repeated}[/] of {seen.deliveries} messages{_sent_again(seen.resent)}.",
        highlight=False,
    )
    for wrong in [*play.witness.missing(), *play.witness.repeated, *play.witness.unwanted]:
        console.print(wrong, style="red", highlight=False, markup=False, soft_wrap=True)
