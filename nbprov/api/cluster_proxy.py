"""Methods of a run that wait until its cluster is set up, and call the cluster's method then."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from .cluster import Cluster

P = ParamSpec("P")
R = TypeVar("R")


class ClusterOwner(Protocol):
    """A handle that ends in a cluster."""

    def cluster(self) -> Cluster:
        """Block until the cluster is set up."""


def of_cluster(
    method: Callable[Concatenate[Cluster, P], R],
) -> Callable[Concatenate[ClusterOwner, P], R]:
    """The method of a cluster as one of the handle that ends in it.

    An interrupt of the wait leaves the launch alone.
    """

    @functools.wraps(method)
    def act(owner: ClusterOwner, /, *args: P.args, **kwargs: P.kwargs) -> R:
        return method(owner.cluster(), *args, **kwargs)

    return act
