"""Traffic at scale: records per second to all tables of traffic, beside DuckDB doing the same in one process.

Records are those of 50 brokers over some hours: of ten, six of a plain message that goes over four links, two
of them in vain, and four of a report that is told and delivered. DuckDB reads the same segments, keeps each
record once, by hour, and writes the same tables; their rows and sums must agree. Then one more segment comes,
for the last hour, which is what a run costs from then on.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from benchmarks.pipeline_measuring import Bench, Spent, Watch, alone

from tidings.pipeline.tables import Store
from tidings.pipeline.traffic import running
from tidings.pipeline.traffic.running import Outcome
from tidings.records import traffic
from tidings.records.record import Kind
from tidings.records.schema import arrow_schema
from tidings.records.segments import write_table
from tidings.records.traffic import HOUR_US

Array = npt.NDArray[Any]

JOB = "traffic"
BROKERS = 50
SESSIONS = 5_000
PER_UNIT = 10
"""Records of a plain message and a report together."""

FILE_ROWS = 100_000
"""As brokers write them."""

PER_HOUR = 2_000_000
WARM_ROWS = 500_000

KINDS = pa.array(
    [
        Kind.PUBLISHED, Kind.FORWARDED, Kind.DELIVERED, Kind.DELIVERED, Kind.FORWARDED, Kind.DELIVERED,
        Kind.PUBLISHED, Kind.FORWARDED, Kind.MERGED, Kind.DELIVERED,
    ],
    pa.string(),
)  # fmt: skip
AT_BROKER = np.array([0, 0, 0, 1, 1, 3, 0, 0, 1, 1])
"""How many brokers further each of them is."""


# Records.


def segments(bench: Bench, rows: int) -> list[Path]:
    """The files of so many records; the files of fewer are the first of them."""
    assert rows % FILE_ROWS == 0, f"{rows:,} are not whole segments of {FILE_ROWS:,} records"
    begins = range(0, rows, FILE_ROWS)
    folder = bench.inputs / "records"
    paths = [folder / f"bench+{1:020d}+{begin // FILE_ROWS:010d}.parquet" for begin in begins]
    return bench.written(paths, (partial(write, begin) for begin in begins), f"{rows:,} records")


def write(first: int, path: Path) -> None:
    with path.open("wb") as file:
        write_table(segment(first, FILE_ROWS), file)


def segment(first: int, rows: int) -> pa.Table:
    """Records by number; the same for the same number, so that any part can be made by itself."""
    row = np.arange(first, first + rows)
    unit, place = row // PER_UNIT, row % PER_UNIT
    drawn = np.random.default_rng(0).integers(0, 2**31, 4096)
    at_broker = (unit * 7 + AT_BROKER[place]) % BROKERS
    is_report = place >= 6
    delivered = np.isin(place, (2, 3, 5, 9))

    def where(mask: Any, values: Any) -> Any:
        return pc.if_else(pa.array(mask), values, None)

    told = (place == 8) | (place == 9)
    event, version = unit // 5, unit % 5 + 1
    columns = {
        "broker": words("b", at_broker),
        "boot": pa.array(np.ones(rows, np.int64)),
        "n": pa.array(row),
        "at": pa.array(row * (HOUR_US // PER_HOUR)),
        "kind": KINDS.take(pa.array(place)),
        "topic": words("area/", np.where(is_report, 100, 0) + unit % 40),
        "message": pc.if_else(pa.array(is_report), words("r:1:g:", unit), words("m:1:s:", unit)),
        "bytes": pa.array(64 + unit % 200),
        "event": where(told, words("r:1:", event)),
        "version": where(told, pa.array(version)),
        "report": where((place >= 6) & (place <= 8), words("r:1:", unit)),
        "publisher": where(place != 9, words("p", drawn[unit % 4096] % 500)),
        "hops": where(delivered, pa.array(place % 4)),
        "latency_us": where(delivered, pa.array(drawn[row % 4096] % 300_000)),
        "receivers": receivers(unit, place, at_broker, drawn),
    }
    made = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in arrow_schema()
    ]
    return pa.Table.from_arrays(made, schema=arrow_schema())


def words(prefix: str, numbers: Any) -> Any:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "")


def receivers(unit: Array, place: Array, at_broker: Array, drawn: Array) -> pa.ListArray:
    """Who got each of them: the next one or two brokers, one to three sessions, or nobody."""
    to_brokers = np.array([0, 2, 0, 0, 2, 0, 0, 1, 0, 0])[place]
    counts = to_brokers + np.where(np.isin(place, (2, 3, 5, 9)), 1 + unit % 3, 0)
    session = BROKERS + drawn[(unit // 64 + place) % len(drawn)] % (SESSIONS - 4)
    ends = np.cumsum(counts)
    within = np.arange(ends[-1]) - np.repeat(ends - counts, counts)
    brokers = np.repeat((at_broker + 1) * (to_brokers > 0), counts) + within
    chosen = np.where(
        np.repeat(to_brokers > 0, counts), brokers % BROKERS, np.repeat(session, counts) + within
    )
    names = [f"b{number}" for number in range(BROKERS)] + [f"s{number}" for number in range(SESSIONS)]
    offsets = np.concatenate([[0], ends]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), pa.array(names).take(pa.array(chosen)))


# Jobs.


def run(bench: Bench, sizes: tuple[int, ...], peer_rows_max: int) -> None:
    """All tables at every size, beside DuckDB up to one of them; at the smallest, one more segment."""
    warm_up(bench, min(WARM_ROWS, *sizes))
    for rows in sizes:
        at_size(bench, rows, peer=rows <= peer_rows_max, more=rows == min(sizes), grows="rows")


def prepare(bench: Bench, sizes: tuple[int, ...]) -> None:
    """Write what all of that reads."""
    segments(bench, max(sizes))
    segments(bench, min(sizes) + FILE_ROWS)


def warm_up(bench: Bench, rows: int) -> None:
    """Java compiles what it runs often: no part of a rate."""
    bench.tell(f"traffic: getting warm with {rows:,} records")
    with bench.scratch("warm") as folder:
        running.run(bench.spark, linked(folder, segments(bench, rows)), Store(folder / "data"))


def at_size(
    bench: Bench, rows: int, *, peer: bool = False, more: bool = False, partitions: int = 0, grows: str
) -> None:
    """So many records to all tables; `partitions` are those of shuffles, if not the session's own."""
    name = "spark.sql.shuffle.partitions"
    settings = {name: str(partitions)} if partitions else {}
    with bench.scratch("traffic") as folder, bench.setting(settings):
        records, store = linked(folder, segments(bench, rows)), Store(folder / "data")

        def work() -> Outcome:
            return running.run(bench.spark, records, store)

        tasks = int(bench.spark.conf.get(name) or 0)
        made = bench.timed(
            JOB, "all tables", rows, work, lambda made: f"{made.hours} hours", partitions=tasks, grows=grows
        )
        assert made.records == rows, made
        if peer:
            compare(bench, folder, records, rows)
        if more:
            linked(folder, segments(bench, rows + FILE_ROWS)[-1:])
            said = bench.timed(
                JOB,
                "one more segment",
                FILE_ROWS,
                work,
                lambda made: f"{made.hours} hours made anew, {made.linked} linked",
                partitions=tasks,
            )
            assert said.records == FILE_ROWS, said


