"""From a spec to the ordered candidates that satisfy it. Pure functions: what they know is given to them.

`import nbprov.planning` imports no numpy; the first plan does.
"""

from __future__ import annotations

from .best_per_cloud import best_by_cloud
from .candidates import CandidateList
from .cluster_fit import fits
from .errors import PlanError, PlanProblem
from .lookup.enabled_clouds import EnabledCloud, reason
from .planner import plan
from .relax import Relaxation, relax

__all__ = [
    "CandidateList",
    "EnabledCloud",
    "PlanError",
    "PlanProblem",
    "Relaxation",
    "best_by_cloud",
    "fits",
    "plan",
    "reason",
    "relax",
]
