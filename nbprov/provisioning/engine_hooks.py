"""The hooks of an engine: what the layers above it do for a launch or for a cluster."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from nbprov.model.blocks import Block
    from nbprov.model.clock import Seconds
    from nbprov.model.offers import Plan
    from nbprov.model.spec import Spec

    from .ledger import ClusterRow
    from .live_cluster import LiveCluster, Node
    from .replacement.policy import NotNow


class Teardown(Protocol):
    """What a session does before machines are ended or stopped. Runs on the engine thread."""

    async def before_end(self, row: ClusterRow, *, outputs: bool = True) -> None:
        """Fetch logs and outputs.

        Raises
        ------
        NbprovError
            If the cluster has to be kept, because its outputs could not be fetched.
        """

    async def before_stop(self, row: ClusterRow) -> None:
        """Fetch what logs and outputs can be fetched in bounded time.

        Raises nothing but `CancelledError`.
        """

    def outputs_left(self, row: ClusterRow) -> bool:
        """Whether a stopped cluster has outputs that nobody tried to fetch since it ran."""


class NodeSetupHook(Protocol):
    """What a session does for a machine that replaces a lost one."""

    def why_not(self, row: ClusterRow) -> NotNow | None:
        """Why no machine can be set up now; None where one can."""

    async def bring(self, live: LiveCluster, node: Node) -> None:
        """Copy files and set up Python, the user's setup and the compute engine on one node.

        The other nodes are left alone. Raises what the step that fails raises.
        """


@dataclass(slots=True)
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
    teardown: Teardown | None = None
    node_setup: NodeSetupHook | None = None
