"""From a candidate and a spec to the launch that is written down and sent."""

from __future__ import annotations

from nbprov.clouds.base import Capabilities
from nbprov.model.clock import Instant
from nbprov.model.launches import Launch
from nbprov.model.offers import Candidate
from nbprov.model.spec import Spec
from nbprov.remote.boot import boot_template
from nbprov.remote.keys import ClusterKeys

from .guards import on_shutdown


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
    """Everything one create needs; key material stays in `keys` and is filled in when it is sent."""
    lifetime = spec.guards.max_lifetime
    return Launch(
        token=token,
        owner=owner,
        run_id=run_id,
        name=name,
        candidate=candidate,
        count=candidate.count,
        disk_gb=candidate.request.disk_gb,
        tags={
            **dict(candidate.request.labels),
            "nbprov-owner": owner,
            "nbprov-token": token,
            "nbprov-run": run_id,
            "nbprov-name": name,
        },
        user_data_template=boot_template(capabilities.poweroff),
        public_key=keys.client_public,
        on_shutdown=on_shutdown(spec.guards, capabilities, candidate),
        terminate_after=lifetime if capabilities.own_timer else None,
        answer_by=answer_by,
    )
