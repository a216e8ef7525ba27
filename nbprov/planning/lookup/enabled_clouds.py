"""The clouds as the caller knows them: which are set up, for whom, and what they can do."""

from __future__ import annotations

from dataclasses import dataclass, field

from nbprov.clouds.base import Capabilities
from nbprov.model.failures import RULES
from nbprov.model.launches import CheckResult

NO_ADAPTER = "no adapter yet"
"""Why a cloud that is only in the catalogue cannot be used."""


@dataclass(frozen=True, slots=True)
class EnabledCloud:
    """A cloud that may be used.

    Attributes
    ----------
    account
        Whose account it is; blocks that name an account match by it.
    capabilities
        What it can do; requests that need more are not placed there.
    """

    account: str = ""
    capabilities: Capabilities = field(default_factory=Capabilities)


def reason(check: CheckResult) -> str:
    """Why a checked cloud is not enabled, in a few words; empty if it is."""
    if check.enabled:
        return ""
    if check.problem is None:
        return "not set up"
    return check.problem.message.strip().partition("\n")[0] or RULES[check.problem.cause].words
