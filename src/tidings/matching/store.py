"""Boxes in arrays: taking them in, letting them go, and finding those that hold an event.

The store hands out places in the arrays of `state` and keeps what came and went since the last look in short
lists, so that a change costs a few appends. `settle` writes the lists to the arrays, all at once, and lets
the kernels move a bounded number of boxes into tiles. Boxes that are in no tile yet stand in a queue and are
tried one by one, so results never depend on how far that has come. Without kernels every box stays in the
queue, and numpy looks through all of them.
"""

from __future__ import annotations

import sys
from array import array
from types import ModuleType
from typing import Any

import numpy as np

from tidings.matching.axes import Constraint
from tidings.matching.compiling import compiled_batches
from tidings.matching.slabs import Slab, slab_of
from tidings.matching.state import (
    A_CAPACITY,
    A_LIST,
    A_SEEN,
    B_LENGTH,
    B_OFFSET,
    B_OWNER,
    B_SLOT,
    B_TILE,
    BUILD,
    D_COUNT,
    D_NEXT,
    D_OFFSET,
    DONE,
    ENTRY,
    H_BITS,
    H_BUDGET,
    H_BUMP,
    H_CLASSES,
    H_EPOCH,
    H_FREE_NODE,
    H_FREE_TABLE,
    H_FREE_TILE,
    H_LOOKED,
    H_MOVED,
    H_NODES,
    H_OTHER,
    H_QUEUE_END,
    H_QUEUE_START,
    H_TABLES,
    H_TILE,
    H_TILES,
    MERGE,
    O_TODO,
    ORDINAL_ROWS,
    S_BOXES,
    S_CANDIDATES,
    SAMPLES,
    SIZE_CLASSES,
    SPARE_WORDS,
    SPLIT,
    T_ATTRIBUTE,
    T_BASE,
    T_COLUMNS,
    T_LINES,
    T_PLACE,
    Array,
    Memory,
    State,
)

SETTLE_AFTER = 256
"""Changes after which the store settles by itself: the arrays are then written in one go."""

STEP = 4096
"""Effort that one settling may spend on tiles, in boxes moved."""


POLISH = 512
"""How much of it may go into looking after tiles: about two of them."""


MOVABLE_WORDS = 1 << 21
"""Words of the arena up to which it is moved at once, in a few milliseconds."""

MOVABLE_BLOCKS = 1024
"""Blocks up to which it is: many small ones take longer than few large ones."""

SLAB_FROM, SLAB_FROM_EACH = 2048, 4
"""Events since the last change from which a slab is made, and how many for each box: it takes as long as some
thousand of them, and saves three quarters of the time."""

FIRST_BLOCK = 8
"""Where blocks begin in the arena: 0 is none."""