def linked(folder: Path, paths: list[Path]) -> Path:
    """Segments in a folder of their own, without copies."""
    records = folder / "records"
    records.mkdir(exist_ok=True)
    for path in paths:
        (records / path.name).symlink_to(path.absolute())
    return records


# The same in one process.


def compare(bench: Bench, folder: Path, records: Path, rows: int) -> None:
    """DuckDB, whose tables must have as many rows and the same sums."""
    bench.tell(f"traffic: DuckDB, {rows:,} records")
    out = folder / "peer"
    out.mkdir()
    memory = bench.memory.replace("g", "GB")
    spent, peak_mb = alone(by_duckdb, records, out, bench.cores, memory)
    for name in PEER:
        ours, theirs = sums(folder / "data" / "traffic" / name), sums(out / name)
        assert ours == theirs, (name, ours, theirs)
    note = f"peak {peak_mb:,} MB"
    bench.row(
        JOB, "all tables", rows, spent, engine="DuckDB", partitions=bench.cores, grows="rows", note=note
    )


PEER = {
    traffic.CONTRIBUTIONS: """
        SELECT DISTINCT event, publisher, version, hour FROM records
        WHERE kind IN ('opened', 'merged') AND event IS NOT NULL AND publisher IS NOT NULL""",
    traffic.MESSAGES: """
        WITH parts AS (SELECT DISTINCT event, version, publisher FROM contributions),
        plain AS (
            SELECT publisher AS sender, receivers, hour, count(*) AS messages, 0 AS told FROM records
            WHERE kind = 'delivered' AND event IS NULL AND publisher IS NOT NULL GROUP BY ALL),
        versions AS (
            SELECT event, version, receivers, hour, count(*) AS messages FROM records
            WHERE kind = 'delivered' AND event IS NOT NULL GROUP BY ALL),
        every AS (
            SELECT * FROM plain UNION ALL
            SELECT publisher, receivers, hour, messages, messages
            FROM versions JOIN parts USING (event, version)),
        each AS (SELECT sender, unnest(receivers) AS receiver, messages, told, hour FROM every)
        SELECT sender, receiver, sum(messages)::BIGINT AS messages, sum(told)::BIGINT AS told, hour
        FROM each GROUP BY ALL""",
    traffic.LINKS: """
        WITH sent AS (
            SELECT broker AS sender, unnest(receivers) AS receiver, message, coalesce(bytes, 0) AS bytes,
                report IS NOT NULL AS report, hour FROM records WHERE kind = 'forwarded'),
        each AS (
            SELECT sender, receiver, hour, message, count(*) AS forwarded, sum(bytes) AS bytes,
                count_if(report) AS reports FROM sent GROUP BY ALL),
        used AS (
            SELECT DISTINCT broker AS receiver, message, unnest([hour - 1, hour, hour + 1]) AS hour,
                true AS useful
            FROM records WHERE kind IN ('forwarded', 'delivered'))
        SELECT sender, receiver, sum(forwarded)::BIGINT AS forwarded, count(*) AS messages,
            sum(bytes)::BIGINT AS bytes, sum(reports)::BIGINT AS reports,
            count(*) FILTER (useful IS NULL AND reports = 0) AS false_positives, hour
        FROM each LEFT JOIN used USING (receiver, message, hour) GROUP BY sender, receiver, hour""",
    traffic.BROKERS: """
        WITH own AS (
            SELECT broker, hour, count_if(kind = 'published') AS published,
                sum(CASE WHEN kind = 'published' THEN bytes ELSE 0 END) AS published_bytes,
                0 AS received, 0 AS received_bytes,
                sum(CASE WHEN kind = 'forwarded' THEN len(receivers) ELSE 0 END) AS forwarded,
                sum(CASE WHEN kind = 'forwarded' THEN len(receivers) * bytes ELSE 0 END) AS forwarded_bytes,
                sum(CASE WHEN kind = 'delivered' THEN len(receivers) ELSE 0 END) AS delivered,
                sum(CASE WHEN kind = 'delivered' THEN len(receivers) * bytes ELSE 0 END) AS delivered_bytes,
                count_if(kind IN ('opened', 'merged')) AS gathered, count_if(kind = 'told') AS told,
                count_if(kind = 'suppressed') AS suppressed, count_if(kind = 'requested') AS requested
            FROM records GROUP BY ALL),
        lists AS (
            SELECT receivers, hour, count(*) AS received, sum(bytes) AS received_bytes FROM records
            WHERE kind = 'forwarded' GROUP BY ALL),
        others AS (
            SELECT unnest(receivers) AS broker, hour, 0, 0, received, received_bytes, 0, 0, 0, 0, 0, 0, 0, 0
            FROM lists),
        every AS (SELECT * FROM own UNION ALL SELECT * FROM others)
        SELECT broker, """
    + ", ".join(f"sum({name})::BIGINT AS {name}" for name in traffic.schemas()[traffic.BROKERS].names[1:-1])
    + ", hour FROM every GROUP BY broker, hour",
    traffic.TOPICS: """
        SELECT topic, count(*) FILTER (kind = 'published') AS published,
            sum(CASE WHEN kind = 'published' THEN bytes ELSE 0 END)::BIGINT AS published_bytes,
            count(*) FILTER (kind = 'published' AND report IS NOT NULL) AS reports,
            count(*) FILTER (kind = 'opened') AS opened, count(*) FILTER (kind = 'merged') AS merged,
            count(*) FILTER (kind = 'told') AS told,
            sum(CASE WHEN kind = 'delivered' THEN len(receivers) ELSE 0 END)::BIGINT AS delivered,
            count(*) FILTER (kind = 'suppressed') AS suppressed,
            count(*) FILTER (kind = 'requested') AS requested, hour
        FROM records
        WHERE kind IN ('published', 'opened', 'merged', 'told', 'delivered', 'suppressed', 'requested')
        GROUP BY topic, hour""",
    traffic.HOPS: """
        SELECT broker, hops, sum(len(receivers))::BIGINT AS deliveries, hour FROM records
        WHERE kind = 'delivered' AND hops IS NOT NULL GROUP BY broker, hops, hour""",
    traffic.LATENCIES: """
        WITH shifted AS (
            SELECT *, greatest(0, length(bin(latency_us)) - 4)::INT AS shift FROM records
            WHERE kind = 'delivered' AND latency_us IS NOT NULL)
        SELECT broker, (latency_us >> shift) << shift AS latency_us,
            sum(len(receivers))::BIGINT AS deliveries,
            sum(latency_us * len(receivers))::BIGINT AS total_us, hour
        FROM shifted GROUP BY broker, (latency_us >> shift) << shift, hour""",
}
"""Tables that the records of this benchmark have rows for."""


