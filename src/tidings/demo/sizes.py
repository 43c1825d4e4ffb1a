"""How large a demonstration is: what is generated, and in how much time a day of it is played.

Small ends within two minutes on two cores, medium within about five, large within about fifteen.
"""

from __future__ import annotations

from dataclasses import dataclass

DAY_S = 86_400
"""What is played is a day."""


@dataclass(frozen=True, slots=True)
class Size:
    """How much of everything."""

    brokers: int
    subscriptions: int
    """Each of a client of its own, and so an MQTT session."""

    events: int
    """About so many: arrivals are random."""

    requests: int
    """Clients that ask for all of the day when it is over."""

    play_s: int
    """In how many seconds the day is played, if the machine keeps up."""

    @property
    def speed_up(self) -> float:
        """How much faster than life that is."""
        return DAY_S / self.play_s


SIZES = {
    "small": Size(brokers=5, subscriptions=150, events=300, requests=60, play_s=15),
    "medium": Size(brokers=8, subscriptions=400, events=2_000, requests=100, play_s=60),
    "large": Size(brokers=12, subscriptions=600, events=4_000, requests=150, play_s=150),
}