class Store:
    """The boxes."""

    def __init__(self) -> None:
        self._memory = Memory(np.uint64, 4 * SPARE_WORDS)
        self._tiles = Memory(np.int64, 64, 10)
        self._nodes = Memory(np.uint64, 64, 6)
        self._attributes = Memory(np.int64, 64, 8)
        self._tables = Memory(np.int64, 64, 4)
        self._places = Memory(np.uint64, 4 * 64)
        self._samples = Memory(np.uint64, 64, SAMPLES)
        self._boxes = Memory(np.int32, 1024, 6)
        self._constraint_attribute = Memory(np.uint32, 1024)
        self._constraint_least = Memory(np.uint64, 1024)
        self._constraint_greatest = Memory(np.uint64, 1024)
        self._value = Memory(np.uint64, 64)
        self._stamp = Memory(np.int64, 64)
        self._bits = Memory(np.uint64, 512)
        self._summary = Memory(np.uint64, 512)
        self._queue = Memory(np.int32, 1024)
        self._scratch = Memory(np.int64, S_CANDIDATES + 1024)
        self._ordinals = Memory(np.uint64, ORDINAL_ROWS)
        self._head = Memory(np.int64, 256)
        # One bit per owner: its filter is inexact.
        self.doubtful = Memory(np.uint64, 512)
        # Per owner, one more than its first box; -1 if it is here without any, 0 if it is not here.
        self.first = Memory(np.int32, 1024)
        self.state = self._state()
        head = self.state.head
        head[H_BUMP] = FIRST_BLOCK
        head[H_FREE_TILE] = head[H_FREE_NODE] = head[H_FREE_TABLE] = -1
        self._box_count = 0
        self._constraint_count = 0
        self._free_boxes = array("i")
        self._free_constraints: dict[int, array[int]] = {}
        # What came and went since the last settling.
        self.fresh: dict[int, int] = {}
        self._rows: list[int] = []
        self._row_boxes: list[int] = []
        self._spots: list[int] = []
        self._heads: list[int] = []
        self._leasts: list[int] = []
        self._greatests: list[int] = []
        self._gone: list[int] = []
        # Whether the kernels have nothing left to do.
        self._calm = False
        self._slab: Slab | None = None
        # Events since the last change; less than 0 if there can be no slab until the next.
        self._asked = 0

    def _state(self) -> State:
        return State(
            self._memory.array,
            self._memory.array.view(np.uint32),
            self._tiles.array,
            self._nodes.array,
            self._attributes.array,
            self._samples.array,
            self._boxes.array,
            self._constraint_attribute.array,
            self._constraint_least.array,
            self._constraint_greatest.array,
            self._value.array,
            self._stamp.array,
            self._tables.array,
            self._places.array,
            self._bits.array,
            self._summary.array,
            self._queue.array,
            self._scratch.array,
            self._ordinals.array,
            self._head.array,
        )

    def _need(self, *needs: tuple[Memory, int]) -> None:
        if any(rows > len(memory.array) for memory, rows in needs):
            # Arrays that others hold cannot move: let go of them first.
            del self.state
            for memory, rows in needs:
                memory.need(rows)
            self.state = self._state()

    # Changes.

    def add(self, owner: int, boxes: list[list[Constraint]]) -> None:
        """Take in the boxes of an owner that is not here."""
        self._slab, self._asked = None, 0
        following = -1
        for constraints in boxes:
            length = len(constraints)
            if self._free_boxes:
                box = self._free_boxes.pop()
            else:
                box = self._box_count
                self._box_count += 1
            free = self._free_constraints.get(length)
            if free:
                start = free.pop()
            else:
                start = self._constraint_count
                self._constraint_count += length
            self._row_boxes.append(box)
            self._rows += (start, length, owner, following)
            self._spots += range(start, start + length)
            for head, least, greatest in constraints:
                self._heads.append(head)
                self._leasts.append(least)
                self._greatests.append(greatest)
            following = box
        self.fresh[owner] = following

    def remove(self, owner: int) -> list[tuple[int, int, int]]:
        """Let the boxes of an owner go; its constraints, as (attribute, least, greatest)."""
        self._slab, self._asked = None, 0
        if owner in self.fresh:
            self._write()
        box = int(self.first.array[owner]) - 1
        self.first.array[owner] = 0
        boxes = self._boxes.array
        constraints: list[tuple[int, int, int]] = []
        while box >= 0:
            self._gone.append(box)
            start, length, _, following = boxes[box, :4].tolist()
            stop = start + length
            constraints += zip(
                (self._constraint_attribute.array[start:stop] >> 1).tolist(),
                self._constraint_least.array[start:stop].tolist(),
                self._constraint_greatest.array[start:stop].tolist(),
                strict=True,
            )
            box = following
        return constraints

    @property
    def restless(self) -> bool:
        """Whether so much came and went that the store should settle."""
        return len(self.fresh) + len(self._gone) >= SETTLE_AFTER

    def settle(self, kernels: ModuleType | None, effort: int = STEP, polish: int = POLISH) -> None:
        """Write what came and went to the arrays, and let the kernels move some boxes."""
        if self.fresh or self._gone:
            self._head.array[H_LOOKED] = 0
        elif kernels is None or self._calm:
            return
        if self.fresh:
            self._write()
        gone = np.array(self._gone, dtype=np.int32)
        if kernels is None:
            if len(gone):
                boxes = self._boxes.array
                self._queue.array[boxes[gone, B_SLOT]] = -1
                boxes[gone, B_OWNER] = -1
                self._shorten_queue()
                self._free(gone)
        else:
            self._advance(kernels, gone, effort, polish)
            self._free(gone)
        self._calm = kernels is not None and self.settled

    @property
    def settled(self) -> bool:
        """Whether all boxes are in tiles, and every tile was looked at since something came or went."""
        head = self._head.array
        return bool(not head[H_QUEUE_END] and head[H_LOOKED] >= head[H_TILES])

    def _advance(self, kernels: ModuleType, gone: Array, effort: int, polish: int) -> None:
        head = self._head.array
        # What can be made, at the worst: a tile per box, two nodes each; and a table per column of a tile at
        # a time.
        boxes = min(int(head[H_QUEUE_END] - head[H_QUEUE_START]), effort) + effort // 512 + 16
        count = len(gone)
        head[H_BUDGET] = effort
        while True:
            tiles = int(head[H_TILES]) + boxes
            self._need(
                (self._tiles, tiles),
                (self._nodes, int(head[H_NODES]) + 2 * boxes),
                (self._tables, int(head[H_TABLES]) + 64),
                (self._places, 4 * (int(head[H_TABLES]) + 64)),
                # An event may enter every tile.
                (self._scratch, S_CANDIDATES + tiles + 64),
                (self._memory, int(head[H_BUMP]) + 2 * SPARE_WORDS),
            )
            state = self.state
            wanted = kernels.advance(state, gone, count, polish)
            if wanted == DONE:
                return
            count = 0
            head = state.head
            tile = int(head[H_TILE])
            if wanted == BUILD:
                kernels.build(state, tile, -1)
            elif wanted == MERGE:
                kernels.build(state, tile, int(head[H_MOVED]))
            elif wanted == SPLIT:
                kernels.build(state, tile, kernels.split(state, tile))
                moved = int(head[H_MOVED])
                state.scratch[S_BOXES : S_BOXES + moved] = state.ordinals[O_TODO : O_TODO + moved]
                kernels.build(state, int(head[H_OTHER]), moved)
            else:
                del state, head
                self._need((self._memory, 2 * len(self._memory.array)))
                head = self._head.array

    def _free(self, gone: Array) -> None:
        """Let the places of boxes that went be taken by others."""
        if not len(gone):
            return
        for start, length in self._boxes.array[gone][:, [B_OFFSET, B_LENGTH]].tolist():
            if length:
                self._free_constraints.setdefault(length, array("i")).append(start)
        self._free_boxes.extend(self._gone)
        self._gone.clear()

    def _write(self) -> None:
        """Write what came to the arrays and the queue."""
        count = len(self._row_boxes)
        owners = list(self.fresh)
        highest = max(owners) + 1
        head = self._head.array
        end = int(head[H_QUEUE_END])
        self._need(
            (self._boxes, self._box_count),
            (self._constraint_attribute, self._constraint_count),
            (self._constraint_least, self._constraint_count),
            (self._constraint_greatest, self._constraint_count),
            (self._queue, end + count),
            (self._bits, (highest >> 6) + 1),
            (self._summary, (highest >> 12) + 1),
        )
        self.first.need(highest)
        self.doubtful.need((highest >> 6) + 1)
        places = np.array(self._spots, dtype=np.int64)
        self._constraint_attribute.array[places] = self._heads
        self._constraint_least.array[places] = np.array(self._leasts, dtype=np.uint64)
        self._constraint_greatest.array[places] = np.array(self._greatests, dtype=np.uint64)
        rows = np.empty((count, 6), dtype=np.int32)
        rows[:, :4] = np.array(self._rows, dtype=np.int32).reshape(count, 4)
        rows[:, B_TILE] = -1
        rows[:, B_SLOT] = np.arange(end, end + count)
        self._boxes.array[self._row_boxes] = rows
        self._queue.array[end : end + count] = self._row_boxes
        head = self._head.array
        head[H_QUEUE_END] = end + count
        head[H_BITS] = max(int(head[H_BITS]), highest)
        firsts = np.array(list(self.fresh.values()), dtype=np.int32)
        self.first.array[owners] = np.where(firsts < 0, -1, firsts + 1)
        self.fresh.clear()
        for some in (self._rows, self._row_boxes, self._spots, self._heads, self._leasts, self._greatests):
            some.clear()

    def _shorten_queue(self) -> None:
        """Without kernels nothing leaves the queue at its start: close the gaps when they are many."""
        head = self._head.array
        end = int(head[H_QUEUE_END])
        if end > 2 * (self._box_count - len(self._free_boxes)) + 4 * SETTLE_AFTER:
            queue = self._queue.array
            kept = queue[:end][queue[:end] >= 0]
            queue[: len(kept)] = kept
            self._boxes.array[kept, B_SLOT] = np.arange(len(kept))
            head[H_QUEUE_END] = len(kept)

    @property
    def attribute_room(self) -> int:
        """How many attributes there is room for."""
        return min(len(self._attributes.array), len(self._samples.array), len(self._value.array))

    def attributes_are(self, count: int) -> None:
        """Make room for so many attributes."""
        self._need(
            (self._attributes, count), (self._samples, count), (self._value, count), (self._stamp, count)
        )

    def forget(self, attribute: int) -> None:
        """What was learnt of an attribute says nothing about the next one of its number."""
        self._attributes.array[attribute, A_SEEN] = 0

    def work(self, kernels: ModuleType, budget: int) -> bool:
        """Move boxes into tiles and look after tiles; whether there is more to do."""
        self.settle(kernels, budget, budget)
        if not self.settled:
            return True
        self._close_gaps()
        return False

    def _close_gaps(self) -> None:
        """Move the blocks of the arena together, where gaps are a fifth of it and all of it is soon moved.

        A growing tile leaves smaller blocks behind. Among many tiles the next one takes them; among a few
        tens they would weigh as much as the tiles.
        """
        head, memory = self._head.array, self._memory.array
        attributes = self._attributes.array
        bump = int(head[H_BUMP])
        if bump > MOVABLE_WORDS or head[H_TILES] + head[H_TABLES] + len(attributes) > MOVABLE_BLOCKS:
            return
        tiles, tables = self._tiles.array[: head[H_TILES]], self._tables.array[: head[H_TABLES]]
        kept = np.flatnonzero(tiles[:, T_LINES])
        listed = np.flatnonzero(attributes[:, A_CAPACITY])
        known = self._live_tables()
        starts = np.concatenate((tiles[kept, T_BASE], attributes[listed, A_LIST], tables[known, D_OFFSET]))
        lines = np.concatenate(
            (
                tiles[kept, T_LINES],
                attributes[listed, A_CAPACITY] * ENTRY // 8,
                (tables[known, D_COUNT] + 7) // 8,
            )
        )
        sizes = 8 * SIZE_CLASSES[np.searchsorted(SIZE_CLASSES, lines)]
        if 5 * int(sizes.sum()) > 4 * bump:
            return
        order = np.argsort(starts)
        places = np.empty(len(order), dtype=np.int64)
        places[order] = FIRST_BLOCK + np.concatenate(([0], np.cumsum(sizes[order])[:-1]))
        for start, place, words in zip(
            starts[order].tolist(), places[order].tolist(), (8 * lines[order]).tolist(), strict=True
        ):
            memory[place : place + words] = memory[start : start + words]
        # What points into a block: its own columns, and where it is listed.
        attributes[listed, A_LIST] = places[len(kept) : len(kept) + len(listed)]
        tables[known, D_OFFSET] = places[len(kept) + len(listed) :]
        tiles[kept, T_BASE] = places[: len(kept)]
        group = attributes[tiles[kept, T_ATTRIBUTE]]
        memory[group[:, A_LIST] + 2 * group[:, A_CAPACITY] + 8 * tiles[kept, T_PLACE]] = places[: len(kept)]
        moved = (places - starts)[: len(kept)].tolist()
        for place, by, columns in zip(places.tolist(), moved, tiles[kept, T_COLUMNS].tolist(), strict=False):
            rows = memory[place + 9 : place + 9 + 8 * columns : 8]
            rows += np.uint64(by % (1 << 64))
        head[H_CLASSES : H_CLASSES + len(SIZE_CLASSES)] = 0
        head[H_BUMP] = FIRST_BLOCK + int(sizes.sum())

    def _live_tables(self) -> list[int]:
        """All tables but those on the free list."""
        free = set()
        table = int(self._head.array[H_FREE_TABLE])
        while table >= 0:
            free.add(table)
            table = int(self._tables.array[table, D_NEXT])
        return [table for table in range(int(self._head.array[H_TABLES])) if table not in free]

    # Questions.

    def match(
        self, kernels: ModuleType, columns: Array, raw: Array, there: Array, room: int
    ) -> list[tuple[Array, int]]:
        """For each event of a batch: the owners whose boxes hold it, sorted, and how many of them are
        doubtful.
        """
        out, ends = np.empty(room, dtype=np.int64), np.empty((2, raw.shape[1]), dtype=np.int64)
        owners = self.find(kernels, columns, raw, there, out, ends, sys.maxsize)
        assert owners is not None, "no bound was given"
        found: list[tuple[Array, int]] = []
        at = 0
        for end, doubts in zip(*ends.tolist(), strict=True):
            found.append((owners[at:end], doubts))
            at = end
        return found

    def find(
        self,
        kernels: ModuleType,
        columns: Array,
        raw: Array,
        there: Array,
        out: Array,
        ends: Array,
        most: int,
    ) -> Array | None:
        """The same as two arrays: the owners of one event after the other, and in `ends`, for each event,
        where they end and how many of them are doubtful. The owners are left in `out` if there is room for
        all. None if it is seen that there are more than `most`.
        """
        count = raw.shape[1]
        slab = self._slab or self._new_slab(count)
        places = None if slab is None else slab.columns(columns)
        parts: list[Array] = []
        start = written = 0
        while start < count:
            if slab is None:
                done = kernels.match(
                    self.state, columns, raw, there, start, count, self.doubtful.array, out, ends
                )
            else:
                batches = compiled_batches()
                assert batches is not None, "all kernels come at once, and a slab after them"
                done = batches.ask(
                    slab.rows.array,
                    slab.groups,
                    slab.cuts,
                    slab.guides,
                    slab.attributes,
                    slab.owners,
                    places,
                    raw,
                    there,
                    start,
                    count,
                    self.doubtful.array,
                    slab.doubts,
                    slab.scratch,
                    out,
                    ends,
                )
            if done:
                size = int(ends[0, start + done - 1])
                if written:
                    ends[0, start : start + done] += written
                parts.append(out[:size])
                written += size
                start += done
            if start < count:
                if written > most:
                    return None
                # The next event alone may need more than there was.
                out = np.empty(max(len(out), 2 * int(ends[0, start]) + 64), dtype=np.int64)
        return parts[0] if len(parts) == 1 else np.concatenate(parts)

    def _new_slab(self, count: int) -> Slab | None:
        """A slab, if so many events more than were asked about since the last change are worth it."""
        if self._asked < 0:
            return None
        self._asked += count
        if self._asked >= max(SLAB_FROM, SLAB_FROM_EACH * self._box_count):
            self._slab = slab = slab_of(self.state, self._box_count)
            self._asked = -1
            if slab is not None:
                words = self.doubtful.array[slab.owners >> 6] >> (slab.owners & 63).astype(np.uint64)
                slab.doubts = bool((words & np.uint64(1)).any())
        return self._slab

    def scan(self, columns: Array, raw: Array, there: Array, event: int) -> tuple[Array, int]:
        """The same for one event by numpy: all boxes, constraint by constraint, fewer each time."""
        state = self.state
        state.head[H_EPOCH] += 1
        epoch = state.head[H_EPOCH]
        present = there[:, event] != 0
        heads = columns[present]
        values = raw[present, event]
        floats = (heads & 1) == 1
        bits = np.where(values == _SIGN, np.uint64(0), values)
        turned = bits ^ np.where(bits & _SIGN, _ALL, _SIGN)
        state.value[heads >> 1] = np.where(floats, turned, values)
        state.stamp[heads >> 1] = epoch
        boxes = state.boxes[: self._box_count]
        live = np.flatnonzero(boxes[:, B_OWNER] >= 0)
        hits: list[Array] = []
        step = 0
        while len(live):
            longer = boxes[live, B_LENGTH] > step
            hits.append(boxes[live[~longer], B_OWNER])
            live = live[longer]
            at = boxes[live, B_OFFSET] + step
            head = state.constraint_attribute[at]
            attribute = head >> 1
            value = state.value[attribute]
            inside = (state.constraint_least[at] <= value) & (value <= state.constraint_greatest[at])
            has = state.stamp[attribute] == epoch
            live = live[np.where(has, inside, (head & 1) == 1)]
            step += 1
        owners = np.unique(np.concatenate(hits)).astype(np.int64) if hits else np.empty(0, dtype=np.int64)
        words = self.doubtful.array[owners >> 6] >> (owners & 63).astype(np.uint64)
        return owners, int((words & np.uint64(1)).sum())

    # What it weighs.

    @property
    def bytes_used(self) -> int:
        """Bytes that were written to, in all arrays."""
        head = self._head.array
        owners = int(head[H_BITS])
        attributes = len(self._attributes.array)
        used: list[tuple[Memory, Any]] = [
            (self._memory, head[H_BUMP]),
            (self._tiles, head[H_TILES]),
            (self._nodes, head[H_NODES]),
            (self._attributes, attributes),
            (self._samples, attributes),
            (self._boxes, self._box_count),
            (self._constraint_attribute, self._constraint_count),
            (self._constraint_least, self._constraint_count),
            (self._constraint_greatest, self._constraint_count),
            (self._value, attributes),
            (self._stamp, attributes),
            (self._tables, head[H_TABLES]),
            (self._places, 4 * head[H_TABLES]),
            (self._bits, owners >> 6),
            (self._summary, owners >> 12),
            (self._queue, head[H_QUEUE_END]),
            (self._scratch, S_CANDIDATES + head[H_TILES]),
            (self._ordinals, ORDINAL_ROWS),
            (self.doubtful, owners >> 6),
            (self.first, owners),
        ]
        free = 4 * (len(self._free_boxes) + sum(map(len, self._free_constraints.values())))
        if self._slab is not None:
            free += self._slab.rows.array.nbytes
        return free + sum(int(rows) * memory.row_bytes for memory, rows in used)

    def image(self) -> dict[str, Array]:
        """Copies of the arrays that a match reads, by their names in `State`, as long as they are used."""
        head = self._head.array
        used: dict[str, tuple[Memory, Any]] = {
            "memory": (self._memory, head[H_BUMP]),
            "tiles": (self._tiles, head[H_TILES]),
            "nodes": (self._nodes, head[H_NODES]),
            "attributes": (self._attributes, len(self._attributes.array)),
            "boxes": (self._boxes, self._box_count),
            "constraint_attribute": (self._constraint_attribute, self._constraint_count),
            "constraint_least": (self._constraint_least, self._constraint_count),
            "constraint_greatest": (self._constraint_greatest, self._constraint_count),
            "tables": (self._tables, head[H_TABLES]),
            "queue": (self._queue, head[H_QUEUE_END]),
            "head": (self._head, len(head)),
            "doubtful": (self.doubtful, (int(head[H_BITS]) >> 6) + 1),
        }
        # One row at least: an empty array has no address.
        return {name: memory.array[: max(1, int(rows))].copy() for name, (memory, rows) in used.items()}

    def rehearse(self, kernels: ModuleType, batches: ModuleType) -> None:
        """Call every kernel once, which compiles or loads it."""
        self.attributes_are(2)
        self.add(0, [[(2, 0, 1)]])
        self.settle(kernels)
        self.match(
            kernels,
            np.array([2], dtype=np.int64),
            np.zeros((1, 1), dtype=np.uint64),
            np.ones((1, 1), dtype=np.uint8),
            64,
        )
        self.work(kernels, STEP)
        kernels.build(self.state, 0, -1)
        kernels.split(self.state, 0)
        self._rehearse_batch(batches)
        self.remove(0)
        self.settle(kernels)

    def _rehearse_batch(self, batches: ModuleType) -> None:
        data = np.frombuffer(b"{}", dtype=np.uint8)
        begins, ends = np.zeros(1, dtype=np.int64), np.full(1, 2, dtype=np.int64)
        keys, bits = np.zeros((1, 6), dtype=np.uint64), np.zeros((1, 1), dtype=np.uint64)
        raw, there, flags = bits.copy(), np.zeros((1, 1), dtype=np.uint8), np.zeros(1, dtype=np.uint8)
        numbers = np.zeros(2, dtype=np.int64)
        fields = np.zeros((16, 6), dtype=np.uint64)
        batches.read(data, begins, ends, data, fields, keys, raw, raw.view(np.float64), there, flags)
        slab = slab_of(self.state, self._box_count)
        assert slab is not None, "one box fits"
        batches.ask(
            slab.rows.array,
            slab.groups,
            slab.cuts,
            slab.guides,
            slab.attributes,
            slab.owners,
            slab.columns(numbers),
            raw,
            there,
            0,
            1,
            self.doubtful.array,
            slab.doubts,
            slab.scratch,
            numbers.copy(),
            numbers.reshape(2, 1).copy(),
        )
        batches.mark(numbers, begins, numbers, numbers, bits)
        takers = np.zeros(1, dtype=np.int32)
        batches.total(bits)
        kept = begins.copy()
        batches.count(bits, takers, kept, kept, takers, takers, kept)
        batches.join(data, begins, ends, takers, 0, 0, flags)


_SIGN = np.uint64(1 << 63)
_ALL = np.uint64((1 << 64) - 1)
