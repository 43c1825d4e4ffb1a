"""Rows as Arrow tables, made column by column.

What a broker writes down it makes a table of while it serves clients, so what counts here is not only the
time that it takes but for how long at a stretch it holds the interpreter, which keeps all other threads from
running. `Columns` takes rows in as many portions as its owner likes, with a little Python for each; `table`
then does the rest in numpy and Arrow, which let others run. It knows nothing of files.

Runs are what comes in great numbers. A *head* is all in a row of a run that hardly differs from run to run;
each different head becomes one row, by way of JSON, and is then spread over the rows that have it. pyarrow is
loaded when first needed. `pyarrow.array` and `scalar` are not used: they load pandas, where there is one.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import chain, count, groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import msgspec

from tidings.records.record import Receivers, Record, Run
from tidings.records.schema import arrow_schema

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Integers = np.ndarray[tuple[int], np.dtype[np.int64]]
    Small = np.ndarray[tuple[int], np.dtype[np.int32]]


WORDS = ("broker", "kind", "topic", "publisher", "client", "link", "reason", "epoch")
"""Columns in which the same strings come again and again."""

STRETCHES_MAX = 64
"""Up to so many turns between records and runs, each stretch is a piece of the table."""


def table_of(rows: Iterable[Record | Run]) -> pa.Table:
    """Rows as a table, in the order given; a run stands for all its records."""
    columns = Columns()
    columns.add(list(rows))
    return columns.table()


class Columns:
    """The columns of a table to be."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        """The records that came one by one, as JSON."""
        self._single = 0
        self._runs = _Runs()
        self._is_run: list[Integers] = []
        """For everything that came, in order: 1 for a run."""

    def add(self, rows: Sequence[Record | Run]) -> None:
        """Take some rows. The interpreter is held for about 0.5 us for each record and 1 us for each run."""
        runs = [row for row in rows if isinstance(row, Run)]
        self._is_run.append(_integers([isinstance(row, Run) for row in rows], len(rows)))
        if runs:
            self._runs.add(runs)
        if len(runs) < len(rows):
            records = [row for row in rows if isinstance(row, Record)]
            self._lines.append(msgspec.json.Encoder().encode_lines(records))
            self._single += len(records)

    def table(self) -> pa.Table:
        """All of them, in the order in which they came."""
        import numpy as np
        import pyarrow as pa

        if not self._single:
            return self._runs.table(words=False)
        single = _table_of_lines(b"".join(self._lines))
        if self._single == sum(map(len, self._is_run)):
            return single
        runs = self._runs.table(words=False)
        is_run = np.concatenate(self._is_run).astype(bool)
        lengths = np.ones(len(is_run), np.int64)
        lengths[is_run] = np.concatenate(self._runs.lengths)
        turns = np.flatnonzero(is_run[1:] != is_run[:-1]) + 1
        if len(turns) <= STRETCHES_MAX:
            # Mostly they are the one or the other: then stretches of both are put together as they are.
            ends = [0, *np.cumsum(lengths)[turns - 1].tolist(), int(lengths.sum())]
            left = {True: runs, False: single}
            parts = []
            for is_one, rows in zip(is_run[[0, *turns]].tolist(), np.diff(ends).tolist(), strict=True):
                parts.append(left[is_one].slice(0, rows))
                left[is_one] = left[is_one].slice(rows)
            return pa.concat_tables(parts)
        order = self._order(is_run, lengths)
        return pa.concat_tables([single, runs]).combine_chunks().take(_column(order))

    def packed(self) -> pa.Table:
        """The same rows as is quickest to write: where all are of runs, words are numbers in a dictionary."""
        return self.table() if self._single else self._runs.table(words=True)

    def _order(self, is_run: np.ndarray[tuple[int], np.dtype[np.bool_]], lengths: Integers) -> Integers:
        """Where the rows are, if those that came one by one stand before those of runs."""
        import numpy as np

        starts = np.empty(len(is_run), np.int64)
        starts[~is_run] = np.arange(self._single)
        starts[is_run] = self._single + _starts(lengths[is_run])
        return np.repeat(starts, lengths) + _steps(lengths)


_SHARED = attrgetter("broker", "boot", "kind", "prefix", "client", "link", "hops", "reason", "epoch")
"""What all rows of a run have in common; with its topic and publisher it is a head."""

_HEAD = (
    "broker", "boot", "kind", "topic", "message", "publisher", "client", "link", "hops", "reason", "epoch",
)  # fmt: skip
"""The columns that a head fills, `message` in part."""


class _Runs:
    """The same for runs alone. Each list has an array for each portion."""

    def __init__(self) -> None:
        self.lengths: list[Integers] = []
        """Of each run."""
        self._n: list[Integers] = []
        self._at: list[Integers] = []
        self._has_latency: list[Integers] = []
        self._latency_us = _Shared()
        self._numbers: list[Integers] = []
        """Of each row."""
        self._bytes = _Shared()
        self._receivers = _Shared()
        self._heads = _numbering()
        self._lists = _Lists()
        self._head = _Shared()

    def add(self, runs: Sequence[Run]) -> None:
        many = len(runs)
        lengths = _integers(map(len, runs), many)
        self.lengths.append(lengths)
        self._n.append(_integers([run.n for run in runs], many))
        self._at.append(_integers([run.at for run in runs], many))
        latencies = [run.latency_us or (0,) for run in runs]
        self._latency_us.add(latencies, list(chain.from_iterable(latencies)))
        self._has_latency.append(_integers([len(run.latency_us) > 0 for run in runs], many))
        if all(type(run.numbers) is range and run.numbers.step == 1 for run in runs):
            starts = _integers([run.numbers[0] if run.numbers else 0 for run in runs], many)
            self._numbers.append(starts.repeat(lengths) + _steps(lengths))
        else:
            self._numbers += [_numbers(run.numbers) for run in runs]
        self._head.add([run.which for run in runs], self._heads_of(runs))
        sizes = [run.bytes for run in runs]
        self._bytes.add(sizes, list(chain.from_iterable(sizes)))
        receivers = [run.receivers for run in runs]
        self._receivers.add(receivers, self._lists.add(receivers))

    def _heads_of(self, runs: Sequence[Run]) -> list[int]:
        """The numbers of the heads of some runs, one for each run or one for each row."""
        heads = self._heads
        found: list[int] = []
        for run in runs:
            shared, topics, publishers = _SHARED(run), run.topics, run.publishers
            if len(run.which) == 1:
                at = run.which[0]
                found.append(heads[shared, topics[at], publishers[at]])
                continue
            # A part of a run has all topics of the whole.
            known = {at: heads[shared, topics[at], publishers[at]] for at in dict.fromkeys(run.which)}
            found += [known[at] for at in run.which]
        return found

    def table(self, *, words: bool) -> pa.Table:
        """All rows; `words` is whether strings that come again and again are given once, in dictionaries."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if not self.lengths:
            return arrow_schema().empty_table()
        lengths = np.concatenate(self.lengths)
        steps = _steps(lengths)
        lines = msgspec.json.Encoder().encode_lines(
            Record(
                broker,
                boot,
                0,
                0,
                kind,
                topic,
                prefix,
                publisher=publisher,
                client=publisher if client else None,
                link=link,
                hops=hops,
                reason=reason,
                epoch=epoch,
            )
            for (
                broker,
                boot,
                kind,
                prefix,
                client,
                link,
                hops,
                reason,
                epoch,
            ), topic, publisher in self._heads
        )
        heads = _table_of_lines(lines).combine_chunks()
        head = _column(self._head.spread(lengths, steps))
        columns: dict[str, pa.Array] = {}
        for name in _HEAD:
            each = heads[name].combine_chunks()
            if words and name in WORDS:
                each = each.dictionary_encode()
            columns[name] = each.take(head)
        numbers = _column(np.concatenate(self._numbers)).cast(pa.string())
        nothing = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(bytes(8)), pa.py_buffer(b"")])[0]
        columns |= {
            "n": _column(np.repeat(np.concatenate(self._n), lengths) + steps),
            "at": _column(np.repeat(np.concatenate(self._at), lengths)),
            "message": pc.binary_join_element_wise(columns["message"], numbers, nothing),
            "bytes": _column(self._bytes.spread(lengths, steps)),
            "latency_us": _column(
                self._latency_us.spread(lengths, steps), np.repeat(np.concatenate(self._has_latency), lengths)
            ),
            "receivers": self._lists.spread(self._receivers.spread(lengths, steps), words),
        }
        schema = arrow_schema()
        if words:
            for at, field in enumerate(schema):
                if field.name in columns:
                    schema = schema.set(at, field.with_type(columns[field.name].type))
        return pa.Table.from_arrays(
            [
                columns[field.name] if field.name in columns else pa.nulls(len(steps), field.type)
                for field in schema
            ],
            schema=schema,
        )


