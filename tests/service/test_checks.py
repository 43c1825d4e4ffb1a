"""Whose password is checked next: good users under floods of wrong passwords."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial

import pytest

from tidings.service.checks import (
    NAMES_MAX,
    NOBODY,
    PAUSE_S,
    SOURCES_MAX,
    WAITING_MAX,
    Check,
    Checks,
    source_of,
)

CHECK_S = 0.08
AT_ONCE = 2
RATE = 600
"""Wrong passwords in a second."""

FLOOD_S = 6
GOOD = -1
RIGHT = b"right"

Arrival = tuple[float, int, str, str, bytes]
"""When somebody comes, as which connection, from where, with which name and password."""


def run(arrivals: Iterable[Arrival]) -> tuple[dict[int, tuple[float, str]], int]:
    """Everybody's answer and when it came; and how many passwords were checked.

    The good one comes back after a fifth of a second where it is told that the broker is busy.
    """
    checks = Checks()
    answers: dict[int, tuple[float, str]] = {}
    agenda: list[tuple[float, int, Callable[[float], None]]] = []
    numbers = itertools.count()
    running = made = 0

    def later(at: float, do: Callable[[float], None]) -> None:
        heapq.heappush(agenda, (at, next(numbers), do))

    def come(arrival: Arrival, now: float) -> None:
        for other in checks.add(*arrival[1:], now):
            if other == GOOD:
                later(now + 0.2, partial(come, arrival))
            else:
                answers[other] = (now, "busy")

    def done(check: Check, now: float) -> None:
        nonlocal running
        running -= 1
        fits = check.password == RIGHT
        checks.done(check, fits, now)
        for connection in check.connections:
            answers[connection] = (now, "in" if fits else "wrong")

    for arrival in arrivals:
        later(arrival[0], partial(come, arrival))
    while agenda:
        now, _, do = heapq.heappop(agenda)
        do(now)
        while running < AT_ONCE and (check := checks.next(now)) is not None:
            running += 1
            made += 1
            later(now + CHECK_S, partial(done, check))
        if running < AT_ONCE and (at := checks.wake_at(now)) is not None:
            later(at, lambda _: None)
    assert checks.waiting == 0
    return answers, made


def flood(host: str = "192.0.2.1", names: tuple[str, ...] = (NOBODY,), hosts: int = 1) -> Iterator[Arrival]:
    """Wrong passwords, none of them twice."""
    for number in range(RATE * FLOOD_S):
        at = number / RATE
        source = host if hosts == 1 else f"198.51.{number % hosts // 256}.{number % hosts % 256}"
        yield at, number, source, names[number % len(names)], b"wrong %d" % number


@pytest.mark.parametrize(
    "attack",
    [
        flood("192.0.2.1"),
        flood("192.0.2.1", ("ann", "bob", "eve")),
        flood("192.0.2.1", ("good",)),
        flood("192.0.2.9"),
        flood("192.0.2.9", tuple(f"user-{at}" for at in range(20))),
        flood(hosts=200, names=("good", NOBODY)),
    ],
    ids=[
        "another address, unknown names",
        "another address, others' names",
        "another address, the same name",
        "the same address, unknown names",
        "the same address, others' names",
        "200 addresses, the same name",
    ],
)
def test_a_good_user_is_let_in_within_two_seconds_under_a_flood(attack: Iterator[Arrival]) -> None:
    answers, _ = run([*attack, (3.0, GOOD, "192.0.2.9", "good", RIGHT)])
    at, outcome = answers[GOOD]
    assert outcome == "in"
    assert at - 3.0 <= 2.0
    assert len(answers) == RATE * FLOOD_S + 1, "everybody is answered"


def test_an_address_that_fails_again_and_again_makes_few_checks() -> None:
    _, made = run(flood("192.0.2.1", ("ann",)))
    assert made <= 0.25 * FLOOD_S / CHECK_S * AT_ONCE


def test_one_mistake_costs_a_tenth_of_a_second() -> None:
    arrivals = [(0.0, 1, "192.0.2.1", "ann", b"typo"), (CHECK_S + 0.01, GOOD, "192.0.2.1", "ann", RIGHT)]
    answers, _ = run(arrivals)
    assert answers[1] == (CHECK_S, "wrong")
    at, outcome = answers[GOOD]
    assert outcome == "in"
    assert at == pytest.approx(CHECK_S + PAUSE_S + CHECK_S)


def test_unknown_names_and_known_ones_are_answered_after_the_same_time() -> None:
    """As long as they come one after the other: how long it takes does not tell whether there is a user."""
    times = []
    for name in (NOBODY, "ann"):
        arrivals = [(float(at), at, "192.0.2.1", name, b"guess %d" % at) for at in range(5)]
        times.append(run(arrivals)[0])
    assert times[0] == times[1]


def test_devices_with_one_name_and_password_wait_for_one_check() -> None:
    answers, made = run((0.001 * at, at, "192.0.2.1", "sensor", RIGHT) for at in range(70))
    assert {outcome for _, outcome in answers.values()} == {"in"}
    assert made == 1


def test_many_users_that_come_back_at_once_are_served_in_their_order() -> None:
    answers, made = run((0.0, at, f"192.0.2.{at}", f"user-{at}", RIGHT) for at in range(100))
    assert made == 100
    assert [answers[at][0] for at in range(100)] == sorted(at for at, _ in answers.values())


def test_what_is_remembered_of_addresses_is_bounded() -> None:
    checks = Checks()
    for at in range(SOURCES_MAX + 500):
        source = f"2001:db8:{at >> 8:x}:{at & 255:x}::1"
        for number in range(NAMES_MAX + 5 if at < 3 else 1):
            checks.add(at, source, f"user-{number}", b"wrong", 0.0)
            check = checks.next(10.0)
            assert check is not None
            checks.done(check, False, 0.0)
    assert len(checks._failed) == SOURCES_MAX
    assert max(len(failed.names) for failed in checks._failed.values()) <= NAMES_MAX


def test_where_too_many_wait_the_address_with_the_most_gives_way() -> None:
    checks = Checks()
    for at in range(WAITING_MAX):
        assert checks.add(at, "192.0.2.1", f"user-{at}", b"x", 0.0) == []
    assert checks.add(1000, "192.0.2.1", "another", b"x", 0.0) == [1000]
    assert checks.add(1001, "192.0.2.2", "good", RIGHT, 0.0) == [WAITING_MAX - 1]
    assert checks.waiting == WAITING_MAX
    first, second = checks.next(0.0), checks.next(0.0)
    assert first is not None
    assert second is not None
    assert {first.source, second.source} == {"192.0.2.1", "192.0.2.2"}


def test_an_ipv6_network_is_one_address() -> None:
    assert source_of("2001:db8::1") == source_of("2001:db8::ffff:2") != source_of("2001:db8:0:1::1")
    assert source_of("fe80::1%eth0") == source_of("fe80::2")
    assert source_of("::ffff:192.0.2.1") == "192.0.2.1"
    assert source_of("") == ""
