"""The machine in numba: the reports of one key after another, each key from its first report to its last.

Importing this module imports numba; `columnar` alone does so, and only when it gathers. What an event holds
of a field is the number of the row that it came from, so that values of any type are only compared here and
never made: whole numbers, times, truth values and codes of texts as they are, floats by their bits.
docs/gathering.md has the rules; `gathering.gatherer` is the same machine for any order of keys.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

FIRST, LAST, MAX, MIN = 0, 1, 2, 3
"""Policies, as numbers."""

COMPLETE_EVENT, COMPLETE_REPORT, COMPLETE_ONCE = 0, 1, 2

BY_REDUNDANT, BY_WINDOW = 0, 1
"""Which clock closed an event."""

NEVER = np.int64(np.iinfo(np.int64).max)
"""A clock that does not run."""

NONE = np.int64(-1)
"""No row."""

V_VERSION, V_MERGED, V_UNTOLD, V_REDUNDANT, V_CONFLICTS, V_LATE, V_MERGE_US, V_REDUNDANT_US, V_WINDOW_US = (
    range(9)
)
"""The numbers of an entry, in the order of `layout.NUMBERS`."""

T_AT, T_EVENT, T_VERSION, T_REPORTS, T_COMPLETE = range(5)
"""The numbers of a version: T_EVENT is the row that names it."""

C_AT, C_EVENT, C_VERSION, C_REPORTS, C_COMPLETE, C_BY, C_REASON, C_REDUNDANT, C_CONFLICTS, C_LATE = range(10)
"""The numbers of a closing: C_BY is the row of the report that closed it, or none."""

OPTIONS = ("merge_after_us", "redundant_for_us", "window_us", "reported", "now", "complete", "until_us")
"""What `options` holds: with W, NEVER for none; `until_us` is the time up to which clocks run out."""

_njit: Any = numba.njit


def make(cache: bool) -> Any:
    """The compiled machine; with `cache` it is kept where numba's settings say."""
    return _njit(cache=cache, nogil=True)(gather)


