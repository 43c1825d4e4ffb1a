"""Who talks to whom: scale-free, random, or a small world (§IV-A). Messages of a pair are drawn."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path
from random import Random

from papers.communities.setting import Setting
from tidings.errors import InputError

SCALE_FREE, RANDOM, SMALL_WORLD = "scale-free", "random", "small-world"
KINDS = (SCALE_FREE, RANDOM, SMALL_WORLD)

MESSAGES_MAX = 20

HEADERS = (["from", "to"], ["src", "dst"], ["source", "target"])


def flows(kind: str, setting: Setting, rng: Random) -> list[tuple[str, str, float]]:
    """(sender, receiver, messages), in the order drawn."""
    pairs = {SCALE_FREE: scale_free, RANDOM: random, SMALL_WORLD: small_world}[kind](setting, rng)
    return [(f"u{sender}", f"u{receiver}", float(rng.randint(1, MESSAGES_MAX))) for sender, receiver in pairs]


def random(setting: Setting, rng: Random) -> list[tuple[int, int]]:
    """Each client subscribes to others at random."""
    return [
        (other, client)
        for client in range(setting.clients)
        for other in rng.sample([one for one in range(setting.clients) if one != client], setting.heard)
    ]


def small_world(setting: Setting, rng: Random) -> list[tuple[int, int]]:
    """Each client subscribes to its neighbours on a ring, and some links to anybody are added."""
    count = setting.clients
    steps = [step for near in range(1, setting.neighbours // 2 + 1) for step in (near, -near)]
    pairs = [((client + step) % count, client) for client in range(count) for step in steps]
    for _ in range(round(len(pairs) * setting.shortcuts)):
        sender, receiver = rng.sample(range(count), 2)
        pairs.append((sender, receiver))
    return pairs


def scale_free(setting: Setting, rng: Random) -> list[tuple[int, int]]:
    """Each new client hears from clients that many hear from already; or the pairs of a file."""
    if setting.edges:
        return _given(Path(setting.edges), setting.clients)
    ends = list(range(setting.joined))
    pairs: list[tuple[int, int]] = []
    for client in range(setting.joined, setting.clients):
        chosen: set[int] = set()
        while len(chosen) < setting.joined:
            chosen.add(rng.choice(ends))
        for other in sorted(chosen):
            pairs.append((other, client))
            ends += [other, client]
    return pairs


def _given(path: Path, clients: int) -> list[tuple[int, int]]:
    """The pairs among the first clients that a file names; a first line that names the columns is none."""
    numbers: dict[str, int] = {}
    found = []
    try:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8", newline="") as file:
            for number, row in enumerate(csv.reader(file)):
                if not number and [name.strip().lower() for name in row] in HEADERS:
                    continue
                if len(row) >= 2 and row[0] != row[1]:
                    a, b = (numbers.setdefault(name.strip(), len(numbers)) for name in row[:2])
                    if max(a, b) < clients:
                        found.append((a, b))
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"--set edges={path}: it cannot be read ({error}); give a CSV of from,to") from None
    if not found:
        raise InputError(f"--set edges={path}: there are no pairs in it; give a CSV of from,to")
    return found
