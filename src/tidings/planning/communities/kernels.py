"""The inner loops of the search for seats, compiled: numbers in arrays, and nothing else.

Brokers are numbered among those that may have clients; what joins them is in the distances.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


_STEP, _FIRST, _SECOND = (
    np.uint64(number) for number in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
)


@njit(cache=True, nogil=True)
def _draw(state: NDArray[np.uint64]) -> float:
    """A number from 0 to 1 (SplitMix64, Steele, Lea and Flood 2014); numpy's take seconds to compile."""
    state[0] += _STEP
    mixed = (state[0] ^ (state[0] >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return float((mixed ^ (mixed >> np.uint64(31))) >> np.uint64(11)) * 2.0**-53


@njit(cache=True, nogil=True)
def _put(
    client: int,
    goal: int,
    now: NDArray[np.int64],
    homes: NDArray[np.int64],
    cluster_of: NDArray[np.int64],
    sent: NDArray[np.float64],
    cluster_load: NDArray[np.float64],
    broker_load: NDArray[np.float64],
    moves: NDArray[np.int64],
) -> None:
    """Seat a client elsewhere; loads and both numbers of moves, across and inside, change with it."""
    at, home = now[client], homes[client]
    cluster_load[cluster_of[at]] -= sent[client]
    broker_load[at] -= sent[client]
    if at != home:
        moves[0 if cluster_of[at] != cluster_of[home] else 1] -= 1
    cluster_load[cluster_of[goal]] += sent[client]
    broker_load[goal] += sent[client]
    if goal != home:
        moves[0 if cluster_of[goal] != cluster_of[home] else 1] += 1
    now[client] = goal


@njit(cache=True, nogil=True)
def anneal(
    seed: int,
    steps: int,
    heat_first: float,
    heat_last: float,
    seats: NDArray[np.int64],
    homes: NDArray[np.int64],
    cluster_of: NDArray[np.int64],
    distances: NDArray[np.float64],
    begins: NDArray[np.int64],
    others: NDArray[np.int64],
    weights: NDArray[np.float64],
    sent: NDArray[np.float64],
    cluster_most: NDArray[np.float64],
    broker_most: NDArray[np.float64],
    moves_most: int,
    across_most: int,
    inside_most: int,
) -> float:
    """Try so many changes that are drawn, and take each that is better, or worse by what the heat allows.

    `seats` is the best seating at the end; what it saves is said. A change is one client to another broker,
    two clients that exchange their seats, or, for the sake of the moves allowed, one that goes home and
    another that goes out. All limits are kept at every step.
    """
    clients, brokers = len(seats), len(cluster_of)
    state = np.zeros(1, np.uint64)
    state[0] = seed
    now = seats.copy()
    cluster_load = np.zeros(len(cluster_most))
    broker_load = np.zeros(brokers)
    moves = np.zeros(2, np.int64)
    # Clients that are not at home, in any order, and where in that list each is.
    away = np.empty(clients, np.int64)
    place = np.empty(clients, np.int64)
    gone = 0
    for client in range(clients):
        at = now[client]
        place[client] = -1
        cluster_load[cluster_of[at]] += sent[client]
        broker_load[at] += sent[client]
        if at != homes[client]:
            away[gone] = client
            place[client] = gone
            gone += 1
            moves[0 if cluster_of[at] != cluster_of[homes[client]] else 1] += 1
    saved = best = 0.0
    cooling = (heat_last / heat_first) ** (1.0 / max(1, steps)) if heat_first > 0.0 else 1.0
    heat = heat_first
    movers = np.empty(2, np.int64)
    goals = np.empty(2, np.int64)
    froms = np.empty(2, np.int64)
    for step in range(steps):
        heat *= cooling
        # Looked at only now and then, since keeping a seating takes as long as a step for every client.
        if step % clients == 0 and saved > best + 1e-9:
            best = saved
            for client in range(clients):
                seats[client] = now[client]
        kind = _draw(state)
        one = int(_draw(state) * clients)
        count = 1
        movers[0] = one
        if kind < 0.3 and clients > 1:
            other = int(_draw(state) * clients)
            movers[1], goals[0], goals[1] = other, now[other], now[one]
            count = 2
            if other == one or now[other] == now[one]:
                continue
        else:
            # To where somebody is that it talks to, or anywhere; now and then home.
            degree = begins[one + 1] - begins[one]
            if kind < 0.7 and degree:
                goals[0] = now[others[begins[one] + int(_draw(state) * degree)]]
            elif kind < 0.75:
                goals[0] = homes[one]
            else:
                goals[0] = int(_draw(state) * brokers)
            if goals[0] == now[one]:
                continue
            if kind >= 0.85 and gone:
                other = away[int(_draw(state) * gone)]
                if other != one:
                    movers[1], goals[1] = other, homes[other]
                    count = 2
        change = 0.0
        for number in range(count):
            client, goal = movers[number], goals[number]
            at = now[client]
            froms[number] = at
            for edge in range(begins[client], begins[client + 1]):
                there = now[others[edge]]
                change += weights[edge] * (distances[there, goal] - distances[there, at])
            _put(client, goal, now, homes, cluster_of, sent, cluster_load, broker_load, moves)
        taken = change <= 0.0 or (heat > 0.0 and _draw(state) < np.exp(-change / heat))
        taken = taken and moves[0] <= across_most and moves[1] <= inside_most
        taken = taken and moves[0] + moves[1] <= moves_most
        if taken:
            for number in range(count):
                at, goal = froms[number], goals[number]
                cluster = cluster_of[goal]
                if broker_load[goal] > broker_most[goal] or (
                    cluster != cluster_of[at] and cluster_load[cluster] > cluster_most[cluster]
                ):
                    taken = False
        if taken:
            saved -= change
            for number in range(count):
                client = movers[number]
                if now[client] == homes[client] and place[client] >= 0:
                    gone -= 1
                    last = away[gone]
                    away[place[client]] = last
                    place[last] = place[client]
                    place[client] = -1
                elif now[client] != homes[client] and place[client] < 0:
                    away[gone] = client
                    place[client] = gone
                    gone += 1
        else:
            for number in range(count):
                _put(
                    movers[number],
                    froms[number],
                    now,
                    homes,
                    cluster_of,
                    sent,
                    cluster_load,
                    broker_load,
                    moves,
                )
    if saved > best + 1e-9:
        best = saved
        for client in range(clients):
            seats[client] = now[client]
    return best


@njit(cache=True, nogil=True)
def settle(
    order: NDArray[np.int64],
    awake: NDArray[np.bool_],
    seats: NDArray[np.int64],
    homes: NDArray[np.int64],
    cluster_of: NDArray[np.int64],
    distances: NDArray[np.float64],
    begins: NDArray[np.int64],
    others: NDArray[np.int64],
    weights: NDArray[np.float64],
    sent: NDArray[np.float64],
    cluster_most: NDArray[np.float64],
    broker_most: NDArray[np.float64],
    moves_most: int,
    across_most: int,
    inside_most: int,
) -> int:
    """Take every client that is awake, in an order, and seat it where it is best; `seats` changes.

    Says how many went. A client that stays falls asleep, and those who talk to one that goes wake up.
    """
    brokers = len(cluster_of)
    cluster_load = np.zeros(len(cluster_most))
    broker_load = np.zeros(brokers)
    across = inside = gone = 0
    for client in range(len(seats)):
        at = seats[client]
        cluster_load[cluster_of[at]] += sent[client]
        broker_load[at] += sent[client]
        if cluster_of[at] != cluster_of[homes[client]]:
            across += 1
        elif at != homes[client]:
            inside += 1
    pull = np.zeros(brokers)
    talk = np.zeros(brokers)
    heard = np.empty(brokers, np.int64)
    for place in range(len(order)):
        client = order[place]
        if not awake[client]:
            continue
        awake[client] = False
        now, home = seats[client], homes[client]
        # Those at one broker pull alike, so brokers are gone through and not clients.
        count = 0
        for edge in range(begins[client], begins[client + 1]):
            there = seats[others[edge]]
            if talk[there] == 0.0:
                heard[count] = there
                count += 1
            talk[there] += weights[edge]
        pull[:] = 0.0
        for number in range(count):
            there = heard[number]
            weight = talk[there]
            talk[there] = 0.0
            for broker in range(brokers):
                pull[broker] += weight * distances[there, broker]
        is_across = cluster_of[now] != cluster_of[home]
        is_inside = not is_across and now != home
        best, best_pull = now, pull[now]
        for broker in range(brokers):
            if broker == now or pull[broker] >= best_pull - 1e-9:
                continue
            cluster = cluster_of[broker]
            to_across = cluster != cluster_of[home]
            to_inside = not to_across and broker != home
            if to_across and not is_across and across >= across_most:
                continue
            if to_inside and not is_inside and inside >= inside_most:
                continue
            if broker != home and now == home and across + inside >= moves_most:
                continue
            if cluster != cluster_of[now] and cluster_load[cluster] + sent[client] > cluster_most[cluster]:
                continue
            if broker_load[broker] + sent[client] > broker_most[broker]:
                continue
            best, best_pull = broker, pull[broker]
        if best != now:
            cluster_load[cluster_of[now]] -= sent[client]
            cluster_load[cluster_of[best]] += sent[client]
            broker_load[now] -= sent[client]
            broker_load[best] += sent[client]
            across += (cluster_of[best] != cluster_of[home]) - is_across
            inside += (cluster_of[best] == cluster_of[home] and best != home) - is_inside
            seats[client] = best
            gone += 1
            for edge in range(begins[client], begins[client + 1]):
                awake[others[edge]] = True
    return gone
