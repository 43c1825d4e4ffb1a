"""The inner loop of the search for seats, compiled: numbers in arrays, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray


@njit(cache=True)
def sweep(
    order: NDArray[np.int64],
    draws: NDArray[np.float64],
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
    price: float,
    heat: float,
    across_most: int,
    inside_most: int,
) -> None:
    """Take every client once, in an order, and seat it where it is best; `seats` changes.

    With heat it may stay where it is a little worse, by a draw: the bar that a move must take is lowered.
    """
    brokers = len(cluster_of)
    cluster_load = np.zeros(len(cluster_most))
    broker_load = np.zeros(brokers)
    across = inside = 0
    for client in range(len(seats)):
        at = seats[client]
        cluster_load[cluster_of[at]] += sent[client]
        broker_load[at] += sent[client]
        if cluster_of[at] != cluster_of[homes[client]]:
            across += 1
        elif at != homes[client]:
            inside += 1
    pull = np.zeros(brokers)
    for place in range(len(order)):
        client = order[place]
        now, home = seats[client], homes[client]
        for broker in range(brokers):
            pull[broker] = 0.0
        for edge in range(begins[client], begins[client + 1]):
            there, weight = seats[others[edge]], weights[edge]
            for broker in range(brokers):
                pull[broker] += weight * distances[there, broker]
        is_across = cluster_of[now] != cluster_of[home]
        is_inside = not is_across and now != home
        bar = pull[now] + (price if is_across else 0.0)
        best, best_cost = now, bar + heat * draws[place]
        for broker in range(brokers):
            cluster = cluster_of[broker]
            if cluster < 0 or broker == now:
                continue
            to_across = cluster != cluster_of[home]
            to_inside = not to_across and broker != home
            if to_across and not is_across and across >= across_most:
                continue
            if to_inside and not is_inside and inside >= inside_most:
                continue
            if cluster != cluster_of[now] and cluster_load[cluster] + sent[client] > cluster_most[cluster]:
                continue
            if broker_load[broker] + sent[client] > broker_most[broker]:
                continue
            cost = pull[broker] + (price if to_across else 0.0)
            if cost < best_cost - 1e-9:
                best, best_cost = broker, cost
        if best != now:
            cluster_load[cluster_of[now]] -= sent[client]
            cluster_load[cluster_of[best]] += sent[client]
            broker_load[now] -= sent[client]
            broker_load[best] += sent[client]
            if is_across:
                across -= 1
            elif is_inside:
                inside -= 1
            if cluster_of[best] != cluster_of[home]:
                across += 1
            elif best != home:
                inside += 1
            seats[client] = best
