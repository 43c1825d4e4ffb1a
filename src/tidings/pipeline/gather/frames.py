"""DataFrames of reports as the rows of a layout: columns by their declared types, and the key by Spark.

A report has an id, a time and fields: a column of structs, as in the `reports` of a workload, or one column
for each field, as the connector gives them. Which bucket a report falls into follows from its key alone.
Nothing here reads or writes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tidings.errors import InputError
from tidings.language.fields import Field, Path, path_text
from tidings.language.keys import Cell, Item
from tidings.language.topics import Topic, UnknownFields
from tidings.pipeline.gather.layout import Layout, alike, leaf_type

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType

BUCKET = "bucket"
"""The column that says which task a report goes to."""

WHOLE = ("long", "integer", "short", "byte")
"""Types of whole numbers, as Spark calls them."""

OWN = "_"
"""What begins the names of columns that are no fields, where each field has a column."""


def layout_of(frame: DataFrame, topics: Sequence[Topic], *, report: str = "report") -> Layout:
    """How the reports of a frame are laid out: of one topic, or of several that are declared alike."""
    text_ids = _type_of(frame, report, ("string", *WHOLE)) == "string"
    if len(topics) == 1:
        return Layout(topics[0], text_ids=text_ids)
    return Layout(alike(topics), text_ids=text_ids, by_topic=True)


def rows_of(
    frame: DataFrame,
    layout: Layout,
    *,
    report: str = "report",
    at: str = "at",
    fields: str | None = "fields",
    topic: str = "topic",
) -> DataFrame:
    """The rows of a layout. `at` is microseconds since 1970, or a timestamp.

    `fields` is the column of structs that has them; None if each has its own column, beside others that begin
    with "_". InputError if the columns are not what the topic declares.
    """
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.types import StructType

    _type_of(frame, report, ("string",) if layout.text_ids else WHOLE)
    at_type = _type_of(frame, at, ("timestamp", *WHOLE))
    if layout.by_topic:
        _type_of(frame, topic, ("string",))
    if fields is None:
        have: Any = StructType([one for one in frame.schema if not one.name.startswith(OWN)])
    else:
        _type_of(frame, fields, ("struct",))
        have = frame.schema[fields].dataType
    _check_unknown(have, layout.tree, layout.topic, ())
    time = F.col(at)
    if at_type == "timestamp":
        time = F.unix_micros(time)
    columns = [F.col(report).cast("string" if layout.text_ids else "bigint").alias("report")]
    columns.append(time.cast("bigint").alias("at"))
    if layout.by_topic:
        columns.append(F.col(topic).alias("topic"))
    for name, field in zip(layout.names, layout.fields, strict=True):
        columns.append(_leaf(have, field, fields).alias(name))
    leaves = frame.select(*columns)
    key = {name: F.expr(_over(item, layout).spark_sql()) for name, item in layout.computed}
    return (leaves.withColumns(key) if key else leaves).select(*layout.rows.names)


def _type_of(frame: DataFrame, name: str, types: Sequence[str]) -> str:
    """The type of a column, which must be there and of one of these."""
    if name not in frame.columns:
        raise InputError(f"the reports have no column {name!r}; there are: {', '.join(frame.columns)}")
    found = str(frame.schema[name].dataType.typeName())
    if found not in types:
        raise InputError(f"the column {name!r} of the reports is {found}; it may be {', '.join(types)}")
    return found


def bucketed(rows: DataFrame, layout: Layout, buckets: int) -> DataFrame:
    """The rows with the bucket of their key; reports without a key are spread, since all are refused."""
    from pyspark.sql import functions as F  # noqa: N812

    names = layout.group_names
    keyless = F.expr(" OR ".join(f"`{name}` IS NULL" for name in names))
    hashed = F.xxhash64(*names, F.when(keyless, F.col("report")))
    return rows.withColumn(BUCKET, F.pmod(hashed, F.lit(buckets)).cast("int"))


def spark_schema(schema: pa.Schema) -> StructType:
    """Arrow's columns as Spark's."""
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema, prefer_timestamp_ntz=False)


def _leaf(have: StructType, field: Field, fields: str | None) -> Column:
    """The column of a field, as its declared type; null where the frame does not have it."""
    from pyspark.sql import functions as F  # noqa: N812
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StructType

    want = from_arrow_type(leaf_type(field), prefer_timestamp_ntz=False)
    inner: Any = have
    found = None if fields is None else F.col(fields)
    for name in field.path:
        if not isinstance(inner, StructType) or name not in inner.names:
            return F.lit(None).cast(want)
        inner = inner[name].dataType
        found = F.col("`" + name.replace("`", "``") + "`") if found is None else found.getField(name)
    assert found is not None, "a path has a name"
    if not _fits(inner, want):
        raise InputError(
            f"{path_text(field.path)} is {inner.simpleString()} in the reports, and declared "
            f"{field.type.value}; cast it, or declare what it is"
        )
    cast = found.cast(want)
    # -0.0 is the 0.0 that it equals, for hashes too.
    return cast + F.lit(0.0) if want.simpleString() == "double" else cast


WIDENED = {
    "bigint": {"tinyint", "smallint", "int", "bigint"},
    "double": {"tinyint", "smallint", "int", "bigint", "float", "double"},
}
"""Which types of Spark are taken for a declared one beside itself: those that a payload could have."""


def _fits(have: DataType, want: DataType) -> bool:
    one, other = have.simpleString(), want.simpleString()
    if one.startswith("array<") and other.startswith("array<"):
        one, other = one[6:-1], other[6:-1]
    return one == "void" or one in WIDENED.get(other, {other})


def _check_unknown(have: StructType, tree: dict[str, Any], topic: Topic, path: Path) -> None:
    from pyspark.sql.types import StructType

    for one in have:
        node = tree.get(one.name)
        if node is None and topic.unknown_fields is UnknownFields.REFUSE:
            raise InputError(
                f"{path_text((*path, one.name))} is not a declared field of {topic.name!r}; leave the column "
                "out, or declare unknown_fields = 'drop'"
            )
        if isinstance(node, dict) and isinstance(one.dataType, StructType):
            _check_unknown(one.dataType, node, topic, (*path, one.name))


def _over(item: Item, layout: Layout) -> Item:
    """An item of the key over the columns of a layout."""

    def column(path: Path) -> Path:
        return (f"f{layout.places[path]}",)

    if isinstance(item, Cell):
        return replace(item, latitude=column(item.latitude), longitude=column(item.longitude))
    assert len(item.paths) == 1, f"{item.text} is of one field"
    moved: Item = replace(item, path=column(item.paths[0]))  # type: ignore[type-var]
    return moved
