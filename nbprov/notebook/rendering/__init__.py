"""Pure functions from the model's views to static HTML and text.

Start with `formatting` (words for single values) and `tables` (the two kinds of table); `prices`,
`runs` and `clusters` build the displays from them. Modules here may import `model` and `api`,
nothing of IPython and no panel.
"""

from __future__ import annotations

from .clusters import clusters_html, clusters_text
from .price_data import CodedColumn, TableData
from .prices import plan_html, plan_text, table_html, table_text
from .run_lines import attempt_line, run_lines
from .runs import run_html, run_text

__all__ = [
    "CodedColumn",
    "TableData",
    "attempt_line",
    "clusters_html",
    "clusters_text",
    "plan_html",
    "plan_text",
    "run_html",
    "run_lines",
    "run_text",
    "table_html",
    "table_text",
]
