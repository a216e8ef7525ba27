"""Convert rows to a pandas table.

The table has one line for each catalogue row, in the same order, numbered from 0. Its columns are:

=========================  ==============  ====================================================
column                     dtype           meaning
=========================  ==============  ====================================================
`cloud`                    text            `aws`, `gcp`, …
`region`, `zone`           text            the cloud's own names; `zone` is empty if it has none
`country`, `continent`     text            ISO code; `na sa eu as me oc af`; empty if not known
`instance_type`            text            the machine
`accelerator`              text            empty if the machine has none
`accelerator_count`        float64         fractions are sold
`accelerator_memory_gib`   float64         memory of one device; NaN if not known
`vcpus`, `memory_gib`      float64         NaN if not known
`market`                   text            `on-demand` or `spot`
`hourly`                   float64         US dollars an hour for the whole machine
`quota_family`             text            the cloud's limit that the machine counts against
`source`                   text            the source of the price
`as_of`                    datetime64      the date of the price; NaT if there is none
=========================  ==============  ====================================================

Text has pandas' own type for it: `str` from pandas 3, `object` before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbprov.model.money import MICROS_PER_USD

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray
    from pandas import DataFrame

    Array = NDArray[Any]

FIGURES = ("accelerator_count", "accelerator_memory_gib", "vcpus", "memory_gib")
COLUMNS = (
    "cloud",
    "region",
    "zone",
    "country",
    "continent",
    "instance_type",
    "accelerator",
    "accelerator_count",
    "accelerator_memory_gib",
    "vcpus",
    "memory_gib",
    "market",
    "hourly",
    "quota_family",
    "source",
    "as_of",
)


def frame_of(column: Callable[[str], Array]) -> DataFrame:
    """Return the table of the columns that this function gives, as `Rows.column` does."""
    import numpy as np
    import pandas as pd

    columns = {name: column(name) for name in COLUMNS}
    columns["market"] = np.array([market.value for market in columns["market"]], dtype=object)
    columns["hourly"] = columns["hourly"] / MICROS_PER_USD
    for name in FIGURES:
        # A plain conversion to 64 bits would show digits that nobody wrote: 0.699999988 for 0.7.
        columns[name] = np.round(columns[name].astype("f8"), 4)
    frame = pd.DataFrame(columns).infer_objects()
    frame["as_of"] = pd.to_datetime(frame["as_of"], format="%Y-%m-%d", errors="coerce")
    return frame
