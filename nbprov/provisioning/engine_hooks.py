"""The hooks of an engine: what the layers above it do for a launch or for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbprov.model.clock import Seconds
    from nbprov.model.offers import Block, Plan
    from nbprov.model.spec import Spec

    from .ledger import ClusterRow
    from .replacement.replace_node import Bringing
    from .supervision.desired_state import Leaving


@dataclass(frozen=True, slots=True)
class EngineHooks:
    """Functions that an engine calls and does not know how to do itself.

    Attributes
    ----------
    replan
        Plans a spec again with blocks; called in a worker thread. Without it, a launch goes
        through the places of its first plan again.
    take_outputs
        Pulls a cluster's outputs within a number of seconds and returns whether all came.
        The engine cancels it when the time is over.
    teardown
        Fetches job logs and outputs before a cluster is ended or stopped.
    node_setup
        Copies files and runs setup on a machine that replaces a lost one.
    """

    replan: Callable[[Spec, Sequence[Block]], Plan] | None = None
    take_outputs: Callable[[ClusterRow, Seconds], Coroutine[Any, Any, bool]] | None = None
    teardown: Leaving | None = None
    node_setup: Bringing | None = None
