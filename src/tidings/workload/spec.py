"""The spec of a workload: all that is asked for, checked as a whole. What is made from it is elsewhere.

A spec is a TOML file of sections, one dataclass each; what it leaves out is as in the bundled default, which
`tidings workload spec` prints. Hierarchies, counts and a latency matrix may come from files, named relative
to the spec.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tidings.workload.hierarchies import Hierarchy
from tidings.workload.options import choice, duration, number, share, switch, text, whole


@dataclass(frozen=True, slots=True)
class Dimension:
    """One dimension of the event space: a field, and the hierarchy of what its values stand for.

    The hierarchy is one of the three: bundled, in a file, or given as it is.
    """

    name: str
    """The field."""

    hierarchy: str = ""
    """A bundled one: "subjects" or "languages"."""

    file: str = ""
    """CSV of child,parent, or TOML of nested tables."""

    nodes: Hierarchy | None = None
    """Given in the spec, as nested tables."""


SUBJECT = Dimension("subject", "subjects")
LANGUAGE = Dimension("language", "languages")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of everything."""

    subscriptions: int = whole(100_000, 0, 10_000_000_000)
    """Drawn from the interests' members, exactly so many."""

    events: int = whole(10_000, 0, 10_000_000_000)
    """Expected: arrivals are a Poisson process, so that the number that comes is near it."""

    brokers: int = whole(50, 1, 100_000)
    """In all regions together, in proportion to their subscriptions."""

    requests: int = whole(1_000, 0, 10_000_000_000)
    """For stored events."""


@dataclass(frozen=True, slots=True)
class Time:
    """When it happens."""

    start: str = text("2026-11-01T00:00:00Z")
    """When the workload begins."""

    duration_us: int = duration("1d")
    """How long it lasts."""


@dataclass(frozen=True, slots=True)
class Counts:
    """Members and messages per base interest and region."""

    file: str = text("")
    """CSV or Parquet: a column per dimension, then region, members, messages; the model if empty."""

    total: int = whole(8_100_000, 1, 10**12)
    """Members of all interests, of the model."""

    exponent: float = number(1.749, 0.0, 10.0)
    """The interest at rank r has members in proportion to (r + shift) ** -exponent, in the model."""

    shift: float = number(17.66, 0.0, 1e6)
    """The same; with 0 it is Zipf's law."""


@dataclass(frozen=True, slots=True)
class Network:
    """Where nodes are, and how far from each other."""

    nodes: int = whole(400, 6, 5_000)
    """Cities of the bundled default, by population, in all regions together."""

    latency: str = text("")
    """A matrix of round trips in milliseconds, CSV; from distances over the earth if empty."""

    places: str = text("")
    """CSV of the matrix's nodes: id, region or iso2, lat, lon; without it regions are dealt out, see docs."""


@dataclass(frozen=True, slots=True)
class Removal:
    """Hot-interest removal (§4.1)."""

    top: int = whole(0, 0)
    """So many of the most popular interests; 0 for none."""

    share: float = share(0.0)
    """Or the most popular ones that together have this share of all members."""

    threshold: int = whole(0, 0)
    """Or all that have so many members."""

    events_too: bool = switch(True)
    """Their event rates go with them."""


@dataclass(frozen=True, slots=True)
class Diffusion:
    """Interest diffusion (§4.2)."""

    p: float = share(1.0)
    """What is left of the variance among the parts of each pair of nodes: 1 for all, 0 for none."""


@dataclass(frozen=True, slots=True)
class Generalisation:
    """Interest generalisation (§4.3)."""

    option: str = choice("none", "parents", "children", "children-as-printed")
    """Option 1 is "parents", option 2 "children", repaired, or as printed."""

    fraction: float = share(0.1)
    """How much goes to more general interests."""


