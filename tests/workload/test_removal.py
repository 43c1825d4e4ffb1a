"""Hot-interest removal: by rank, by share, by threshold; in every region, with its events or without."""

from __future__ import annotations

import numpy as np
import pytest

from tidings.workload.removal import remove
from tidings.workload.spec import Removal

MEMBERS = np.array([[[5, 5], [1, 2]], [[0, 30], [4, 6]], [[0, 0], [20, 32]]])
"""By interest 10, 3, 30, 10, 0 and 52; 105 together."""

MESSAGES = MEMBERS * 0.5 + 1.0


@pytest.mark.parametrize(
    ("options", "gone"),
    [
        (Removal(), ()),
        (Removal(top=2), ((2, 1), (1, 0))),
        (Removal(top=100), ((2, 1), (1, 0), (0, 0), (1, 1), (0, 1), (2, 0))),
        (Removal(share=0.4), ((2, 1),)),
        (Removal(share=0.5), ((2, 1), (1, 0))),
        (Removal(share=82 / 105), ((2, 1), (1, 0))),
        (Removal(share=1.0), ((2, 1), (1, 0), (0, 0), (1, 1), (0, 1))),
        (Removal(threshold=30), ((2, 1), (1, 0))),
        (Removal(threshold=31), ((2, 1),)),
        (Removal(top=1, share=0.4, threshold=10), ((2, 1), (1, 0), (0, 0), (1, 1))),
    ],
)
def test_the_most_popular_go_first_and_of_equal_ones_the_first(
    options: Removal, gone: tuple[tuple[int, ...], ...]
) -> None:
    assert remove(MEMBERS, MESSAGES, options).interests == gone


def test_an_interest_goes_in_every_region_and_all_others_stay_as_they_are() -> None:
    left = remove(MEMBERS, MESSAGES, Removal(top=2))
    assert left.members.tolist() == [[[5, 5], [1, 2]], [[0, 0], [4, 6]], [[0, 0], [0, 0]]]
    kept = left.members.sum(axis=-1) > 0
    assert np.array_equal(left.messages[kept], MESSAGES[kept])
    assert not left.messages[2, 1].any()


def test_its_events_stay_if_asked_for() -> None:
    left = remove(MEMBERS, MESSAGES, Removal(top=2, events_too=False))
    assert np.array_equal(left.messages, MESSAGES)


def test_what_was_given_is_not_changed() -> None:
    before = MEMBERS.copy(), MESSAGES.copy()
    remove(MEMBERS, MESSAGES, Removal(top=3))
    assert np.array_equal(MEMBERS, before[0])
    assert np.array_equal(MESSAGES, before[1])


def test_nothing_is_removed_where_nobody_is() -> None:
    nobody = np.zeros((2, 2, 3), np.int64)
    assert remove(nobody, nobody.astype(float), Removal(share=0.5, threshold=1)).interests == ()
