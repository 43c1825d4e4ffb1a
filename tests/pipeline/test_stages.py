"""What stages may use: what Spark Connect offers, and nothing whose result depends on partitions."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings.pipeline.tables import TABLES

ATTRIBUTES = {"sparkContext", "rdd", "_jvm", "_jdf", "_jsparkSession", "_sc"}
"""What only classic Spark has."""

CALLS = {
    "rand", "randn", "uuid", "shuffle", "sample", "randomSplit",
    "monotonically_increasing_id", "spark_partition_id", "input_file_name", "input_file_block_start",
    "collect_list", "collect_set", "array_agg", "first", "last", "first_value", "last_value", "nth_value",
    "any_value", "row_number", "ntile", "lag", "lead", "limit", "offset", "dropDuplicates",
    "now", "current_timestamp", "current_date", "localtimestamp",
    "collect", "toPandas", "toArrow", "toLocalIterator", "foreach", "foreachPartition",
    "cache", "persist", "checkpoint", "localCheckpoint",
}  # fmt: skip
"""What depends on partitions or on their order or on the clock, and what is for the edges alone."""

SUMS = {"sum", "avg", "mean", "stddev", "variance", "sum_distinct", "product"}
"""Of doubles they depend on the order of rows; who sums whole numbers is in ALLOWED."""

EDGES = {"read", "readStream", "write", "writeStream", "writeTo", "sparkSession"}
"""Attributes that are for the edges alone."""


def offences(source: str) -> Iterator[tuple[int, str]]:
    """What a stage's module uses and must not, with its line before it."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name in ATTRIBUTES | EDGES:
                yield node.lineno, f".{name}"
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in CALLS:
                yield node.lineno, f"{name}("
            case ast.Attribute(value=ast.Name(id="F"), attr=name) if name in CALLS | SUMS:
                yield node.lineno, f"F.{name}"
            # Arrays of a driver have sums too; those of rows come after a grouping.
            case ast.Call(func=ast.Attribute(value=of, attr=name)) if name in SUMS and _is_grouped(of):
                yield node.lineno, f"{name}("
            case ast.Call(func=ast.Attribute(attr="agg"), args=[ast.Dict()]):
                yield node.lineno, "agg by words"
            # In the text of an expression too, and in the parts of one that is put together.
            case ast.Constant(value=str(text)):
                for name in sorted(CALLS | SUMS):
                    if re.search(rf"\b{name}\s*\(", text):
                        yield node.lineno, f"{name} in a text"


def _is_grouped(node: ast.expr) -> bool:
    return any(isinstance(part, ast.Attribute) and part.attr in GROUPINGS for part in ast.walk(node))


GROUPINGS = {"groupBy", "groupby", "rollup", "cube", "pivot"}


FOLDERS = ("workload", "gather", "match", "traffic")

AT_THE_EDGE = {
    "gather/job.py",
    "gather/stream_job.py",
    "match/job.py",
    "match/writing.py",
    "traffic/running.py",
}
"""Where tables are read, written and counted: no stages, but on Connect they run too."""

ALLOWED = {
    # Counts, and steps up and down by one: whole numbers, which have one sum in any order.
    "gather/batch.py": {"F.sum"},
    "traffic/hours.py": {"F.sum"},
    # `start` and `finish` are given a session to read the state of a checkpoint, and look at its headers.
    "gather/streaming.py": {".read", "collect("},
    # It is a file of lines that is read, and a reader that reads a line of it.
    "gather/lines.py": {".read"},
    # Into how many tasks rows are dealt out follows the session's settings; the rows do not.
    "workload/chunks.py": {".sparkSession"},
    # It is the index's own file that is read, on a worker, and not a table.
    "match/strategies.py": {".read"},
}
"""What one module may use after all, and why."""


def modules(root: Path) -> dict[str, str]:
    """The source of all that makes DataFrames; readers and drawers of finished tables are no stages."""
    folder = root / "src" / "tidings" / "pipeline"
    sources = {
        f"{name}/{file.name}": file.read_text(encoding="utf-8")
        for name in FOLDERS
        for file in sorted((folder / name).glob("*.py"))
    }
    return {name: source for name, source in sources.items() if "from pyspark" in source}


def test_stages_use_only_what_connect_offers_and_what_partitions_do_not_change(root: Path) -> None:
    sources = modules(root)
    assert {f"workload/{name}.py" for name in TABLES} <= set(sources)
    found = [
        f"{name}:{line}: {used}"
        for name, source in sources.items()
        if name not in AT_THE_EDGE
        for line, used in offences(source)
        if used not in ALLOWED.get(name, ())
    ]
    assert found == []


def test_edges_use_only_what_connect_offers(root: Path) -> None:
    sources = modules(root)
    classic = {f".{name}" for name in ATTRIBUTES}
    found = [
        f"{name}:{line}: {used}"
        for name in sorted(AT_THE_EDGE)
        for line, used in offences(sources[name])
        if used in classic
    ]
    assert found == []


def test_what_is_allowed_is_used(root: Path) -> None:
    sources = modules(root)
    used = {name: {one for _, one in offences(sources[name])} for name in ALLOWED}
    assert {name: allowed - used[name] for name, allowed in ALLOWED.items() if allowed - used[name]} == {}


@pytest.mark.parametrize(
    "line",
    [
        "frame.sparkSession.sparkContext",
        "frame.rdd.map(f)",
        "session._jvm",
        "F.rand(3)",
        "rand()",
        "F.monotonically_increasing_id()",
        "frame.groupBy('a').agg(F.first('b'))",
        "F.row_number().over(w)",
        "F.expr('collect_list(x)')",
        "aggregate = F.collect_set",
        "frame.collect()",
        "F.expr(f'rand({seed})')",
        "F.expr(f'first({x}) over (order by y)')",
        "frame.groupBy('a').agg({'x': 'first'})",
        "F.sum('x')",
        "F.avg('x')",
        "frame.groupBy('a').sum('x')",
        "F.expr('sum(x)')",
        "frame.sample(0.1)",
        "frame.limit(3)",
        "frame.dropDuplicates(['a'])",
        "frame.write.parquet('x')",
        "spark.read.parquet('x')",
        "frame.toLocalIterator()",
        "frame.sparkSession",
        "F.now()",
        "F.first_value('x')",
        "F.input_file_name()",
    ],
)
def test_what_must_not_be_used_is_found(line: str) -> None:
    assert len(list(offences(line))) >= 1


@pytest.mark.parametrize(
    "line",
    [
        "model.clients_first[2]",
        "'the first of them'",
        "F.xxhash64('a')",
        "first = 3",
        "model.allocated.sum()",
        "sum(pieces)",
    ],
)
def test_what_only_looks_like_it_is_not(line: str) -> None:
    assert list(offences(line)) == []
