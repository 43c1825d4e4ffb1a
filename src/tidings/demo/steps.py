"""The demonstration itself: its steps in their order, what is said of each, and what is left at the end."""

from __future__ import annotations

import os
import shutil
import sys
import webbrowser
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from rich.console import Console

from tidings import installation
from tidings.console import totals, words
from tidings.console.day import Check, Day
from tidings.demo import asking, brokers, checking, city, keeping, opening, playing, stopping
from tidings.demo.brokers import Brokers
from tidings.demo.opening import Opening
from tidings.demo.sizes import SIZES, Size
from tidings.demo.stopping import Guard
from tidings.demo.telling import Telling
from tidings.errors import InputError
from tidings.local.network import Process

if TYPE_CHECKING:
    from tidings.demo.checking import Verdict
    from tidings.demo.city import City
    from tidings.demo.counting import Counted
    from tidings.demo.following import Following
    from tidings.demo.planning import Planned
    from tidings.demo.playing import Played
    from tidings.pipeline.running import Step
    from tidings.pipeline.session import Session

MARK = ".tidings-demo"
"""A file by which a folder is known that a demonstration has made, and may replace: it says which process."""

PLANS = "plans"
"""The folder of plans."""

NEEDED = ("pyspark", "matplotlib", "igraph", "scipy")
"""Spark, pictures, plans."""

TITLE = "A day in Athens"

