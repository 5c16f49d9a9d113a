"""How a partition's replicas lie in racks, beside the most even spread that its cluster allows."""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.transforms.facts import some_are_equal

_REPLICAS_MAX = 64
"""How an even spread looks is worked out for partitions of up to so many replicas."""
_FLAGS_MAX = 10_000
"""The largest broker id whose rack is found by compiled code; partitions of those beyond are looked at one by one."""
_LOOKED_AT = 4
"""Replicas of a partition that compiled code looks at; partitions with more are looked at one by one."""


def of_snapshot() -> tuple[Column, ...]:
    """What `may_lie_close` and `too_close` look at, from the columns of schemas.FACTS.

    `rack_by_broker`, a map; `rack_numbers`, at each broker's id a number of its rack, null where none is known;
    `some_without_rack`; and what `spread` gives.
    """
    by_broker = "map_from_entries(filter(rack_of, broker -> broker.rack is not null))"
    ids = f"sequence(0, least(coalesce(array_max(live), 0), {_FLAGS_MAX}))"
    numbers = f"transform({ids}, id -> if(map_contains_key({by_broker}, id), hash({by_broker}[id]), null))"
    return (
        F.expr(by_broker).alias("rack_by_broker"),
        F.expr(numbers).alias("rack_numbers"),
        some_without_rack().alias("some_without_rack"),
        *spread(),
    )


def some_without_rack() -> Column:
    """Whether some registered brokers have a rack and others none: Kafka spreads over no racks then, and so do we."""
    bare = F.exists("rack_of", lambda entry: entry["rack"].isNull())
    return bare & (F.col("rack_count") > 0)


def may_lie_close() -> Column:
    """False only where the racks of a partition's replicas are all different: compiled code, no set or lambda for a row."""
    places = [F.get("rack_numbers", F.get("replicas", F.lit(place))) for place in range(_LOOKED_AT)]
    close = some_are_equal(places) | (F.size("replicas") > _LOOKED_AT)
    return (F.col("rack_count") > 1) & ~F.col("some_without_rack") & (close | (F.array_max("replicas") > _FLAGS_MAX))


def spread() -> tuple[Column, Column]:
    """Of one snapshot's racks `rack_sizes`: (rack, count of brokers); and `spreads`: (least, most) replicas in a rack.

    A partition of n replicas is spread evenly when each rack holds `spreads[n].least` to `spreads[n].most`, or as many as
    it has brokers where that is less: the planner's `bounds.rack_quota`. `least` is the most that all racks can hold of n.
    """
    sizes = (
        "transform(array_distinct(rack_of.rack), name -> "
        "named_struct('rack', name, 'count', size(filter(rack_of, broker -> broker.rack = name))))"
    )
    held = f"aggregate({sizes}, 0, (sum, one) -> sum + least(one.count, level))"
    filled = f"transform(sequence(0, {_REPLICAS_MAX}), level -> {held})"
    level = "size(filter(filled, sum -> sum <= replicas)) - 1"
    spread = f"named_struct('least', {level}, 'most', {level} + if(array_contains(filled, replicas), 0, 1))"
    spreads = f"transform(array({filled}), filled -> transform(sequence(0, {_REPLICAS_MAX}), replicas -> {spread}))[0]"
    return F.expr(sizes).alias("rack_sizes"), F.expr(spreads).alias("spreads")


def too_close() -> Column:
    """Whether some rack holds more, or fewer, of the replicas than an even spread allows.

    Fewer counts only where the racks of all replicas are known. More is true whatever racks the others are in: further
    brokers would lower what a rack may hold. Where each replica has a rack of its own there is nothing to look at.
    """
    uneven = F.expr("""
        exists(rack_sizes, one ->
            size(filter(racks, rack -> rack = one.rack)) > least(one.count, even.most)
            or (not exists(racks, rack -> rack is null)
                and size(filter(racks, rack -> rack = one.rack)) < least(one.count, even.least)))
    """)
    several = F.size(F.array_distinct("racks")) < F.size("racks")
    return ~F.col("some_without_rack") & (F.col("rack_count") > 1) & F.when(several, uneven).otherwise(F.lit(False))


def racks_in_words() -> Column:
    """How many of a partition's replicas lie in each rack, as text."""
    counts = F.expr("""
        transform(sort_array(array_distinct(racks)),
            name -> concat(name, ': ', size(racks) - size(array_remove(racks, name))))
    """)
    unknown = F.expr("size(filter(racks, rack -> rack is null))")
    return F.concat(
        F.concat_ws(", ", counts), F.when(unknown > 0, F.format_string(", not known: %d", unknown)).otherwise(F.lit(""))
    )
