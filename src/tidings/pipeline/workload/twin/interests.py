"""The twin of the stage `interests`: the rows that the driver makes, by a plain walk over all pairs."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import TYPE_CHECKING

from tidings.records import workload as tables
from tidings.workload.model import Model

if TYPE_CHECKING:
    import pyarrow as pa


def rows(model: Model, made: Mapping[str, pa.Table]) -> pa.Table:
    """The table; it is made from no other."""
    assert not made, "interests read no table"
    import pyarrow as pa

    base = [{leaf: place for place, leaf in enumerate(one.leaves)} for one in model.dimensions]
    found = []
    first = 0
    for region, named in enumerate(model.regions):
        walk = product(*(range(len(one.nodes)) for one in model.dimensions))
        for interest, nodes in enumerate(walk):
            pair = tuple(zip(nodes, model.dimensions, base, strict=True))
            is_base = all(node in leaves for node, _, leaves in pair)
            place = tuple(leaves[node] for node, _, leaves in pair) if is_base else ()
            row: dict[str, object] = {
                "interest": interest,
                "region": named,
                "topic": model.topics[nodes[0]],
                "base": is_base,
                "members": int(model.members[*nodes, region]),
                "messages": float(model.messages[*place, region]) if is_base else 0.0,
                "subscriptions": int(model.allocated[*nodes, region]),
                "first": first,
            }
            for axis, (node, hierarchy, _) in enumerate(pair):
                row[hierarchy.name] = hierarchy.nodes[node]
                row[tables.low(hierarchy.name)] = int(model.lows[axis][node])
                row[tables.high(hierarchy.name)] = int(model.highs[axis][node])
            first += int(model.allocated[*nodes, region])
            if row["members"] or row["messages"] or row["subscriptions"]:
                found.append(row)
    schema = tables.schemas([one.name for one in model.dimensions], ())[tables.INTERESTS]
    return pa.Table.from_pylist(found, schema)