SETTINGS = {"spark.driver.memory": "2g"}
"""Enough for a day of a city; the brokers live beside it."""


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for."""

    size: str
    keep: bool
    seed: int
    folder: Path
    port: int

    @property
    def how_much(self) -> Size:
        """What the size means."""
        return SIZES[self.size]


def run(size: str, *, keep: bool, seed: int, out: Path, port: int, json: bool, opens: bool) -> int:
    """All steps; the exit code."""
    asked = Asked(size, keep, seed, out.absolute(), port)
    check_installed()
    if keep:
        brokers.check_keep()
    make_room(asked.folder)
    telling = Telling(Console(stderr=json))
    with stopping.guard(telling.console, asked.folder) as guard:
        opened = open_(asked, telling)
        spark, day = generate(asked, telling, guard)
        net, follower, played = play(asked, telling, guard, spark, day)
        verdict, found = check(asked, telling, net, played)
        followed, counted = count(asked, telling, spark, net, follower, played)
        checks = (survived(opened), *verdict.checks, found, *followed, *counted.checks)
        planned = plan(asked, telling, spark, played)
        made = show(asked, telling, spark, played, counted, planned, checks)
        # The page cannot say how long it took to draw it.
        made = replace(made, steps=telling.so_far)
        summary = figures(made, verdict, played)
        value = result(asked, made, summary, verdict, played, opened, planned)
        (asked.folder / "summary.json").write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=2))
        if keep:
            keep_up(asked, day)
    end(asked, telling, made, summary, played)
    if json:
        print(msgspec.json.encode(value).decode())
    elif opens and can_open():
        webbrowser.open((asked.folder / "page" / "index.html").as_uri())
    return 0 if all(one.holds for one in made.checks) else 1


def check_installed() -> None:
    """Hear at once of what would be missing minutes later."""
    installation.need("the demonstration", *NEEDED)


def make_room(folder: Path) -> None:
    """An empty folder of ours; what a demonstration has left in it goes, anything else is refused."""
    if folder.exists():
        if not folder.is_dir():
            raise InputError(
                f"--out {folder} is not a folder; name one, or a place where there is nothing yet"
            )
        if any(folder.iterdir()) and not (folder / MARK).exists():
            raise InputError(
                f"--out {folder} has something in it that no demonstration has made; name another folder"
            )
        if (other := owner(folder)) is not None and other.alive:
            raise InputError(
                f"a demonstration runs in {folder} already, process {other.pid}; wait for it, or name "
                "another folder with --out"
            )
        brokers.release(folder)
    try:
        # The folder itself stays: it may be a link, or a volume of its own.
        for one in folder.iterdir() if folder.exists() else ():
            if one.is_dir() and not one.is_symlink():
                shutil.rmtree(one)
            else:
                one.unlink()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / MARK).write_bytes(msgspec.json.encode(Process.of(os.getpid())))
    except OSError as error:
        raise InputError(
            f"--out {folder} cannot be written to: {error.strerror}; name another folder"
        ) from None


def owner(folder: Path) -> Process | None:
    """The demonstration that has made a folder, whether it still runs or not; None if nobody can say."""
    try:
        return msgspec.json.decode((folder / MARK).read_bytes(), type=Process)
    except (OSError, msgspec.DecodeError):
        return None


# The steps.


def open_(asked: Asked, telling: Telling) -> Opening:
    with telling.step(
        "Reports become events, and a broker dies",
        "People tell of what happens on the roads, each a part of it, most of it known already. Brokers make "
        "few events of many reports and tell them to those who asked. The busiest is killed on the way: what "
        "was acknowledged must not be lost.",
    ):
        return opening.run(telling.console, asked.folder, asked.seed, asked.port)


def survived(opened: Opening) -> Check:
    """Whether nobody missed anything, or got anything again, though a broker was killed."""
    return Check(
        f"Nothing is lost or repeated though {opened.killed}, the busiest broker, is killed",
        f"{opened.lost} lost and {opened.repeated} repeated of {opened.deliveries:,} deliveries; "
        f"{opened.resent} sent again and marked so (MQTT's DUP), which is no repeat",
        opened.holds,
    )


def generate(asked: Asked, telling: Telling, guard: Guard) -> tuple[Session, City]:
    with telling.step(
        "Spark generates a city",
        "A day in Athens as tables: brokers in its districts, subscribers with filters, what truly happens, "
        "and the noisy reports of it. That the truth is known is what makes everything after it checkable.",
    ):
        model = city.model(asked.how_much, asked.seed)
        with telling.bar("Spark") as move:
            move(0, "starting")
            spark = start_spark(guard)

            def told(step: Step) -> None:
                move(0, getattr(step, "stage", ""))

            city.generate(spark, model, asked.folder / "workload", told)
        day = city.read(model, asked.folder / "workload", asked.how_much.speed_up)
        telling.say(
            f"{len(day.brokers)} brokers, {len(day.subscribers) - 1:,} subscribers, {len(day.truths):,} "
            f"events on {len(day.topics)} topics, {len(day.reports):,} reports of them. {day.doubtful:,} "
            "further events are left out: their reports disagree so evenly that nobody could know the truth."
        )
        return spark, day


def start_spark(guard: Guard) -> Session:
    from tidings.pipeline import session

    # Its jobs are short: measured, the JVM takes 17 CPU seconds for a small city, and 30 with all compilers.
    spark = session.start("tidings demo", settings=SETTINGS, quick_start=True)
    guard.call(spark.stop)
    return spark


def play(
    asked: Asked, telling: Telling, guard: Guard, spark: Session, day: City
) -> tuple[Brokers, Following, Played]:
    from tidings.demo import following

    with telling.step(
        "A live network plays the day",
        f"A process for each broker, an MQTT session for each client. The day is played "
        f"{day.speed_up:,.0f} times faster than life, and so are the topics' timings. A query of Spark "
        f"follows {day.followed} all the while.",
    ):
        with telling.bar("brokers") as move:
            move(0, "starting")
            net = guard.enter(start(asked, day))
        follower = following.begin(spark, net, day.followed, asked.folder / "following")
        guard.call(follower.stop)
        with telling.bar("reports", len(day.reports)) as move:
            slow = False

            def watch(sent: int, delivered: int, late_s: float) -> None:
                nonlocal slow
                if late_s > playing.LATE_S and not slow:
                    slow = True
                    telling.say("The brokers do not keep up on this machine: the day is played more slowly.")
                late = f", {late_s:.0f} s late" if late_s > playing.LATE_S else ""
                move(sent, f"{sent:,} of {len(day.reports):,} sent, {delivered:,} delivered{late}")

            played = stopping.run(playing.play(day, checking.due(day), net, watch))
        telling.say(
            f"{len(played.sent):,} reports in {played.seconds:.0f} s; {len(played.delivered):,} deliveries. "
            + " ".join(played.notes)
        )
        return net, follower, played


def start(asked: Asked, day: City) -> Brokers:
    """The city's network, with what its brokers have if they ran before."""
    files = city.write_declarations(day.topics, asked.folder / "topics")
    return Brokers.start(
        asked.folder / "network",
        [place.id for place in day.brokers],
        day.links,
        {"topics": ",".join(map(str, files))},
        asked.port,
    )


