"""What stages may use: what Spark Connect offers, and nothing whose result depends on partitions."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidings.pipeline.tables import TABLES

ATTRIBUTES = {"sparkContext", "rdd", "_jvm", "_jdf", "_jsparkSession", "_sc"}
"""What only classic Spark has."""

CALLS = {
    "rand",
    "randn",
    "uuid",
    "monotonically_increasing_id",
    "spark_partition_id",
    "collect_list",
    "collect_set",
    "first",
    "last",
    "any_value",
    "row_number",
    "current_timestamp",
    "collect",
    "toPandas",
    "toArrow",
    "cache",
    "persist",
}
"""What depends on partitions or on their order or on the clock, and what is for the edges alone."""


def offences(source: str) -> Iterator[str]:
    """What a stage's module uses and must not, with its line."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Attribute(attr=name) if name in ATTRIBUTES:
                yield f"{node.lineno}: .{name}"
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in CALLS:
                yield f"{node.lineno}: {name}("
            case ast.Attribute(value=ast.Name(id="F"), attr=name) if name in CALLS:
                yield f"{node.lineno}: F.{name}"
            # In the text of an expression too.
            case ast.Call(
                func=ast.Attribute(attr="expr" | "selectExpr" | "where" | "filter"),
                args=[*arguments],
            ):
                for text in arguments:
                    if isinstance(text, ast.Constant) and isinstance(text.value, str):
                        yield from (
                            f"{node.lineno}: {name} in a text" for name in CALLS if f"{name}(" in text.value
                        )


def test_stages_use_only_what_connect_offers_and_what_partitions_do_not_change(root: Path) -> None:
    folder = root / "src" / "tidings" / "pipeline" / "workload"
    modules = sorted(folder.glob("*.py"))
    assert {f"{name}.py" for name in TABLES} <= {module.name for module in modules}
    found = [
        f"{module.name}:{offence}"
        for module in modules
        # Readers and drawers of finished tables are no stages.
        if "from pyspark" in (source := module.read_text(encoding="utf-8"))
        for offence in offences(source)
    ]
    assert found == []


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
    ],
)
def test_what_must_not_be_used_is_found(line: str) -> None:
    assert len(list(offences(line))) >= 1


@pytest.mark.parametrize(
    "line", ["model.clients_first[2]", "'the first of them'", "F.xxhash64('a')", "first = 3"]
)
def test_what_only_looks_like_it_is_not(line: str) -> None:
    assert list(offences(line)) == []
