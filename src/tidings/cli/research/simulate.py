"""`tidings simulate`: a network of brokers in virtual time, from one seed."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
import typer

from tidings.errors import InputError
from tidings.language import durations

if TYPE_CHECKING:
    from rich.table import Table

    from tidings.planning import topologies
    from tidings.records.record import Record
    from tidings.sim.brokers import run as runs
    from tidings.sim.brokers.replay import Replay
    from tidings.sim.brokers.run import Outcome, Plan
    from tidings.sim.gathering.workload import Reporting
    from tidings.sim.measures import ClientMeasures, Distribution, GatheredMeasures, LinkMeasure

LINKS_SHOWN = 10
"""Of the table of links: those that carried the most."""

BREACHES_SHOWN = 5

SEATS_SHOWN = 10

CLIENTS = ("plain", "mqtt")

FAULTS = "breaks, cuts, partitions, crashes, stops, wipes, stalls, slow, loss, duplication, skew"
"""The kinds of faults: `faults.ALL`, which `--help` names without importing the simulator."""

UNREPLAYED = ("json", "records", "trace")
"""Options that change what is shown of a run and not the run."""


def simulate(
    context: typer.Context,
    topology: Annotated[
        str,
        typer.Option(
            "--topology",
            metavar="NAME|FILE",
            help="path, ring, star, tree, grid, random or power-law; or a TOML or GraphML file.",
        ),
    ] = "random",
    brokers: Annotated[
        int | None, typer.Option("--brokers", metavar="N", help="How many brokers, where no file says it.")
    ] = None,
    workload_: Annotated[
        str,
        typer.Option(
            "--workload",
            metavar="NAME|FILE|DIR",
            help="uniform, popular or wildcards; a TOML file; or a folder that `workload generate` made.",
        ),
    ] = "uniform",
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same run.")] = 0,
    topics: Annotated[int | None, typer.Option("--topics", help="Different topics.")] = None,
    subscriptions: Annotated[
        int | None, typer.Option("--subscriptions", help="Subscriptions, spread over the brokers.")
    ] = None,
    publications: Annotated[
        int | None, typer.Option("--publications", help="Publications, spread over the brokers.")
    ] = None,
    matching: Annotated[
        float | None,
        typer.Option("--matching", help="Subscriptions that a publication satisfies, on average."),
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Publications in a second of virtual time.")
    ] = None,
    qos: Annotated[
        int | None, typer.Option("--qos", help="Quality of service: 0, 1, 2, or -1 for any.")
    ] = None,
    durable: Annotated[
        float | None,
        typer.Option("--durable", help="Share of subscribers whose sessions are durable, 0 to 1."),
    ] = None,
    wildcards: Annotated[
        float | None, typer.Option("--wildcards", help="Share of subscriptions with + or #, 0 to 1.")
    ] = None,
    publish: Annotated[
        str | None,
        typer.Option(
            "--publish",
            metavar="reports|events",
            help="Of a workload's folder: reports, which are gathered, or events as they happened.",
        ),
    ] = None,
    speed_up: Annotated[
        float | None,
        typer.Option("--speed-up", metavar="X", help="Let a workload's folder pass so many times faster."),
    ] = None,
    delay: Annotated[
        str | None,
        typer.Option("--delay", metavar="DURATION|distance", help="Of every link, or by distance."),
    ] = None,
    latencies: Annotated[
        Path | None,
        typer.Option("--latencies", metavar="FILE", help="Delays from a CSV matrix in milliseconds."),
    ] = None,
    bandwidth: Annotated[
        float | None, typer.Option("--bandwidth", metavar="BYTES", help="Of every link, in a second.")
    ] = None,
    faults_: Annotated[
        str,
        typer.Option(
            "--faults",
            metavar="KINDS",
            help=f"What goes wrong: all, none, or some of {FAULTS}.",
        ),
    ] = "none",
    fault_count: Annotated[
        int, typer.Option("--fault-count", help="How often something goes wrong.", min=0)
    ] = 5,
    clients: Annotated[
        str,
        typer.Option(
            "--clients",
            metavar="plain|mqtt",
            help="Who subscribes and publishes: plain sessions, or MQTT clients at the brokers' front doors.",
        ),
    ] = "plain",
    gathered: Annotated[
        bool,
        typer.Option("--gathered", help="Topics are gathered: publications are reports, events come out."),
    ] = False,
    keys: Annotated[
        int | None,
        typer.Option("--keys", help="Things that are reported about, on each gathered topic.", min=1),
    ] = None,
    merge_after: Annotated[
        str | None,
        typer.Option("--merge-after", metavar="DURATION", help="Of gathered topics: Tm, 1s by default."),
    ] = None,
    redundant_for: Annotated[
        str | None,
        typer.Option(
            "--redundant-for",
            metavar="DURATION",
            help="Of gathered topics: Tr, longer than the run by default, so that one thing is one event.",
        ),
    ] = None,
    seat: Annotated[
        str | None,
        typer.Option("--seat", metavar="STRATEGY", help="Of gathered topics: traffic, median or centre."),
    ] = None,
    on_the_way: Annotated[
        str | None,
        typer.Option(
            "--on-the-way",
            metavar="nothing|drop|merge",
            help="What brokers before the seat do with reports.",
        ),
    ] = None,
    churn: Annotated[
        int,
        typer.Option(
            "--churn",
            min=0,
            help="How often a client changes its mind, leaves or comes back, or an MQTT client fails.",
        ),
    ] = 0,
    chaos: Annotated[
        bool, typer.Option("--chaos", help="Draw everything from the seed: network, settings, faults.")
    ] = False,
    records: Annotated[
        Path | None,
        typer.Option("--records", metavar="DIR", help="Write what brokers record, as Parquet, to a folder."),
    ] = None,
    trace: Annotated[
        bool, typer.Option("--trace", help="Also say a digest of all that brokers were told and answered.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object instead of tables.")] = False,
) -> None:
    r"""Run a network of brokers in virtual time, and see whether it kept its promises.

    The brokers are those that run live. Clients subscribe, publish while things go wrong, all heals, and
    checkers look at what everybody got. The exit code is 1 if a promise was broken; the line that replays
    the run is printed with it.

    Try it:

        tidings simulate --topology power-law --brokers 20 --publications 200 \
            --faults cuts,crashes --seed 7
    """
    from tidings.sim import faults
    from tidings.sim.brokers import run as runs
    from tidings.sim.brokers import workload
    from tidings.sim.gathering import run as gathered_runs
    from tidings.sim.mqtt import run as device_runs

    given = {
        "topics": topics,
        "subscriptions": subscriptions,
        "publications": publications,
        "matching": matching,
        "rate_per_s": rate,
        "qos": qos,
        "durable": durable,
        "wildcards": wildcards,
    }
    if clients not in CLIENTS:
        raise InputError(f"--clients is {clients!r}; give {' or '.join(CLIENTS)}")
    mqtt = clients == "mqtt"
    if gathered and mqtt:
        raise InputError("--gathered is for plain sessions; leave out --clients mqtt")
    drawn = gathered_runs.chaos if gathered else device_runs.chaos if mqtt else runs.chaos
    reporting = _reporting(
        gathered,
        {
            "keys": keys,
            "merge_after": merge_after,
            "redundant_for": redundant_for,
            "seat": seat,
            "on_the_way": on_the_way,
        },
    )
    replayed = workload_ not in workload.WORKLOADS and Path(workload_).is_dir()
    if not replayed and (publish is not None or speed_up is not None):
        option = "--speed-up" if publish is None else "--publish"
        raise InputError(f"{option} is about a workload from a folder; give --workload DIR too")
    plan = (
        _replayed(context, workload_, publish, speed_up, bandwidth)
        if replayed
        else drawn(seed)
        if chaos
        else runs.Plan(
            seed=seed,
            topology=_topology(topology, brokers, seed, delay, latencies, bandwidth),
            workload=workload.changed(
                workload.read(workload_),
                {name: value for name, value in given.items() if value is not None},
            ),
            faults=faults.read_kinds(faults_),
            fault_count=fault_count if faults_ != "none" else 0,
            churn=churn,
            mqtt=mqtt,
            reporting=reporting,
            command=shlex.join(["tidings", *_arguments(context)]),
        )
    )
    write, close = _writer(records)
    digest = runs.Digest() if trace else None
    start = process_time()
    with Progress() as progress:
        run: type[runs.Run] = (
            _replay_run(plan.replay)
            if plan.replay is not None
            else gathered_runs.GatheredRun
            if plan.reporting is not None
            else device_runs.MqttRun
            if plan.mqtt
            else runs.Run
        )
        outcome = run(plan, record=write, trace=digest, progress=progress).run()
    close()
    spent_s = process_time() - start
    if json:
        typer.echo(_json(outcome, spent_s, digest))
    else:
        _show(outcome, spent_s, digest)
    if outcome.breaches:
        for breach in outcome.breaches[:BREACHES_SHOWN]:
            typer.echo(str(breach), err=True)
        typer.echo(f"{len(outcome.breaches)} promises broken; replay: {plan.command}", err=True)
        raise typer.Exit(1)


REPLAYED = (
    "workload_", "seed", "subscriptions", "publications", "qos", "publish", "speed_up", "bandwidth",
    "faults_", "fault_count", "churn", "records", "trace", "json",
)  # fmt: skip
"""Options that go with a workload from a folder, which says all else itself."""


def _replayed(
    context: typer.Context, folder: str, publish: str | None, speed_up: float | None, bandwidth: float | None
) -> Plan:
    """The plan of a run of a workload from a folder."""
    from tidings.records.workload_reading import Workload
    from tidings.sim import faults
    from tidings.sim.brokers import replay as replays
    from tidings.sim.brokers import run as runs
    from tidings.sim.brokers import workload

    given = context.params
    for parameter in context.command.params:
        name = parameter.name or ""
        if name not in REPLAYED and given.get(name) not in (None, parameter.default):
            raise InputError(
                f"{parameter.opts[0]} does not go with --workload {folder}, which is a folder and says "
                "itself what brokers, links, topics and clients there are; leave it out"
            )
    qos = 1 if given["qos"] is None else given["qos"]
    if not 0 <= qos <= 2:
        raise InputError(f"--qos is {qos}; for a workload from a folder give 0, 1 or 2")
    if speed_up is not None and not 0 < speed_up < float("inf"):
        raise InputError(f"--speed-up is {speed_up:g}; give a number above 0, such as 10")
    for name in ("subscriptions", "publications"):
        if given[name] is not None and given[name] < 0:
            raise InputError(f"--{name} is {given[name]}; give a whole number from 0")
    replay = replays.read(
        Workload(Path(folder)),
        publish,
        subscriptions=given["subscriptions"],
        publications=given["publications"],
        speed_up=speed_up or 1.0,
        qos=qos,
    )
    count = len(replay.happenings)
    topology = replay.topology
    if bandwidth is not None:
        topology = _with_bandwidth(topology, bandwidth)
    return runs.Plan(
        seed=given["seed"],
        topology=topology,
        workload=workload.Workload(
            topics=max(1, len(replay.topics)),
            subscriptions=len(replay.followers),
            publications=count,
            # So that the run knows how long it takes.
            rate_per_s=count / replay.lasts_s if count and replay.lasts_s else 1.0,
            qos=qos,
        ),
        faults=faults.read_kinds(given["faults_"]),
        fault_count=given["fault_count"] if given["faults_"] != "none" else 0,
        churn=given["churn"],
        replay=replay,
        command=shlex.join(["tidings", *_arguments(context)]),
    )


def _replay_run(replay: Replay) -> type[runs.Run]:
    from tidings.sim.brokers import replay_run

    return replay_run.ReplayRun if replay.declared is None else replay_run.GatheredReplayRun


def _reporting(gathered: bool, given: dict[str, int | str | None]) -> Reporting | None:
    """How topics are gathered, if they are; all that is wrong is said at once."""
    from tidings.language.topics import OnTheWay, Strategy
    from tidings.sim.gathering import workload as gathered_workload

    choices: dict[str, type[StrEnum]] = {"seat": Strategy, "on_the_way": OnTheWay}
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if not gathered:
        if values:
            option = f"--{next(iter(values)).replace('_', '-')}"
            raise InputError(f"{option} is about gathered topics; give --gathered too")
        return None
    problems = []
    for name, value in list(values.items()):
        if name in choices and value not in list(choices[name]):
            problems.append(f"--{name.replace('_', '-')} is {value!r}; give {' or '.join(choices[name])}")
        elif name in ("merge_after", "redundant_for"):
            try:
                values[f"{name}_s"] = durations.parse(values.pop(name)) / 1e6
            except ValueError as error:
                problems.append(f"--{name.replace('_', '-')}: {error}")
    if not problems:
        made = gathered_workload.changed(values)
        problems += gathered_workload.problems(made)
    if problems:
        raise InputError("\n".join(problems))
    return made


def _arguments(context: typer.Context) -> list[str]:
    """What the command was called with, for the line that replays it."""
    words = [context.info_name or "simulate"]
    for parameter in context.command.params:
        value = context.params.get(parameter.name or "")
        if value is not None and value != parameter.default and parameter.name not in UNREPLAYED:
            words += [parameter.opts[0]] if value is True else [parameter.opts[0], str(value)]
    return words


def _topology(
    name: str,
    brokers: int | None,
    seed: int,
    delay: str | None,
    latencies: Path | None,
    bandwidth: float | None,
) -> topologies.Topology:
    from tidings.planning import topologies

    if name in topologies.GENERATORS:
        made = topologies.generate(name, 10 if brokers is None else brokers, seed)
    elif "." not in name and "/" not in name:
        raise InputError(
            f"topology {name!r} is unknown; there are {', '.join(topologies.GENERATORS)}, or give a file"
        )
    elif brokers is not None:
        raise InputError("--brokers is for generated topologies; a file says itself how many there are")
    else:
        made = topologies.read(Path(name))
    if delay is not None and latencies is not None:
        raise InputError("--delay and --latencies both say how long frames take; give one")
    if delay == "distance":
        made = made.with_delays(topologies.distance_delay())
    elif delay is not None:
        try:
            made = made.with_delays(topologies.constant_delay(durations.parse(delay) / 1e6))
        except ValueError as error:
            raise InputError(f"--delay: {error}, or 'distance'") from None
    elif latencies is not None:
        made = made.with_delays(topologies.matrix_delay(topologies.read_latencies(latencies)))
    return made if bandwidth is None else _with_bandwidth(made, bandwidth)


def _with_bandwidth(made: topologies.Topology, bandwidth: float) -> topologies.Topology:
    if not bandwidth > 0:
        raise InputError(f"--bandwidth is {bandwidth}; give bytes in a second, above 0")
    return made.with_bandwidth(bandwidth)


def _writer(folder: Path | None) -> tuple[Callable[[Record], object] | None, Callable[[], None]]:
    """What takes records, and what ends it."""
    if folder is None:
        return None, lambda: None
    from tidings.records.segments import SegmentWriter, closed_segments

    if closed_segments(folder):
        raise InputError(f"{folder} has records already; name an empty folder")
    # All brokers in one file: a thousand brokers would be a thousand small files.
    writer = SegmentWriter(folder, "simulation", 0)
    return writer.add, writer.close


def _json(outcome: Outcome, spent_s: float, digest: runs.Digest | None) -> str:
    plan: Plan = outcome.plan
    told: dict[str, object] = {
        "seed": plan.seed,
        "replay": plan.command,
        "kept": not outcome.breaches,
        "breaches": [asdict(breach) for breach in outcome.breaches],
        "faults": [asdict(fault) for fault in outcome.faults],
        "measures": asdict(outcome.measures),
        "cpu_s": spent_s,
    }
    if digest is not None:
        told["trace"] = digest.text
    return msgspec.json.encode(told).decode()


def _show(outcome: Outcome, spent_s: float, digest: runs.Digest | None) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    found = outcome.measures
    hops, latency = found.hops, found.latency_s
    speed = found.events / max(spent_s, 1e-9)
    overview = Table(title=f"Simulation, seed {outcome.plan.seed}", show_header=False)
    for name, value in (
        ("brokers, links", f"{found.brokers:,}, {found.links:,}"),
        ("offered, accepted, rejected", f"{found.offered:,}, {found.accepted:,}, {found.rejected:,}"),
        ("deliveries", f"{found.delivered:,}"),
        ("over links", _carried(found.carried)),
        ("publications and versions in vain", f"{found.false_positives:,}"),
        ("hops: mean, median, 99%, most", _spread(hops, 1)),
        ("latency in ms: mean, median, 99%, most", _spread(latency, 1e3)),
        ("frames", f"{found.frames:,}"),
        ("virtual time", f"{found.virtual_s:,.1f} s"),
        ("events, CPU time", f"{found.events:,} in {spent_s:,.1f} s ({speed:,.0f}/s)"),
        ("faults", f"{len(outcome.faults):,}"),
        ("promises", "kept" if not outcome.breaches else f"{len(outcome.breaches)} broken"),
    ):
        overview.add_row(name, value)
    if digest is not None:
        overview.add_row("trace", digest.text)
    console.print(overview)
    if found.mqtt is not None:
        console.print(_clients_table(found.mqtt))
    if found.gathered is not None:
        console.print(_gathered_table(found.gathered))
    kinds = Table(title="Messages sent")
    kinds.add_column("kind")
    kinds.add_column("sent", justify="right")
    for kind, count in found.messages.items():
        kinds.add_row(kind, f"{count:,}")
    console.print(kinds)
    console.print(_links_table(found.per_link))
    if outcome.faults:
        happened = Table(title="What went wrong")
        for title in ("from s", "to s", "fault", "brokers"):
            happened.add_column(title)
        for fault in outcome.faults:
            happened.add_row(f"{fault.at:.2f}", f"{fault.until:.2f}", fault.kind, " ".join(fault.brokers))
        console.print(happened)


def _clients_table(found: ClientMeasures) -> Table:
    from rich.table import Table

    table = Table(title="MQTT clients", show_header=False)
    for name, value in (
        ("clients, sessions, subscriptions", (found.clients, found.sessions, found.subscriptions)),
        ("connections, of these lost", (found.connections, found.lost)),
        ("publications sent more than once", (found.sent_again,)),
        ("received at QoS 0, 1, 2", found.received),
        ("of these sent again, retained", (found.received_again, found.retained)),
        ("wills received", (found.wills,)),
    ):
        table.add_row(name, ", ".join(f"{count:,}" for count in value))
    return table


def _gathered_table(found: GatheredMeasures) -> Table:
    from rich.table import Table

    table = Table(title="Gathered topics", show_header=False)
    for name, value in (
        ("reported, accepted, received by seats", (found.reported, found.accepted, found.received)),
        ("opened, merged, redundant, refused", (found.opened, found.merged, found.redundant, found.refused)),
        ("dropped on the way", (found.dropped_on_the_way,)),
        ("versions told, events closed", (found.told, found.closed)),
        ("versions delivered", (found.delivered,)),
        (
            "of these snapshots, withdrawn, merged into another",
            (found.snapshots, found.withdrawn, found.merged_into),
        ),
        ("seats that moved to another broker", (found.moves,)),
    ):
        table.add_row(name, ", ".join(f"{count:,}" for count in value))
    for place, held in sorted(found.seats.items())[:SEATS_SHOWN]:
        table.add_row(f"seat and deputy of {place}", held)
    return table


def _links_table(per_link: dict[str, LinkMeasure]) -> Table:
    from rich.table import Table

    from tidings.sim.carried import CARRIER_KINDS, NAMES

    busiest = sorted(per_link.items(), key=lambda pair: (-sum(pair[1].carried.values()), pair[0]))
    shown = [name for name in NAMES if any(link.carried[name] for link in per_link.values())]
    table = Table(title=f"The {min(LINKS_SHOWN, len(busiest))} busiest of {len(busiest)} link directions")
    for title in ("link", "frames", *shown, "in vain", "other messages"):
        table.add_column(title, justify="left" if title == "link" else "right")
    for name, link in busiest[:LINKS_SHOWN]:
        others = sum(count for kind, count in link.messages.items() if kind not in CARRIER_KINDS)
        counts = (link.frames, *(link.carried[one] for one in shown), link.false_positives, others)
        table.add_row(name, *(f"{count:,}" for count in counts))
    return table


def _carried(counts: Mapping[str, int]) -> str:
    """What was carried, but for what there was none of."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items() if count) or "nothing"


def _spread(found: Distribution, unit: float) -> str:
    values = (found.mean, found.median, found.p99, found.most)
    return ", ".join(f"{value * unit:,.1f}" for value in values)


class Progress:
    """A bar on standard error, where somebody looks."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeElapsedColumn(),
            console=self._console,
            transient=True,
        )
        self._task = self._bars.add_task("", total=1.0)

    def __call__(self, text: str, share: float) -> None:
        self._bars.update(self._task, description=text, completed=share)

    def __enter__(self) -> Progress:
        if self._console.is_terminal:
            self._bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bars.stop()
