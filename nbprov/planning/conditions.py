"""The conditions of a plan: everything beside the spec and the catalogue that decides about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nbprov.market import SuccessModel
from nbprov.model.blocks import Block
from nbprov.model.clock import Instant

from .lookup.enabled_clouds import EnabledCloud


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanConditions:
    """Clouds, blocks and estimates at one instant.

    Attributes
    ----------
    enabled
        The clouds that may be used, by name.
    disabled
        Why other clouds may not be used, by name; a cloud in neither mapping has no adapter.
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
    blocks: tuple[Block, ...] = ()
    now: Instant = 0.0
    demo: bool = False