@dataclass(frozen=True, slots=True)
class Space:
    """Hierarchies as intervals (§4.4)."""

    resolution: int = whole(1_000_000_000, 2, 2**53)
    """The root of each hierarchy is the interval from 0 up to this."""

    perturbation: float = share(0.0)
    """How far two opposite corners of a subscription's rectangle may move, as a share of its sides."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """Which interests the subscriptions have (§4.4)."""

    method: str = choice("stratified", "naive", "systematic")
    """By popularity in strata, one by one at random, or at even steps."""

    strata: float = number(2.0, 1.0001, 1e9)
    """The largest count of a stratum is so many times its smallest."""


@dataclass(frozen=True, slots=True)
class Clients:
    """Who subscribes and publishes, and from where (§4.4)."""

    subscriptions_each: int = whole(1, 1, 1_000_000)
    """Of a client that has any, but perhaps for the last one."""

    place: str = choice("vicinity", "box", "hull")
    """Near a node of the region, in the box around its nodes, or in their convex hull."""

    vicinity_ms: float = number(5.0, 0.0, 1e6)
    """How far from its node a client is at most, along each axis."""


@dataclass(frozen=True, slots=True)
class Subscriptions:
    """What subscriptions are beside their rectangle."""

    where: bool = switch(True)
    """Write the filter as a text too."""

    assume: float = share(0.0)
    """The share of subscriptions with unknown = "assume"."""

    coming: float = share(0.0)
    """The share that comes while the workload runs; the others are there from the start."""

    lifetime_us: int = duration("0")
    """How long a subscription that goes stays, on average; 0 for all stay."""


@dataclass(frozen=True, slots=True)
class Events:
    """What happens, when and where (§4.5 and beyond)."""

    smoothing: float = number(1.0, 0.0, 1000.0)
    """The kernel's reach along each dimension, in widths of a base interest's interval."""

    cell_us: int = duration("1m")
    """Arrivals are a Poisson count for each cell of time."""

    diurnal: float = share(0.6)
    """How much of the rate follows the sun: 0 for none, 1 for silence at night."""

    drift: float = number(0.0, 0.0, 10.0)
    """How much the rates of interests change from epoch to epoch."""

    epoch_us: int = duration("6h")
    """How long rates stay as they are, if they drift."""

    flashes: int = whole(0, 0, 100_000)
    """Flash crowds: times in which one interest has many events."""

    flash_share: float = share(0.05)
    """The share of all events that belongs to flash crowds, if there are any."""

    flash_length_us: int = duration("20m")
    """How long a flash crowd lasts."""


@dataclass(frozen=True, slots=True)
class Reports:
    """How events are reported, imperfectly."""

    each: float = number(5.0, 1.0, 100_000.0)
    """Reports of an event, on average; at least one."""

    known: float = share(0.5)
    """The chance that a report knows a field."""

    wrong: float = share(0.05)
    """The chance that a field that is known is wrong."""

    delay_us: int = duration("10s")
    """How long after the event it is reported, on average."""

    details: int = whole(4, 0, 100)
    """Further fields of an event, each a number."""

    detail_max: int = whole(99, 1, 1_000_000_000)
    """The largest of those numbers."""

    local: float = share(0.8)
    """The share of reports that surely come from the event's own region; the others come from anyone."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Requests for stored events."""

    span_us: int = duration("1h")
    """How much of the past a request asks for, on average."""


@dataclass(frozen=True, slots=True)
class Links:
    """How brokers are joined."""

    overlay: str = choice("nearest", "tree", "random", "power-law", "topohub")
    """Nearest neighbours made connected, minimum spanning tree, random, power-law, or a real topology."""

    degree: int = whole(3, 1, 1_000)
    """Neighbours of a broker, about."""

    topology: str = text("")
    """For topohub: the name of a topology, such as "backbone/africa"."""


@dataclass(frozen=True, slots=True)
class Spec:
    """All of it."""

    seed: int = whole(1, 0, 2**63 - 1)
    """All that is random depends on it, and on nothing else."""

    regions: tuple[str, ...] = ()
    """If there are none, those of the file of counts, or without such a file all of the bundled default."""

    dimensions: tuple[Dimension, ...] = (SUBJECT, LANGUAGE)
    sizes: Sizes = field(default_factory=Sizes)
    time: Time = field(default_factory=Time)
    counts: Counts = field(default_factory=Counts)
    network: Network = field(default_factory=Network)
    removal: Removal = field(default_factory=Removal)
    diffusion: Diffusion = field(default_factory=Diffusion)
    generalisation: Generalisation = field(default_factory=Generalisation)
    space: Space = field(default_factory=Space)
    sampling: Sampling = field(default_factory=Sampling)
    clients: Clients = field(default_factory=Clients)
    subscriptions: Subscriptions = field(default_factory=Subscriptions)
    events: Events = field(default_factory=Events)
    reports: Reports = field(default_factory=Reports)
    requests: Requests = field(default_factory=Requests)
    links: Links = field(default_factory=Links)