def check(asked: Asked, telling: Telling, net: Brokers, played: Played) -> tuple[Verdict, Check]:
    with telling.step(
        "Every subscriber is checked against the truth",
        "What each should have got follows from what truly happened and from its filter alone. Gathering and "
        "routing are worth nothing if one of them misses something or hears what it did not ask for. Some "
        "come later, and ask their brokers for all of it once more.",
    ):
        verdict = checking.check(played.city, played.delivered)
        telling.checks(verdict.checks)
        latecomers = asking.drawn(played.city, asked.how_much.requests, asked.seed)
        with telling.bar("requests", len(latecomers)) as move:
            found = asking.ask(
                played.city,
                checking.due(played.city),
                latecomers,
                net.http,
                lambda answered: move(answered, f"{answered} of {len(latecomers)} answered"),
            )
        telling.checks([found])
        telling.say(
            f"{verdict.versions:,} versions of events reached somebody. "
            f"{words.counted(verdict.withdrawn, 'delivery', 'deliveries')} took back what turned out to be "
            "something else."
        )
        if verdict.differences:
            telling.say("\nThe first that differs:", style="bold red")
            for line in checking.explained(played.city, verdict.differences[0], played.delivered):
                telling.say(f"  {line}")
        return verdict, found


def count(
    asked: Asked, telling: Telling, spark: Session, net: Brokers, follower: Following, played: Played
) -> tuple[tuple[Check, ...], Counted]:
    from tidings.demo import counting

    with telling.step(
        "Spark reads what the brokers wrote down",
        "Each broker records what it does with each message. Spark makes traffic, suppression, latency and "
        "load of it, and what clients saw must agree with it.",
    ):
        with telling.bar("Spark") as move:
            move(0, "reading the rest of the log")
            followed = follower.finish(played)
            net.close()
            move(0, "counting")
            counted = counting.counted(spark, played, asked.folder / "tables", follower)
        telling.checks((*followed, *counted.checks))
        return followed, counted


def plan(asked: Asked, telling: Telling, spark: Session, played: Played) -> Planned:
    from tidings.demo import planning

    with telling.step(
        "Plans for such days, and what they would save",
        "The records also say who talks to whom, and who asks for what where. Two plans come of it: which "
        "clients would better be at another broker, and where topics would better be kept. They are for a "
        "person to look at; nothing is changed.",
    ):
        with telling.bar("Spark") as move:
            made = planning.plan(
                spark,
                played.city,
                asked.folder / "tables",
                asked.folder / PLANS,
                asked.seed,
                lambda what: move(0, what),
            )
        telling.savings(planning.savings(made))
        for file in planning.files(asked.folder / PLANS, made):
            telling.paste(f"  {keeping.command()} plan show {keeping.shown(file)}")
        return made


def show(
    asked: Asked,
    telling: Telling,
    spark: Session,
    played: Played,
    counted: Counted,
    planned: Planned,
    checks: Sequence[Check],
) -> Day:
    from tidings.console import page
    from tidings.demo import costs, planning

    with telling.step(
        "What the same day costs otherwise, and a page of it",
        "The same reports and subscribers once more: without gathering, without content routing, and through "
        "mosquitto if it is installed.",
    ):
        other = costs.run(spark, telling, played, counted, asked.folder / "costs", first_port=asked.port)
        telling.checks(other.checks)
        day = played.city
        made = Day(
            title=TITLE,
            size=asked.size,
            seed=asked.seed,
            speed_up=played.speed_up_had,
            subscribers=len(day.subscribers) - 1,
            subscriptions=len(day.subscribers) - 1,
            events=len(day.truths),
            brokers=counted.brokers,
            links=counted.links,
            topics=counted.topics,
            moments=counted.moments,
            life=counted.life,
            latencies_ms=counted.latencies_ms,
            costs=other.costs,
            plans=planning.shown(planned),
            checks=(*checks, *other.checks),
            steps=telling.so_far,
            notes=(*played.notes, *counted.notes, *other.notes),
        )
        page.write(made, asked.folder / "page", planning.further(planned))
        planning.write_pages(planned, asked.folder / "page")
        return made


