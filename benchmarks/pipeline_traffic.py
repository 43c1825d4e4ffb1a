"""Traffic at scale: records per second to all tables of traffic, beside DuckDB doing the same in one process.

    python benchmarks/pipeline_traffic.py                        1 million records
    python benchmarks/pipeline_traffic.py --records 10000000
    python benchmarks/pipeline_traffic.py --records 50000000 --no-peer

Records are those of 50 brokers over some hours: of ten, six of a plain message that goes over four links, two
of them in vain, and four of a report that is told and delivered. DuckDB reads the same segments, keeps each
record once, by hour, and writes the same tables; their rows and sums must agree. Then one more segment comes,
for the last hour, which is what a run costs from then on. Machines are shared, so that beside the clock the
CPU time of all processes of the run is given.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from rich.console import Console
from rich.table import Table

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tidings.pipeline import session
from tidings.pipeline.tables import Store
from tidings.records import traffic
from tidings.records.record import Kind
from tidings.records.schema import arrow_schema
from tidings.records.segments import write_table
from tidings.records.traffic import HOUR_US

BROKERS = 50
SESSIONS = 5_000
PER_UNIT = 10
"""Records of a plain message and a report together."""

FILE_ROWS = 100_000
"""As brokers write them."""

PER_HOUR = 2_000_000

KINDS = np.array(
    [
        Kind.PUBLISHED, Kind.FORWARDED, Kind.DELIVERED, Kind.DELIVERED, Kind.FORWARDED, Kind.DELIVERED,
        Kind.PUBLISHED, Kind.FORWARDED, Kind.MERGED, Kind.DELIVERED,
    ],
    dtype=object,
)  # fmt: skip


def words(prefix: str, numbers: Any) -> Any:
    return pc.binary_join_element_wise(prefix, pc.cast(pa.array(numbers), pa.string()), "")


def segment(first: int, rows: int) -> pa.Table:
    """Records by number; the same for the same number, so that any part can be made by itself."""
    row = np.arange(first, first + rows)
    unit, place = row // PER_UNIT, row % PER_UNIT
    drawn = np.random.default_rng(0).integers(0, 2**31, 4096)
    broker = (unit * 7) % BROKERS
    at_broker = (broker + np.array([0, 0, 0, 1, 1, 3, 0, 0, 1, 1])[place]) % BROKERS
    is_report = place >= 6
    sessions = [f"s{number}" for number in range(SESSIONS)]
    names = [f"b{number}" for number in range(BROKERS)]
    receivers = []
    for one, step, at in zip(unit.tolist(), place.tolist(), at_broker.tolist(), strict=True):
        if step in (1, 4):
            receivers.append([names[(at + 1) % BROKERS], names[(at + 2) % BROKERS]])
        elif step == 7:
            receivers.append([names[(at + 1) % BROKERS]])
        elif step in (2, 3, 5, 9):
            begin = int(drawn[(one // 64 + step) % 4096]) % (SESSIONS - 4)
            receivers.append(sessions[begin : begin + 1 + one % 3])
        else:
            receivers.append([])

    def where(mask: Any, values: Any) -> Any:
        return pc.if_else(pa.array(mask), values, None)

    told = (place == 8) | (place == 9)
    event, version = unit // 5, unit % 5 + 1
    columns = {
        "broker": words("b", at_broker),
        "boot": pa.array(np.ones(rows, np.int64)),
        "n": pa.array(row),
        "at": pa.array(row * (HOUR_US // PER_HOUR)),
        "kind": pa.array(KINDS[place].tolist()),
        "topic": words("area/", np.where(is_report, 100, 0) + unit % 40),
        "message": pc.if_else(pa.array(is_report), words("r:1:g:", unit), words("m:1:s:", unit)),
        "bytes": pa.array(64 + unit % 200),
        "event": where(told, words("r:1:", event)),
        "version": where(told, pa.array(version)),
        "report": where((place >= 6) & (place <= 8), words("r:1:", unit)),
        "publisher": where(place != 9, words("p", drawn[unit % 4096] % 500)),
        "hops": where(KINDS[place] == Kind.DELIVERED, pa.array(place % 4)),
        "latency_us": where(KINDS[place] == Kind.DELIVERED, pa.array(drawn[row % 4096] % 300_000)),
        "receivers": pa.array(receivers, arrow_schema().field("receivers").type),
    }
    made = [
        columns[field.name].cast(field.type) if field.name in columns else pa.nulls(rows, field.type)
        for field in arrow_schema()
    ]
    return pa.Table.from_arrays(made, schema=arrow_schema())


def write(folder: Path, first: int, rows: int) -> None:
    for begin in range(first, first + rows, FILE_ROWS):
        with (folder / f"bench+{1:020d}+{begin // FILE_ROWS:010d}.parquet").open("wb") as file:
            write_table(segment(begin, min(FILE_ROWS, first + rows - begin)), file)


# The same in one process.

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


def peer(records: Path, out: Path, threads: int, memory: str) -> None:
    """DuckDB, with every record once."""
    import duckdb

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


def sums(folder: Path) -> dict[str, int]:
    """Rows of a table, and the sum of each of its numbers."""
    read = ds.dataset(folder, format="parquet", partitioning="hive").to_table()
    found = {"rows": read.num_rows}
    for field in read.schema:
        if pa.types.is_integer(field.type):
            found[field.name] = pc.sum(read[field.name]).as_py()
    return found


# Time.


def tree_cpu(root: int) -> float:
    """Seconds of CPU of a process and all below it, those that have ended among them."""
    parents: dict[int, int] = {}
    used: dict[int, float] = {}
    tick = os.sysconf("SC_CLK_TCK")
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                told = (folder / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents[int(folder.name)] = int(told[1])
            used[int(folder.name)] = sum(map(int, told[11:15])) / tick
    total = 0.0
    for process, seconds in used.items():
        at = process
        while at not in (root, 0):
            at = parents.get(at, 0)
        total += seconds if at == root else 0.0
    return total


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--cores", type=int, default=os.cpu_count())
    parser.add_argument("--memory", default="2g", help="of Spark's driver, and of DuckDB")
    parser.add_argument("--folder", type=Path, help="where records and tables go; removed otherwise")
    parser.add_argument("--no-peer", action="store_true")
    given = parser.parse_args()
    assert given.records % FILE_ROWS == 0, f"whole segments of {FILE_ROWS:,} records"
    with tempfile.TemporaryDirectory(dir=given.folder) as text:
        measure(Path(text), given)


def measure(folder: Path, given: argparse.Namespace) -> None:
    table = Table("job", "records", "seconds", "records/s", "CPU s", "records/CPU s", title="Traffic")

    def timed(job: str, rows: int, work: Any) -> Any:
        cpu, clock = tree_cpu(os.getpid()), perf_counter()
        answer = work()
        seconds, spent = perf_counter() - clock, tree_cpu(os.getpid()) - cpu
        shown = (
            f"{rows:,}",
            f"{seconds:.1f}",
            f"{rows / seconds:,.0f}",
            f"{spent:.1f}",
            f"{rows / spent:,.0f}",
        )
        table.add_row(job, *shown)
        return answer

    records = folder / "records"
    records.mkdir()
    write(records, 0, given.records)
    settings = {"spark.driver.memory": given.memory, "spark.local.dir": str(folder / "spilled")}
    with session.start("traffic", master=f"local[{given.cores}]", settings=settings) as spark:
        from tidings.pipeline.traffic import running

        store = Store(folder / "data")
        first = timed("Spark, all", given.records, lambda: running.run(spark, records, store))
        assert first.records == given.records, first
        if not given.no_peer:
            out = folder / "peer"
            out.mkdir()
            memory = given.memory.replace("g", "GB")
            timed("DuckDB, all", given.records, lambda: peer(records, out, given.cores, memory))
            for name in PEER:
                ours, theirs = sums(folder / "data" / "traffic" / name), sums(out / name)
                assert ours == theirs, (name, ours, theirs)
        write(records, given.records, FILE_ROWS)
        more = timed("Spark, one more segment", FILE_ROWS, lambda: running.run(spark, records, store))
        assert more.records == FILE_ROWS, more
    console = Console(width=110)
    console.print(table)
    console.print(
        f"{first.hours} hours at first; then {more.hours} made anew and {more.linked} linked", highlight=False
    )


if __name__ == "__main__":
    main()
