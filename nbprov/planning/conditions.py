"""The conditions of a plan: everything beside the spec and the catalogue that decides about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbprov.market import SuccessModel
from nbprov.model.blocks import Block
from nbprov.model.clock import Instant, utc_text

from .lookup.enabled_clouds import NO_ADAPTER, EnabledCloud


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConditions:
    """Clouds, blocks and estimates at one instant.

    Attributes
    ----------
    enabled
        The clouds that may be used, by name.
    disabled
        Why other clouds may not be used, by name; a cloud in neither mapping has no adapter.
    silent
        Since when those of `disabled` have not answered that may be set up all the same, by name.
    blocks
        The blocks that hold at this instant.
    demo
        Whether clouds take part that otherwise enter a plan only when a spec names them.
    success_model
        How likely an attempt is to be accepted.
    """

    enabled: Mapping[str, EnabledCloud]
    success_model: SuccessModel
    disabled: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, Instant] = field(default_factory=dict)
    blocks: tuple[Block, ...] = ()
    now: Instant = 0.0
    demo: bool = False

    def why_not(self, cloud: str) -> str:
        """Why a cloud may not be used, in a few words."""
        why = self.disabled.get(cloud) or NO_ADAPTER
        if cloud not in self.silent:
            return why
        return f"could not be asked since {utc_text(self.silent[cloud])}: {why}"

    def why_closed(self, cloud: str) -> str:
        """The same as a phrase, with the way on: `aws is not set up: no adapter yet`."""
        if cloud not in self.silent:
            return f"{cloud} is not set up: {self.why_not(cloud)}"
        return f"{cloud} {self.why_not(cloud)}; %nbprov check {cloud} asks it now"