def keep_up(asked: Asked, day: City) -> None:
    """Start the network again, with all that it had, and leave it."""
    with start(asked, day) as net:
        net.keep()


# The end.


def paths(asked: Asked) -> dict[str, Path]:
    """Where everything lies."""
    folders = {
        "page": "page/index.html",
        "summary": "summary.json",
        "workload": "workload",
        "tables of traffic": "tables",
        "plans": PLANS,
        "records and logs of the brokers": "network",
    }
    return {name: asked.folder / path for name, path in folders.items()}


def figures(made: Day, verdict: Verdict, played: Played) -> dict[str, int]:
    """The day in figures."""
    return {
        "subscribers": len(played.city.subscribers) - 1,
        "events that happened": len(played.city.truths),
        "reports of them": len(played.sent),
        "versions told": totals.versions(made),
        "versions that reached somebody": verdict.versions,
        "deliveries": verdict.deliveries,
        "events that subscribers had to hear of": verdict.due,
        "withdrawn": verdict.withdrawn,
        "differences": len(verdict.differences),
    }


def result(
    asked: Asked,
    made: Day,
    summary: Mapping[str, int],
    verdict: Verdict,
    played: Played,
    opened: Opening,
    planned: Planned,
) -> dict[str, Any]:
    """All of it, for programs."""
    from tidings.demo import planning

    differing = verdict.differences[:1]
    return {
        "size": asked.size,
        "seed": asked.seed,
        "holds": all(one.holds for one in made.checks),
        "speed_up": made.speed_up,
        "opening": asdict(opened),
        "summary": {name.replace(" ", "_"): count for name, count in summary.items()},
        "checks": [asdict(one) for one in made.checks],
        "steps": [asdict(one) for one in made.steps],
        "costs": [asdict(one) for one in made.costs],
        "plans": planning.summary(planned),
        "cpu_seconds": {broker: round(spent, 2) for broker, spent in played.cpu_s.items()},
        "notes": list(made.notes),
        "difference": [
            line for one in differing for line in checking.explained(played.city, one, played.delivered)
        ],
        "paths": {name.replace(" ", "_"): str(path) for name, path in paths(asked).items()},
    }


def end(asked: Asked, telling: Telling, made: Day, summary: Mapping[str, int], played: Played) -> None:
    """The summary, where everything lies, and what to try next."""
    telling.console.rule("[bold]Summary", align="left")
    telling.summary(made, summary)
    telling.paths(paths(asked))
    broken = [one for one in made.checks if not one.holds]
    if broken:
        telling.say(f"\n{len(broken)} of {len(made.checks)} checks do not hold, the first: {broken[0].name}.")
    else:
        telling.say(f"\nAll {len(made.checks)} checks hold.")
    if asked.keep:
        telling.say("The network is still up. Paste these: how it is, what is told in it, and its end.")
        for line in keeping.lines("incident/#", "severity >= 3"):
            telling.paste(f"  {line}")
        said = f"{keeping.command()} pub {played.city.followed} story=900000001 incident=0 severity=4"
        telling.paste(f"Try next, while the second runs: {said}")
    else:
        telling.paste(
            f"Try next: {keeping.command()} demo --size {asked.size} --keep, which leaves the network up."
        )


def can_open() -> bool:
    """Whether there is somebody to look at a page."""
    if sys.platform in ("darwin", "win32"):
        return True
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))
