"""Build the launch that is written down and sent, from a candidate and a spec."""

from __future__ import annotations

from nbprov.clouds.base import LOGIN_LABEL, Capabilities
from nbprov.model.clock import Instant
from nbprov.model.launches import Launch, OnShutdown
from nbprov.model.offers import Candidate
from nbprov.model.resources import Image, Request
from nbprov.model.spec import ExposedPorts, Spec
from nbprov.provisioning.supervision.guard_config import end_command, on_shutdown
from nbprov.remote.boot.user_data import boot_template
from nbprov.remote.ssh.keys import ClusterKeys

BEST = "best"
"""The name of the fast network tier; any other word means the usual one."""


def make_launch(
    token: str,
    owner: str,
    run_id: str,
    name: str,
    spec: Spec,
    candidate: Candidate,
    capabilities: Capabilities,
    keys: ClusterKeys,
    *,
    answer_by: Instant,
) -> Launch:
    """Everything that one create needs.

    The key material stays in `keys` and is filled in when the create is sent.
    """
    lifetime, request = spec.guards.max_lifetime, candidate.request
    shutdown = on_shutdown(spec.guards, capabilities, candidate)
    return Launch(
        token=token,
        owner=owner,
        run_id=run_id,
        name=name,
        candidate=candidate,
        count=candidate.count,
        disk_gb=request.disk_gb,
        image=image_at(request.image, candidate.offer.region),
        tags={
            **dict(request.labels),
            "nbprov-owner": owner,
            "nbprov-token": token,
            "nbprov-run": run_id,
            "nbprov-name": name,
        },
        user_data_template=_start_script(request, capabilities, shutdown),
        public_key=keys.client_public,
        ports=public_ports(request.ports, spec.expose),
        on_shutdown=shutdown,
        terminate_after=lifetime if capabilities.own_timer else None,
        answer_by=answer_by,
        disk_tier=request.disk_tier,
        network_best=request.network_tier == BEST,
        accelerator_args=request.accelerator_args,
    )


def image_at(image: Image | None, region: str) -> str:
    """The machine image that a spec names for a region; empty where it names none.

    An image for the region itself wins over one for any region. A container is no machine image.

    Examples
    --------
    >>> image_at(Image(machine=(("", "ami-1"), ("us-east-1", "ami-2"))), "us-east-1")
    'ami-2'
    """
    if image is None:
        return ""
    by_region = {where.casefold(): one for where, one in image.own}
    return by_region.get(region.casefold(), by_region.get("", ""))


def public_ports(
    ports: tuple[tuple[int, int], ...], expose: ExposedPorts
) -> tuple[tuple[int, int], ...]:
    """The ports of a request that the spec opens to the internet, as inclusive ranges.

    Tunnels need no open port.

    Examples
    --------
    >>> public_ports(((8000, 8010), (9000, 9000)), ExposedPorts(public=((8005, 8007),)))
    ((8005, 8007),)
    """
    if expose.everything:
        return ports
    both = (
        (max(low, first), min(high, last)) for low, high in ports for first, last in expose.public
    )
    return tuple(sorted((low, high) for low, high in both if low <= high))


def _start_script(request: Request, capabilities: Capabilities, shutdown: OnShutdown) -> str:
    """The start script as a template.

    It makes the login, which a label may set where the user's own image has another than the
    cloud's usual one. A machine that stays alone after its boot ends as the spec's guards do: it
    may be one that was stopped and has work on its disk.
    """
    login = dict(request.labels).get(LOGIN_LABEL, "") or capabilities.login
    command = end_command(capabilities)
    return boot_template(command, mode=shutdown.value, login=login)
