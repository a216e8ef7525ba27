"""From a spec to the ordered candidates that satisfy it. Pure functions: what they know is given to them.

`import nbprov.planning` imports no numpy; the first plan does.
"""

from __future__ import annotations

from .candidates import CandidateList
from .enabled import EnabledCloud, reason
from .errors import PlanError, PlanProblem
from .fit import fits
from .plans import plan

__all__ = ["CandidateList", "EnabledCloud", "PlanError", "PlanProblem", "fits", "plan", "reason"]
