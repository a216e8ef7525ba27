"""The addresses of a spec's public ports, in words."""

from __future__ import annotations

from typing import Any

import pytest

from nbprov.machines.tunnels.spec_ports import public_words
from nbprov.model.clusters import ClusterState, ClusterView
from nbprov.model.guards import Guards
from nbprov.model.launches import Instance, InstanceState
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market, Place
from nbprov.model.resources import Request
from nbprov.model.spec import ExposedPorts

HOST = "203.0.113.7"


def cluster(
    ports: tuple[tuple[int, int], ...],
    *,
    nodes: int = 1,
    state: ClusterState = ClusterState.RUNNING,
    **head: Any,
) -> ClusterView:
    place = Place("runpod", "eu", "eu-1")
    offer = Offer("runpod", "eu", "eu-1", "gpu-1", "", 0, 2, 4.0, Market.ON_DEMAND, 1_000_000)
    known = {"host": HOST, "port": 22, **head}
    machines = [
        Instance(
            "runpod", f"i-{n}", "t", "me", place, "gpu-1", InstanceState.RUNNING, node=n, **known
        )
        for n in range(nodes)
    ]
    return ClusterView(
        "dev",
        "c-1",
        "r-1",
        state,
        Candidate(offer, Request(ports=ports), 0, nodes, "me"),
        tuple(machines),
        Guards(),
        0.0,
    )


def test_a_public_port_is_told_with_its_address() -> None:
    view = cluster(((8000, 8000), (9000, 9000), (8443, 8443), (5432, 5432)))
    assert public_words(view, ExposedPorts(public=((8000, 8000), (5432, 5432), (8443, 8443)))) == [
        f"{HOST}:5432 is public port 5432 of dev",
        f"http://{HOST}:8000 is public port 8000 of dev",
        f"https://{HOST}:8443 is public port 8443 of dev",
    ]
    assert public_words(view, ExposedPorts()) == []


def test_a_port_that_its_cloud_maps_is_told_by_its_number_outside_once_that_is_known() -> None:
    view = cluster(((8000, 8001),), mapped=((22, HOST, 40022), (8000, "198.51.100.2", 41003)))
    assert public_words(view, ExposedPorts(everything=True)) == [
        "http://198.51.100.2:41003 is public port 8000 of dev",
        "port 8001 has no address yet",
    ]


def test_of_many_ports_four_are_told_and_the_others_counted() -> None:
    *first, last = public_words(
        cluster(((8000, 8999), (9500, 9500))), ExposedPorts(everything=True)
    )
    assert [line.split()[0] for line in first] == [
        f"http://{HOST}:{port}" for port in range(8000, 8004)
    ]
    assert last == "and 997 more public ports of dev"
    assert (
        public_words(cluster(((8000, 8004),)), ExposedPorts(everything=True))[-1]
        == "and 1 more public port of dev"
    )


def test_an_address_of_the_newer_kind_stands_in_brackets_and_all_nodes_are_named() -> None:
    assert public_words(
        cluster(((8000, 8000),), nodes=3, host="2001:db8::1"), ExposedPorts(everything=True)
    ) == [
        "http://[2001:db8::1]:8000 is public port 8000 of dev",
        "its public ports are open on all 3 nodes; these are the head's",
    ]


@pytest.mark.parametrize("changes", [{"state": ClusterState.STOPPED}, {"host": ""}])
def test_nothing_is_told_while_there_is_no_address(changes: dict[str, Any]) -> None:
    assert public_words(cluster(((8000, 8000),), **changes), ExposedPorts(everything=True)) == []
