"""Plans: from a spec to the ordered candidates that satisfy it.

All functions are pure: what they know is given to them. The package may import the model, the spec,
the market, the catalogue and the cloud contract, and imports numpy only for the first plan. Start
reading at `planner.py`, then `candidate_search.py` and `ordering.py`.
"""

from __future__ import annotations

from .best_per_cloud import best_by_cloud
from .candidates import CandidateList
from .cluster_fit import fits
from .errors import PlanError, PlanProblem
from .lookup.enabled_clouds import EnabledCloud, reason
from .planner import plan
from .preferred_places import keys_at, put_first
from .relax import Relaxation, relax

__all__ = [
    "CandidateList",
    "EnabledCloud",
    "PlanError",
    "PlanProblem",
    "Relaxation",
    "best_by_cloud",
    "fits",
    "keys_at",
    "plan",
    "put_first",
    "reason",
    "relax",
]