def gather(
    order: Any,
    group: Any,
    entries: int,
    at: Any,
    late: Any,
    values: Any,
    reals: Any,
    present: Any,
    numbers: Any,
    policy: Any,
    real: Any,
    tolerance: Any,
    tolerance_real: Any,
    options: Any,
    told: Any,
    told_from: Any,
    closed: Any,
    held: Any,
    held_from: Any,
) -> Any:
    """Gather; how many versions and closings there are, and how many entries stay open.

    Rows below `entries` are open entries, with their `numbers`; the others are reports. `order` has all rows,
    those of one `group` together, an entry before reports and these by time and id. `reals` are the same bits
    as `values`. `told` and `told_from` are filled with versions and the rows that their fields come from,
    `closed` with closings, `held` and `held_from` with entries that stay open.
    """
    merge_after_us, redundant_for_us, window_for_us = options[0], options[1], options[2]
    reported, tell_first_now, complete_mode, until_us = options[3], options[4], options[5], options[6]
    total = values.shape[1]
    known = np.empty(total, np.int64)
    told_count = 0
    closed_count = 0
    held_count = 0
    place = 0
    rows = order.shape[0]
    while place < rows:
        this = group[order[place]]
        is_open = False
        event = NONE
        version = merged = untold = redundant = conflicts = lates = filled = np.int64(0)
        merge_us = redundant_us = window_us = NEVER
        while True:
            last = place >= rows or group[order[place]] != this
            row = NONE if last else order[place]
            if not last and row < entries:
                is_open = True
                event = row
                version, merged = numbers[row, V_VERSION], numbers[row, V_MERGED]
                untold, redundant = numbers[row, V_UNTOLD], numbers[row, V_REDUNDANT]
                conflicts, lates = numbers[row, V_CONFLICTS], numbers[row, V_LATE]
                merge_us, redundant_us = numbers[row, V_MERGE_US], numbers[row, V_REDUNDANT_US]
                window_us = numbers[row, V_WINDOW_US]
                filled = np.int64(0)
                for field in range(total):
                    known[field] = row if present[row, field] else NONE
                    filled += present[row, field]
                place += 1
                continue
            now_us = until_us if last else at[row]

            # Clocks that are due by now run out first.
            while is_open:
                close_us = min(redundant_us, window_us)
                if min(merge_us, close_us) > now_us:
                    break
                closes = close_us <= merge_us
                due_us = close_us if closes else merge_us
                if not closes or untold:
                    version += 1
                    untold = np.int64(0)
                    merge_us = NEVER
                    told[told_count, T_AT] = due_us
                    told[told_count, T_EVENT] = event
                    told[told_count, T_VERSION] = version
                    told[told_count, T_REPORTS] = 1 + merged
                    told[told_count, T_COMPLETE] = filled == total
                    for field in range(total):
                        told_from[told_count, field] = known[field]
                    told_count += 1
                if closes:
                    closed[closed_count, C_AT] = due_us
                    closed[closed_count, C_EVENT] = event
                    closed[closed_count, C_VERSION] = version
                    closed[closed_count, C_REPORTS] = 1 + merged
                    closed[closed_count, C_COMPLETE] = filled == total
                    closed[closed_count, C_BY] = NONE
                    closed[closed_count, C_REASON] = BY_WINDOW if window_us < redundant_us else BY_REDUNDANT
                    closed[closed_count, C_REDUNDANT] = redundant
                    closed[closed_count, C_CONFLICTS] = conflicts
                    closed[closed_count, C_LATE] = lates
                    closed_count += 1
                    is_open = False
            if last:
                break
            place += 1

            at_once = False
            if not is_open:
                is_open = True
                event = row
                version = merged = redundant = conflicts = lates = filled = np.int64(0)
                untold = np.int64(1)
                merge_us = NEVER
                redundant_us = now_us + redundant_for_us
                window_us = NEVER if window_for_us == NEVER else now_us + window_for_us
                for field in range(total):
                    known[field] = row if present[row, field] else NONE
                    filled += present[row, field]
                lates += late[row]
                at_once = tell_first_now == 1 or filled == total
            else:
                lates += late[row]
                was_complete = filled == total
                changed = False
                brought = 0
                for field in range(total):
                    if not present[row, field]:
                        continue
                    brought += 1
                    source = known[field]
                    if source == NONE:
                        known[field] = row
                        filled += 1
                        changed = True
                        continue
                    if real[field]:
                        one, other = reals[source, field], reals[row, field]
                        if one == other or abs(one - other) <= tolerance_real[field]:
                            continue
                        greater = other > one
                    else:
                        first, second = values[source, field], values[row, field]
                        if first == second:
                            continue
                        greater = second > first
                        # Two numbers of 64 bits may be further apart than a number of 64 bits can say.
                        apart = (
                            np.uint64(second) - np.uint64(first)
                            if greater
                            else np.uint64(first) - np.uint64(second)
                        )
                        if apart <= tolerance[field]:
                            continue
                    conflicts += 1
                    rule = policy[field]
                    if rule == LAST or (rule == MAX and greater) or (rule == MIN and not greater):
                        known[field] = row
                        changed = True
                if not changed:
                    redundant += 1
                    if reported:
                        redundant_us = now_us + redundant_for_us
                    continue
                merged += 1
                untold = np.int64(1)
                redundant_us = now_us + redundant_for_us
                if complete_mode == COMPLETE_EVENT:
                    at_once = filled == total
                elif complete_mode == COMPLETE_ONCE:
                    at_once = filled == total and not was_complete
                else:
                    at_once = brought == total

            # It has been opened or changed: is it told, and when?
            closes = min(redundant_us, window_us) <= now_us
            if closes or at_once or merge_after_us == 0:
                version += 1
                untold = np.int64(0)
                merge_us = NEVER
                told[told_count, T_AT] = now_us
                told[told_count, T_EVENT] = event
                told[told_count, T_VERSION] = version
                told[told_count, T_REPORTS] = 1 + merged
                told[told_count, T_COMPLETE] = filled == total
                for field in range(total):
                    told_from[told_count, field] = known[field]
                told_count += 1
            elif merge_us == NEVER:
                merge_us = now_us + merge_after_us
            if closes:
                closed[closed_count, C_AT] = now_us
                closed[closed_count, C_EVENT] = event
                closed[closed_count, C_VERSION] = version
                closed[closed_count, C_REPORTS] = 1 + merged
                closed[closed_count, C_COMPLETE] = filled == total
                closed[closed_count, C_BY] = row
                closed[closed_count, C_REASON] = BY_WINDOW if window_us < redundant_us else BY_REDUNDANT
                closed[closed_count, C_REDUNDANT] = redundant
                closed[closed_count, C_CONFLICTS] = conflicts
                closed[closed_count, C_LATE] = lates
                closed_count += 1
                is_open = False

        if is_open:
            held[held_count, 0] = event
            held[held_count, 1 + V_VERSION] = version
            held[held_count, 1 + V_MERGED] = merged
            held[held_count, 1 + V_UNTOLD] = untold
            held[held_count, 1 + V_REDUNDANT] = redundant
            held[held_count, 1 + V_CONFLICTS] = conflicts
            held[held_count, 1 + V_LATE] = lates
            held[held_count, 1 + V_MERGE_US] = merge_us
            held[held_count, 1 + V_REDUNDANT_US] = redundant_us
            held[held_count, 1 + V_WINDOW_US] = window_us
            for field in range(total):
                held_from[held_count, field] = known[field]
            held_count += 1
    return told_count, closed_count, held_count