class _Shared:
    """A column of which each run has one value for each row, or one for all."""

    def __init__(self) -> None:
        self._counts: list[Integers] = []
        self._values: list[Integers] = []

    def add(self, runs: Sequence[Sequence[object]], values: Sequence[int] | Integers) -> None:
        """Take what some runs have, and the same as numbers in one row."""
        self._counts.append(_integers(map(len, runs), len(runs)))
        self._values.append(_integers(values, len(values)))

    def spread(self, lengths: Integers, steps: Integers) -> Integers:
        """The value for each row."""
        import numpy as np

        counts, values = np.concatenate(self._counts), np.concatenate(self._values)
        if len(values) == len(lengths) and (counts == 1).all():
            # As the sizes of most are, and the times.
            return np.repeat(values, lengths)
        shared = np.repeat(counts == 1, lengths)
        return values[np.repeat(_starts(counts), lengths) + np.where(shared, 0, steps)]


class _Lists:
    """Lists of strings, as numbers of strings. Those that came as tuples are there once each."""

    def __init__(self) -> None:
        self._words = _numbering()
        self._seen: dict[tuple[str, ...], int] = {}
        self._many = 0
        self._numbers: list[Small] = []
        """Of the strings of all lists."""
        self._counts: list[Integers] = []
        """Of strings in each list."""
        self._names: dict[int, tuple[Sequence[str], Small]] = {}
        """By identity: names that lists were numbers of, kept so that it stays theirs; and their numbers."""

    def add(self, runs: Sequence[Sequence[tuple[str, ...]]]) -> Integers:
        """Take the lists of some runs; gives the number of each list."""
        import numpy as np

        numbered = [lists for lists in runs if isinstance(lists, Receivers)]
        if not numbered:
            return self._add_tuples(list(chain.from_iterable(runs)))
        tuples = [one for lists in runs if not isinstance(lists, Receivers) for one in lists]
        counts = _integers(map(len, runs), len(runs))
        is_numbered = _integers([isinstance(lists, Receivers) for lists in runs], len(runs))
        apart = is_numbered.astype(bool).repeat(counts)
        found = np.empty(len(apart), np.int64)
        found[~apart] = self._add_tuples(tuples)
        first = self._many
        # What meets the same content filters goes to the same clients, and their names are in one list.
        for _, same in groupby(numbered, key=lambda lists: id(lists.names)):
            self._add_numbered(list(same))
        found[apart] = np.arange(first, self._many)
        return found

    def _add_tuples(self, lists: list[tuple[str, ...]]) -> Integers:
        seen = self._seen
        new = [one for one in dict.fromkeys(lists) if one not in seen]
        seen.update(zip(new, count(self._many)))
        self._many += len(new)
        counts = _integers(map(len, new), len(new))
        self._counts.append(counts)
        strings = chain.from_iterable(new)
        self._numbers.append(_small(map(self._words.__getitem__, strings), int(counts.sum())))
        return _integers(map(seen.__getitem__, lists), len(lists))

    def _add_numbered(self, some: Sequence[Receivers]) -> None:
        import numpy as np

        words = self._words_of(some[0].names)
        numbers = [one.numbers.astype(np.int32, copy=False) for one in some]
        # Where names are numbered here as they were there, as the first ones are, numbers stay what they are.
        if not np.array_equal(words, np.arange(len(words))):
            numbers = [words[np.concatenate(numbers)]]
        self._numbers += numbers
        self._counts += [one.lengths() for one in some]
        self._many += sum(map(len, some))

    def _words_of(self, names: Sequence[str]) -> Small:
        """The numbers of some strings here. The same lists of them come again and again, and may grow."""
        import numpy as np

        known, words = self._names.get(id(names), (names, np.empty(0, np.int32)))
        # Looked at once: whoever keeps the list may lengthen it meanwhile, in another thread.
        new = names[len(words) :]
        if new:
            words = np.concatenate((words, _small(map(self._words.__getitem__, new), len(new))))
            self._names[id(names)] = known, words
        return words

    def spread(self, rows: Integers, words: bool) -> pa.Array:
        """The list for each row, by its number; with `words`, each string once, in a dictionary."""
        import numpy as np
        import pyarrow as pa

        counts, numbers = np.concatenate(self._counts), np.concatenate(self._numbers)
        encoded = [word.encode() for word in self._words]
        sizes = _integers(map(len, encoded), len(encoded))
        data = pa.py_buffer(b"".join(encoded))
        known = pa.Array.from_buffers(pa.string(), len(sizes), [None, _offsets(sizes), data])
        kind = arrow_schema().field("receivers").type
        each = counts[rows]
        # Lists that came as numbers mostly stand in the order of their rows, once each: then they stay where
        # they are, and only where each begins is said anew.
        in_order = np.array_equal(rows[each > 0], np.flatnonzero(counts))
        if words:
            indices = pa.Array.from_buffers(pa.int32(), len(numbers), [None, pa.py_buffer(numbers)])
            strings = pa.DictionaryArray.from_arrays(indices, known)
            kind = pa.list_(kind.value_field.with_type(strings.type))
        else:
            strings = known.take(_column(numbers.astype(np.int64)))
        starts = _offsets(each if in_order else counts)
        lists = pa.Array.from_buffers(
            kind, len(each if in_order else counts), [None, starts], children=[strings]
        )
        return lists if in_order else lists.take(_column(rows))


