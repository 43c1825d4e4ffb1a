"""The table of reports: events as people tell of them. The truth stays in the table of events.

An event has one report or more. Each knows some of the fields (partial), most say what others have said
(redundant), a few say something that is not true (conflicting), each comes some time after the event
(delayed), from clients of its region or of any other (many publishers). The story always is known: by it the
reports of one event find together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidings.pipeline.stages import Frames, Stage
from tidings.pipeline.workload import chunks
from tidings.records import workload as tables
from tidings.workload import hashing, quantiles
from tidings.workload.fields import Range, ranges
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

COUNTS = "counts"
"""The lookup of how many further reports an event has."""

DELAYS = "delays"
"""The lookup of how long after the event a report comes."""

PUBLISHERS = "publishers"
"""The lookup of regions that have clients."""


def shift(model: Model) -> int:
    """By how many bits the number of an event is shifted to make room for its reports.

    The report at place i of an event is event * 2 ** shift + i, whatever other events there are. For the most
    reports that can be asked for, 20 bits are enough, and 43 are left for events.
    """
    return int(quantiles.geometric(model.spec.reports.each - 1.0).max()).bit_length()


def key(model: Model, column: str) -> int:
    """What a random column of this table is drawn by."""
    return hashing.key(model.spec.seed, tables.REPORTS, column)


def schema(model: Model) -> pa.Schema:
    """The columns, for the dimensions and details of a model."""
    names = [one.name for one in model.dimensions]
    return tables.schemas(names, tables.details(model.spec.reports.details))[tables.REPORTS]


def lookups(model: Model) -> Mapping[str, pa.Table]:
    """Small tables that this stage and its twin share."""
    import pyarrow as pa

    further = quantiles.geometric(model.spec.reports.each - 1.0)
    lows, widths = quantiles.exponential(model.spec.reports.delay_us)
    populated = np.flatnonzero(model.clients_count)
    return {
        COUNTS: pa.table({"count_slot": np.arange(quantiles.SLOTS), "further": further}),
        DELAYS: pa.table({"delay_slot": np.arange(quantiles.SLOTS), "delay": lows, "delay_width": widths}),
        PUBLISHERS: pa.table(
            {
                "home": np.arange(len(populated)),
                "home_first": model.clients_first[populated],
                "home_count": model.clients_count[populated],
            }
        ),
    }


def _make(frames: Frames, model: Model) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812

    from tidings.pipeline import columns as random

    asked = model.spec.reports

    def drawn(column: str, by: str = "report") -> Column:
        return random.draw(key(model, column), F.col(by))

    def chance(column: str, share: float) -> Column:
        return random.fraction(drawn(column)) < share

    # Dealt out anew, since a task that has its share of events would have too many reports.
    events = frames[tables.EVENTS]
    events = events.repartition(chunks.tasks(events, int(model.spec.sizes.events * asked.each)), "event")
    firsts = model.clients_first[model.clients_count > 0].tolist()
    rows = (
        events.withColumn("count_slot", random.below(drawn("count", "event"), quantiles.SLOTS))
        .join(F.broadcast(frames[COUNTS]), "count_slot")
        .withColumn("home", _home(F.col("client"), firsts, 0, len(firsts)))
        .join(F.broadcast(frames[PUBLISHERS]), "home")
        .withColumn("place", F.explode(F.sequence(F.lit(0).cast("bigint"), F.col("further"))))
        .withColumn("report", F.shiftleft(F.col("event"), shift(model)) + F.col("place"))
        .withColumn("delay_slot", random.below(drawn("late"), quantiles.SLOTS))
        .join(F.broadcast(frames[DELAYS]), "delay_slot")
    )
    fields = ranges(model)
    # In columns of their own, so that none is drawn again for each field.
    rows = rows.withColumns(
        {f"known_{at}": chance(f"known {one.name}", asked.known) for at, one in enumerate(fields)}
    )
    nothing = ~F.expr(" OR ".join(f"known_{at}" for at in range(len(fields))))
    rows = rows.withColumn("only", F.when(nothing, random.below(drawn("only"), len(fields))))

    def told(at: int, field: Range) -> Column:
        """What is told of a field: nothing, the truth, or another value that it might have."""
        truth = F.col("fields").getField(field.name)
        value = truth
        if asked.wrong:
            by = random.below(drawn(f"value {field.name}"), field.count - 1)
            other = F.pmod(truth - (field.low - 1) + by, F.lit(field.count).cast("bigint")) + field.low
            value = F.when(chance(f"wrong {field.name}", asked.wrong), other).otherwise(truth)
        return F.when(F.col(f"known_{at}") | F.equal_null(F.col("only"), F.lit(at)), value)

    near = F.col("home_first") + random.below(drawn("client"), F.col("home_count"))
    anyone = random.below(drawn("anyone"), max(1, int(model.clients_count.sum())))
    return rows.select(
        "report",
        "event",
        "topic",
        (F.col("at") + F.col("delay") + random.below(drawn("delay"), F.col("delay_width"))).alias("at"),
        F.when(chance("local", asked.local), near).otherwise(anyone).alias("client"),
        F.struct(
            F.col("fields").getField(tables.STORY).alias(tables.STORY),
            *(told(at, one).alias(one.name) for at, one in enumerate(fields)),
        ).alias("fields"),
    )


def _home(client: Column, firsts: Sequence[int], low: int, high: int) -> Column:
    """Which of some regions a client is of: the last whose first client is not behind it, by halving."""
    from pyspark.sql import functions as F  # noqa: N812

    if high - low <= 1:
        return F.lit(low).cast("bigint")
    middle = (low + high) // 2
    lower, upper = _home(client, firsts, low, middle), _home(client, firsts, middle, high)
    return F.when(client < firsts[middle], lower).otherwise(upper)


STAGE = Stage(
    table=tables.REPORTS,
    says="reports: events as clients tell of them: partial, redundant, conflicting, delayed",
    reads=(tables.EVENTS,),
    lookups=lookups,
    make=_make,
)
