"""Static forms of what nbprov shows: pure functions from the model's views to HTML and text."""

from __future__ import annotations

from .clusters import clusters_html, clusters_text
from .price_data import Coded, TableData
from .prices import plan_html, plan_text, table_html, table_text
from .runs import attempt_line, run_html, run_lines, run_text

__all__ = [
    "Coded",
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