def by_duckdb(records: Path, out: Path, threads: int, memory: str) -> Spent:
    """DuckDB, with every record once."""
    import duckdb

    watch = Watch()
    with duckdb.connect(str(out / "peer.db")) as db:
        db.execute(
            f"SET threads = {threads}; SET memory_limit = '{memory}'; SET preserve_insertion_order = false"
        )
        db.execute(f"SET temp_directory = '{out / 'spilled'}'")
        db.execute(
            f'CREATE TABLE records AS SELECT DISTINCT ON (broker, boot, n) *, "at" // {HOUR_US} AS hour '
            f"FROM read_parquet('{records}/*.parquet')"
        )
        form = "(FORMAT parquet, COMPRESSION zstd, PARTITION_BY (hour))"
        db.execute(f"COPY records TO '{out / traffic.RECORDS}' {form}")
        for name, query in PEER.items():
            db.execute(f"CREATE TABLE {name} AS {query}")
            db.execute(f"COPY {name} TO '{out / name}' {form}")
    return watch.spent()


def sums(folder: Path) -> dict[str, int]:
    """Rows of a table, and the sum of each of its numbers."""
    read = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    found = {"rows": read.num_rows}
    for field in read.schema:
        if pa.types.is_integer(field.type):
            found[field.name] = pc.sum(read[field.name]).as_py()
    return found
