"""What can be set about a broker, with the defaults and their reasons.

Durations are seconds, sizes bytes. `live` reads them from files and variables, `sim` from scenarios.
"""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Settings:
    """Of one broker. Those marked network-wide must be the same at all of its brokers."""

    network: str = "tidings"
    """Network-wide. Brokers of another network are refused."""

    token: str = ""
    """Network-wide. The cluster token: a shared secret by which brokers know each other; empty for none."""

    trees: int = 1
    """Network-wide. How many trees undeclared topics share, 1 to 8."""

    heartbeat_s: float = 2.0
    """A link that has nothing to say says so this often."""

    suspect_after_s: float = 6.0
    """A link silent for so long is taken for lost: three heartbeats."""

    greet_within_s: float = 5.0
    """A connection that has not been greeted and welcomed by then is closed."""

    resume_within_s: float = 1.0
    """A lost connection that is back within this time is resumed, and no tree changes."""

    redial_min_s: float = 0.1
    """After the first failure; doubles from there, with jitter."""

    redial_max_s: float = 5.0
    """The longest pause between two attempts to connect."""

    regrow_min_s: float = 0.02
    """How long a root waits for more requests before it starts a new epoch; doubles if they go on."""

    regrow_max_s: float = 1.0
    """The longest such wait."""

    settle_s: float = 1.0
    """A subscription that a broker in reach has not confirmed by then is granted as "settling"."""

    acks: str = "origin"
    """"origin": a publication is acknowledged once it is on this broker's disk. "neighbour": and at a
    second broker."""

    absent_hold_s: float = 600.0
    """How long publications are held for brokers that cannot be reached."""

    absent_hold_bytes: int = 256 * MIB
    """How much is held for them."""

    overflow: str = "drop"
    """Beyond that: "drop" the oldest (counted and logged) or "block": acknowledge no more."""

    drain_within_s: float = 10.0
    """How long a broker that stops waits for what it has sent to be acknowledged."""

    link_window_bytes: int = 4 * MIB
    """Publications under way on a link and tree, not yet acknowledged by those behind it."""

    link_window_messages: int = 16_384
    """The same in messages."""

    link_unacked_bytes: int = MIB
    """Data sent on a connection and not yet received: bounds what control messages may have to wait for."""

    link_replay_messages: int = 1_000_000
    """Messages kept for a neighbour that has not received them; beyond, its session begins anew."""

    backlog_bytes: int = 16 * MIB
    """Publications of clients here that wait for room on a link, for the disk or a second broker; beyond it,
    publishers are paused."""

    message_bytes_max: int = 1_048_576
    """The largest payload."""

    session_subscriptions_max: int = 10_000
    """Subscriptions of one session."""

    homes_filters_max: int = 1_000_000
    """Network-wide. Subscriptions of all other brokers that a broker keeps. A broker that asks for more than
    its share of them asks in fewer, wider ones."""

    cover_effort: int = 32
    """Subscriptions with which a new one is compared for covering and merging, at most, on one topic filter.
    Covering saves messages; what is not compared is forwarded."""

    deputies: bool = True
    """Network-wide. Whether what a seat has is copied to a second broker before it is told or acknowledged.
    Without, a seat that dies takes its open events with it until it is back."""

    seat_protocol: str = "report"
    """Network-wide. How seats are found: "report", or "paper", the published messages, for centres only."""

    seat_window_s: float = 20.0
    """How often traffic is counted and seats are looked at anew."""

    seat_windows: int = 3
    """In how many windows in a row another broker must be better before a seat moves."""

    seat_gain: float = 0.1
    """By how much better, as a share of the cost."""

    seat_stay_s: float = 60.0
    """How long a seat stays where it is, at least."""

    report_window: int = 4096
    """Reports of one broker on their way to one seat."""

    report_window_bytes: int = 4 * MIB
    """The same in bytes."""

    relay_margin_s: float = 1.0
    """How long before an event may close reports about it are no longer dropped on the way to its seat: by so
    much one may come later than others did."""

    relay_hold_s: float = 0.2
    """How long a report waits where it entered, for others to merge with, on topics that ask for it."""

    following_max: int = 100_000
    """Open events of which a broker remembers who has had which version; beyond, the longest unchanged is
    forgotten."""

    topic_cache: int = 4096
    """Topics whose matching topic filters are remembered."""


DEFAULT = Settings()
"""As shipped."""