def _numbering() -> defaultdict[Any, int]:
    """Gives each different key a number, from 0 on."""
    return defaultdict(count().__next__)


def _integers(values: Iterable[int] | Integers, many: int) -> Integers:
    import numpy as np

    # One by one takes fifty times as long as it takes to see that they are an array already.
    return values if isinstance(values, np.ndarray) else np.fromiter(values, np.int64, many)


def _small(values: Iterable[int], many: int) -> Small:
    import numpy as np

    return np.fromiter(values, np.int32, many)


def _numbers(values: Sequence[int]) -> Integers:
    """The same for some that may be a range or an array already."""
    import numpy as np

    if isinstance(values, range):
        return np.arange(values.start, values.stop, values.step)
    return np.array(values, np.int64)


def _starts(lengths: Integers) -> Integers:
    """Where each of some stretches begins, if they lie one behind the other."""
    import numpy as np

    return np.cumsum(lengths) - lengths


def _steps(lengths: Integers) -> Integers:
    """For each row of all the stretches, how far into its own it is."""
    import numpy as np

    return np.arange(int(lengths.sum())) - np.repeat(_starts(lengths), lengths)


def _column(values: Integers, valid: Integers | None = None) -> pa.Array:
    import numpy as np
    import pyarrow as pa

    bits = None if valid is None else pa.py_buffer(np.packbits(valid.astype(bool), bitorder="little"))
    return pa.Array.from_buffers(pa.int64(), len(values), [bits, pa.py_buffer(values)])


def _offsets(sizes: Integers) -> pa.Buffer:
    """Where each of some things in a row begins, and the last one ends, as Arrow has it."""
    import numpy as np
    import pyarrow as pa

    return pa.py_buffer(np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32))


def _table_of_lines(lines: bytes) -> pa.Table:
    """Records that were written as JSON, one in a line.

    Of 100,000 rows msgspec writes it in 0.05 s, and Arrow reads it without holding up other threads.
    `pyarrow.array` holds them up for 0.25 s.
    """
    import pyarrow as pa
    from pyarrow import json

    if not lines:
        return arrow_schema().empty_table()
    table = json.read_json(
        pa.BufferReader(lines),
        # One block: a row must not be in two.
        json.ReadOptions(use_threads=False, block_size=len(lines)),
        json.ParseOptions(explicit_schema=arrow_schema(), unexpected_field_behavior="error"),
    )
    return table.cast(arrow_schema())
