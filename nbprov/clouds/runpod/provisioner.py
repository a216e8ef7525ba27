"""The adapter of RunPod: pods over REST v2.

What is different here
----------------------
* **No idempotency key.** A launch is known by its pod's unique name. The first `submit` of a token
  looks for it before it creates, and a create is never sent twice: after an unknown outcome the
  engine watches the listing for `settle` seconds (`replayable` is False).
* **No spot and no tags** in v2. Spot rows of the price list are not planned here, and the
  environment holds what other clouds keep in tags.
* **A pod is a container**: `image_id: docker:…` is the pod's own image. `pod_entrypoint.py` says
  what runs in it and what RunPod can see.
* **A stopped pod may come back without its GPU**, because it stays on its host. `start` and the
  listing's reason report it.
* **Addresses change at every start**, so each listing reads them again.

Facts: openapi.json 2.0.0 of github.com/runpod/docs and docs.runpod.io, read in 2026-11.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from nbprov.clouds.base import (
    CALL_SECONDS,
    CHECK_SECONDS,
    LIST_SECONDS,
    STOCK_SECONDS,
    Capabilities,
    Cloud,
)
from nbprov.clouds.launch_checks import refuse_late
from nbprov.model.clock import Seconds
from nbprov.model.failures import Cause, CloudError, Failure, Scope
from nbprov.model.launches import (
    Accepted,
    CheckResult,
    CreateOperation,
    Instance,
    Launch,
    OnShutdown,
    PollResult,
    Quote,
    Refused,
    SideObject,
)
from nbprov.model.offers import Candidate, Offer
from nbprov.model.places import Market
from nbprov.model.stock import Stock

from . import check as account_check
from . import pod_calls, pod_entrypoint, pods, secrets, stock
from .account import find_access
from .api import Api, DeadlineEvent
from .images import container_for
from .pod_calls import LOOK_SECONDS, PODS, STEP_SECONDS, path_of, unless_gone
from .type_ids import CpuType, GpuType, TypeCatalog, centres_of, price_now, read_type

SOURCE = "RunPod REST v2 catalogue"
MOST_LOG = 64 << 10
LOG_SECONDS: Seconds = 8.0
QUIET_SECONDS: Seconds = 2.0
"""A log is a stream without an end: it counts as read when nothing comes for this long. Its
beginning may take as long."""
LOG_LINES = 500

CAPABILITIES = Capabilities(
    spot=False,
    stop=True,
    multi_node=False,
    ports=True,
    login=pods.LOGIN,
    docker=True,
    disk_sizes=True,
    replayable=False,
    settle=120.0,
    zones=True,
    stock_probe=True,
    # Documented for the pod's own key; see pod_entrypoint.py.
    poweroff_ends_bill=True,
    poweroff=pod_entrypoint.poweroff_command(),
    boot_deadline=900.0,
    poll_every=3.0,
    default_families=("cpu",),
    notes={
        "spot": (
            "RunPod's API v2 sells no spot; its spot prices are of the API that is being retired"
        ),
        "stop": (
            "a stopped pod stays on its host and may come back without its GPU; its volume "
            "costs twice the price meanwhile"
        ),
        "disk": (
            f"the home is on the pod's volume ({pod_entrypoint.VOLUME}); files outside it "
            "are lost when the pod stops"
        ),
        "image": (
            "the image is the machine itself; its entry point is replaced, so it needs a "
            "shell and (for the agent) Python"
        ),
        "ports": (
            "opened when the pod is created, each mapped to another public number; "
            "opening one later would restart the pod"
        ),
        "several nodes": "RunPod cannot create several pods all or none",
        "keys": (
            "the start script, with the cluster's host key, is a secret of the account and "
            "is removed with the pod"
        ),
    },
)
"""The boot deadline allows for pulling images of ten gigabytes and more. RunPod allows 60 calls a
minute, which sets `poll_every`."""


class RunPodCloud(Cloud):
    """RunPod's secure and community cloud.

    The key and the address are looked up at every call, so that a changed key counts at once.
    """

    name = pods.NAME
    capabilities = CAPABILITIES

    def __init__(self) -> None:
        self._kinds = TypeCatalog()

    def check(self) -> CheckResult:
        return account_check.check(CHECK_SECONDS - 0.3)

    def stock(self, offers: Sequence[Offer], count: int) -> Sequence[Stock]:
        if count != 1 or not offers:
            return ()
        return stock.look(self._api(), self._kinds, offers, seconds=STOCK_SECONDS - 0.2)

    def quote(self, candidate: Candidate) -> Quote | None:
        each = price_now(self._api(), self._kinds, candidate.offer, seconds=CHECK_SECONDS - 0.2)
        return None if each is None else Quote(each * candidate.count, SOURCE, time.time())

    def submit(self, launch: Launch) -> CreateOperation:
        kind = _checked(launch)
        api, deadline = self._api(), DeadlineEvent(CALL_SECONDS - 0.5)
        # A launch that was sent before, by whichever kernel, is found and not created again.
        found = pod_calls.of_launch(api, deadline.left(LOOK_SECONDS), token=launch.token)
        if found:
            return self._operation(launch, str(found[0]["id"]))
        container = container_for(launch.candidate.offer, pods.asked_image(launch))
        gpu_id = (
            self._kinds.gpu_id(api, kind.name, seconds=deadline.left(LOOK_SECONDS))
            if isinstance(kind, GpuType)
            else ""
        )
        centres = self._centres(api, launch.candidate.offer, deadline)
        hidden = [*launch.template_values.values(), pod_entrypoint.packed(launch.user_data())]
        kept = secrets.keep(api, launch, seconds=deadline.left(LOOK_SECONDS))
        try:
            refuse_late(launch)
            asked = pods.body(launch, kind, gpu_id, centres, container, api.access, kept.value)
            made = api.call(
                "POST",
                PODS,
                asked,
                seconds=deadline.left(),
                creates=True,
                secrets=[s for s in hidden if len(s) >= 6],
            )
        except CloudError as error:
            if error.failure.cause is not Cause.UNKNOWN_OUTCOME:
                secrets.forget(api, [kept], seconds=deadline.left(3.0))
            raise
        if not isinstance(made, dict) or not made.get("id"):
            raise CloudError(
                Failure(
                    Cause.UNKNOWN_OUTCOME, "RunPod answered a create without a pod", "odd-answer"
                )
            )
        return self._operation(launch, str(made["id"]))

    def poll(self, operation: CreateOperation) -> PollResult:
        # 201 means that RunPod accepted the create; the listing shows what becomes of the pod.
        if operation.data.get("pod"):
            return Accepted((operation.data["pod"],))
        found = pod_calls.of_launch(self._api(), LIST_SECONDS - 1.0, token=operation.token)
        if found:
            return Accepted((str(found[0]["id"]),))
        return Refused(
            Failure(Cause.UNKNOWN, "RunPod lists no pod of this launch", "not-listed", Scope.OFFER)
        )

    def list(self, owner: str) -> builtins.list[Instance]:
        listed = self._api().listed(PODS, "pods", seconds=LIST_SECONDS - 0.5)
        return [
            pods.instance(pod, self._kinds)
            for pod in listed
            if owner and pods.owner_of(pod) == owner
        ]

    def terminate(self, ids: Sequence[str]) -> None:
        if not ids:
            return
        api, deadline = self._api(), DeadlineEvent(CALL_SECONDS - 0.5)
        tokens = pod_calls.tokens_of(api, ids, deadline)
        self._each(
            ids,
            lambda i: unless_gone(
                lambda: api.call("DELETE", path_of(i), seconds=deadline.left(STEP_SECONDS))
            ),
        )
        # Their start scripts are no longer needed. One that cannot be removed now is reported as a
        # side object.
        secrets.forget_of(api, tokens - {""}, seconds=deadline.left(STEP_SECONDS))

    def stop(self, ids: Sequence[str]) -> None:
        api, deadline = self._api(), DeadlineEvent(CALL_SECONDS - 0.5)

        def stop_one(pod_id: str) -> None:
            pod = pod_calls.pod_of(api, pod_id, deadline)
            if pod is None or pod.get("status") in ("EXITED", "TERMINATED"):
                return
            if pods.is_cpu(pod):
                raise CloudError(
                    Failure(
                        Cause.BAD_REQUEST,
                        "a CPU pod of RunPod keeps no disk when it stops; down ends it",
                        "no-volume",
                    )
                )
            pod_calls.act_on(api, pod_id, "stop", deadline)

        self._each(ids, stop_one)

    def start(self, ids: Sequence[str]) -> None:
        api, deadline = self._api(), DeadlineEvent(CALL_SECONDS - 0.5)

        def start_one(pod_id: str) -> None:
            pod = pod_calls.pod_of(api, pod_id, deadline)
            if pod is None or pods.is_over(pod):
                raise CloudError(
                    Failure(Cause.NOT_OFFERED, f"RunPod no longer has the pod {pod_id}", "gone")
                )
            if pod.get("status") in ("RUNNING", "STARTING", "PROVISIONING"):
                return
            started = pod_calls.act_on(api, pod_id, "start", deadline)
            if isinstance(started, Mapping) and pods.lacks_gpus(started):
                # Without its GPU the pod is useless and costs the same.
                pod_calls.act_on(api, pod_id, "stop", deadline)
                raise CloudError(Failure(Cause.CAPACITY, pods.NO_GPU, "zero-gpus"))

        self._each(ids, start_one)

    def open_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """See `Cloud.open_ports`. Refuses ports that were not opened at creation.

        To add one later would restart the pod.
        """
        api, deadline = self._api(), DeadlineEvent(CALL_SECONDS - 0.5)
        wanted = {port for low, high in ports for port in range(low, high + 1)}
        for pod_id in ids:
            pod = pod_calls.pod_of(api, pod_id, deadline)
            said = pod.get("ports") if pod is not None else None
            open_now = (
                {str(one).partition("/")[0] for one in said} if isinstance(said, list) else set()
            )
            if missing := sorted(port for port in wanted if str(port) not in open_now):
                raise CloudError(
                    Failure(
                        Cause.BAD_REQUEST,
                        (
                            f"RunPod opens ports when a pod is created; opening {missing[0]} now "
                            "would restart it"
                        ),
                        "ports",
                    )
                )

    def close_ports(self, ids: Sequence[str], ports: Sequence[tuple[int, int]]) -> None:
        """Do nothing, because `open_ports` opens nothing that was not open from the start."""

    def side_objects(self, owner: str) -> builtins.list[SideObject]:
        return secrets.listed(self._api(), owner, seconds=LIST_SECONDS - 0.5)

    def remove(self, objects: Sequence[SideObject]) -> builtins.list[SideObject]:
        api, deadline = self._api(), DeadlineEvent(CALL_SECONDS - 0.5)
        if not objects:
            return []
        listed = api.listed(PODS, "pods", seconds=deadline.left(STEP_SECONDS))
        # A stopped pod reads its start script again when it starts.
        alive = {pods.token_of(pod) for pod in listed if not pods.is_over(pod)}
        used = [one for one in objects if one.token in alive]
        for one in objects:
            if one not in used:
                unless_gone(
                    partial(secrets.delete, api, one.id, seconds=deadline.left(STEP_SECONDS))
                )
        return used

    def console(self, instance_id: str) -> str:
        lines = self._api().events(
            f"{path_of(instance_id)}/logs",
            {"tail": LOG_LINES},
            seconds=LOG_SECONDS,
            quiet=QUIET_SECONDS,
        )
        text = ""
        for said in lines:
            text = (text + f"{said.get('ts') or ''} {said.get('line') or ''}".strip() + "\n")[
                -MOST_LOG:
            ]
        return text

    def _api(self) -> Api:
        return Api(find_access())

    def _operation(self, launch: Launch, pod_id: str) -> CreateOperation:
        return CreateOperation(self.name, launch.token, pod_id, {"pod": pod_id})

    def _centres(self, api: Api, offer: Offer, deadline: DeadlineEvent) -> builtins.list[str]:
        if offer.zone:
            return [offer.zone]
        if not offer.region:
            return []
        found = centres_of(api, offer.region, seconds=deadline.left(LOOK_SECONDS))
        if not found:
            raise CloudError(
                Failure(
                    Cause.NOT_OFFERED,
                    f"RunPod has no data centre in {offer.region}",
                    "no-centre",
                    Scope.REGION,
                )
            )
        return found

    @staticmethod
    def _each(ids: Sequence[str], do: Callable[[str], object]) -> None:
        """Do something for every id; raise the first failure after all were tried."""
        errors = []
        for pod_id in ids:
            try:
                do(pod_id)
            except CloudError as error:
                errors.append(error)
        if errors:
            raise errors[0]


def _checked(launch: Launch) -> GpuType | CpuType:
    """Return the launch's type if RunPod can create it at all."""
    offer = launch.candidate.offer
    if launch.count != 1:
        raise CloudError(
            Failure(
                Cause.BAD_REQUEST,
                "RunPod creates one pod at a time: several nodes cannot be created all or none",
                "count",
            )
        )
    if offer.market is Market.SPOT:
        raise CloudError(Failure(Cause.SPOT, "RunPod's API v2 sells no spot", "spot"))
    kind = read_type(offer.instance_type)
    if isinstance(kind, CpuType) and launch.on_shutdown is OnShutdown.STOP:
        raise CloudError(
            Failure(
                Cause.NOT_OFFERED,
                "a CPU pod of RunPod keeps no disk when it stops: `down: false` is not possible",
                "no-volume",
                Scope.OFFER,
            )
        )
    refuse_late(launch)
    return kind
