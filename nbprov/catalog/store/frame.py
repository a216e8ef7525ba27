"""Rows as a pandas table.

One line a row of the catalogue, in its order, numbered from 0. The columns:

=========================  ==============  ====================================================
column                     dtype           what
=========================  ==============  ====================================================
`cloud`                    text            `aws`, `gcp`, … `region`, `zone`           text
as the cloud names them; `zone` is empty where it has none `country`, `continent`     text
ISO code; `na sa eu as me oc af`; empty where not known `instance_type`            text
the machine `accelerator`              text            empty where it has none `accelerator_count`
float64         fractions are sold `accelerator_memory_gib`   float64         of one device, NaN
where not said `vcpus`, `memory_gib`      float64         NaN where not said `market`
text            `on-demand` or `spot` `hourly`                   float64         US dollars an hour
of the whole machine `quota_family`             text            what the cloud counts against one
limit together with it `source`                   text            where the price comes from `as_of`
datetime64      the date of the price, NaT where there is none
=========================  ==============  ====================================================

Text is pandas' own kind of it: `str` from pandas 3, `object` before.
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
    """The table whose columns this function gives, as `Rows.column` does."""
    import numpy as np
    import pandas as pd

    columns = {name: column(name) for name in COLUMNS}
    columns["market"] = np.array([market.value for market in columns["market"]], dtype=object)
    columns["hourly"] = columns["hourly"] / MICROS_PER_USD
    for name in FIGURES:
        # As 64-bit figures, 32-bit ones would show digits that nobody wrote: 0.699999988 for 0.7.
        columns[name] = np.round(columns[name].astype("f8"), 4)
    frame = pd.DataFrame(columns).infer_objects()
    frame["as_of"] = pd.to_datetime(frame["as_of"], format="%Y-%m-%d", errors="coerce")
    return frame
