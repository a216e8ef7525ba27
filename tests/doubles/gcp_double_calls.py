"""The API methods that the double implements; any other one is refused with a message."""

from __future__ import annotations

import re
import sys
import time
import uuid
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from double_faults import Fault
from gcp_double_faults import Refusal, operation_error
from gcp_double_goods import IMAGES, ROOT, TYPES
from gcp_double_model import label_faults
from gcp_double_world import Row, World, now_text

NETWORKS = ("global/networks/default", "global/networks/lab")
NAME = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", re.ASCII)
_LABEL_FILTER = re.compile(r"labels\.([a-z0-9_-]+)\s*=\s*\"?([a-z0-9_-]*)\"?")
_NAME_FILTER = re.compile(r"name eq \"?([^\"]*)\"?")
_TARGET_FILTER = re.compile(r"targetId\s*=\s*\"?(\d+)\"?")


class Calls:
    """Carries out one call after another on a world."""

    def __init__(self, world: World) -> None:
        self.world = world

    def run(
        self,
        method: str,
        params: dict[str, str],
        body: Any,
        place: dict[str, str],
        fault: Fault | None,
    ) -> Any:
        """The answer of a method."""
        if params.get("project") not in (
            self.world.project,
            "ubuntu-os-cloud",
            "ubuntu-os-accelerator-images",
            "deeplearning-platform-release",
            "debian-cloud",
        ):
            raise Refusal(
                404, "notFound", f"The resource 'projects/{params.get('project')}' was not found"
            )
        name = re.sub(r"(?<!^)(?=[A-Z])", "_", method.replace(".", "_")).lower()
        carry_out = getattr(self, f"_{name}", None)
        if carry_out is None:
            self.world.problems.append(f"the double does not carry out {method}")
            raise Refusal(501, "notImplemented", method)
        return carry_out(params, body, place, fault)

    # --- once

    def _replayed(self, params: dict[str, str], body: Any) -> dict[str, Any] | None:
        """Return the operation of an earlier request with the same id."""
        request = params.get("requestId", "")
        if not request:
            return None
        try:
            fits = uuid.UUID(request).int != 0
        except ValueError:
            fits = False
        if not fits:
            raise Refusal(
                400, "invalid", "Invalid value for field 'requestId': it must be a valid UUID."
            )
        before = self.world.requests.get(request)
        if before is None:
            return None
        if before[1] != body:
            self.world.problems.append(f"request: {request} was sent again with another body")
        return self.world.operations[before[0]]

    def _note(self, params: dict[str, str], body: Any, operation: dict[str, Any]) -> dict[str, Any]:
        if params.get("requestId"):
            self.world.requests[params["requestId"]] = (operation["name"], body)
        return operation

    # --- machines

    def _checked(self, wanted: dict[str, Any], zone: str, names: list[str]) -> None:
        faults = label_faults(wanted.get("labels", {}), "resource.labels")
        faults += [
            f"{name!r} is no name of a machine" for name in names if not NAME.fullmatch(name)
        ]
        faults += [
            f"{tag!r} is no tag"
            for tag in wanted.get("tags", {}).get("items", ())
            if not NAME.fullmatch(tag)
        ]
        keys = [item.get("key") for item in wanted.get("metadata", {}).get("items", ())]
        faults += ["metadata: a key comes twice"] if len(keys) != len(set(keys)) else []
        if faults:
            self.world.problems += [f"request: {f}" for f in faults]
            raise Refusal(400, "invalid", f"Invalid value for field 'resource': {faults[0]}")
        self.world.check_wishes(wanted, zone)
        source = wanted["disks"][0].get("initializeParams", {}).get("sourceImage", "")
        found = next(
            (
                size
                for (p, family), size in IMAGES.items()
                if source == f"projects/{p}/global/images/{family}-v20260801"
            ),
            None,
        )
        if found is None and not source.startswith(f"projects/{self.world.project}/"):
            raise Refusal(404, "notFound", f"The resource '{source}' was not found")
        if found and int(wanted["disks"][0]["initializeParams"].get("diskSizeGb", found)) < found:
            raise Refusal(
                400,
                "invalid",
                f"Requested disk size cannot be smaller than the image size ({found} GB)",
            )

    def _instances_insert(
        self, params: dict[str, str], body: Any, place: dict[str, str], fault: Fault | None
    ) -> Any:
        if before := self._replayed(params, body):
            return before
        world, zone, name = self.world, params["zone"], body["name"]
        self._checked(body, zone, [name])
        if (zone, name) in world.rows:
            raise Refusal(
                409,
                "alreadyExists",
                (
                    f"The resource 'projects/{world.project}/zones/{zone}/instances/{name}' "
                    "already exists"
                ),
            )
        errors = world.failing(fault, place, 1)
        row = world.make(name, zone, body)
        self._over_quota(errors, body, 1, place)

        def done() -> list[dict[str, Any]] | None:
            if errors:
                world.discard(zone, name, keep_disk=bool(fault and fault.do == "half_made"))
                return errors
            world.power_on(row)
            return None

        after = fault.seconds if fault and fault.do == "late_failure" and fault.seconds else None
        target = f"zones/{zone}/instances/{name}"
        return self._note(
            params,
            body,
            world.operation(
                "insert", target, row.data["id"], zone, params.get("requestId", ""), done, after
            ),
        )

    def _instances_bulk_insert(
        self, params: dict[str, str], body: Any, place: dict[str, str], fault: Fault | None
    ) -> Any:
        return self._bulk(params, body, place, fault, [params["zone"]], {"zone": params["zone"]})

    def _region_instances_bulk_insert(
        self, params: dict[str, str], body: Any, place: dict[str, str], fault: Fault | None
    ) -> Any:
        if body.get("locationPolicy", {}).get("targetShape") != "ANY_SINGLE_ZONE":
            self.world.problems.append("the double makes machines of a region in one zone alone")
        region = params["region"]
        return self._bulk(
            params,
            body,
            place,
            fault,
            [f"{region}-{letter}" for letter in "abc"],
            {"region": region},
        )

    def _bulk(
        self,
        params: dict[str, str],
        body: Any,
        place: dict[str, str],
        fault: Fault | None,
        zones: list[str],
        where: dict[str, str],
    ) -> Any:
        """Create several machines or none, in the first of these zones that has room."""
        if before := self._replayed(params, body):
            return before
        world, wanted = self.world, body["instanceProperties"]
        names = [*body.get("perInstanceProperties", {})]
        count, least = int(body["count"]), int(body.get("minCount", body["count"]))
        if len(names) != count or least > count:
            raise Refusal(
                400,
                "invalid",
                "Invalid value for field 'count': the number of names must be equal to it.",
            )
        if "/" in wanted["machineType"] or any(
            "/" in d["initializeParams"]["diskType"] for d in wanted["disks"]
        ):
            raise Refusal(
                400,
                "invalid",
                (
                    "Invalid value for field 'instanceProperties.machineType': a name is wanted, "
                    "not an address."
                ),
            )
        self._checked(wanted, zones[0], names)

        def done() -> list[dict[str, Any]] | None:
            errors: list[dict[str, Any]] = []
            for zone in zones:
                if taken := [n for n in names if (zone, n) in world.rows]:
                    words = (
                        "The resource "
                        f"'projects/{world.project}/zones/{zone}/instances/{taken[0]}' already"
                        " exists"
                    )
                    return [{"code": "RESOURCE_ALREADY_EXISTS", "message": words}]
                errors = world.failing(fault, {**place, "zone": zone}, count)
                self._over_quota(errors, wanted, count, place)
                if not errors:
                    for n in names:
                        world.power_on(world.make(n, zone, wanted))
                    return None
            return errors

        target = "/".join(f"{key}s/{value}" for key, value in where.items())
        told = world.operation(
            "bulkInsert",
            f"{target}/instances",
            "0",
            where.get("zone", ""),
            params.get("requestId", ""),
            done,
        )
        told["operationGroupId"] = str(uuid.uuid4())
        if "region" in where:
            told["region"] = f"{ROOT}/projects/{world.project}/regions/{where['region']}"
        return self._note(params, body, told)

    def _over_quota(
        self,
        errors: list[dict[str, Any]],
        wanted: dict[str, Any],
        count: int,
        place: dict[str, str],
    ) -> None:
        world, spot = self.world, wanted.get("scheduling", {}).get("provisioningModel") == "SPOT"
        for device in wanted.get("guestAccelerators", ()):
            kind = (
                device["acceleratorType"]
                .rpartition("/")[2]
                .removeprefix("nvidia-")
                .removeprefix("tesla-")
                .replace("-", "_")
                .upper()
            )
            metric = f"{'PREEMPTIBLE_' if spot else ''}NVIDIA_{kind}_GPUS"
            limit = world.quotas.get(metric)
            if not errors and limit is not None and device["acceleratorCount"] * count > limit:
                errors += operation_error(
                    "quota", {**place, "metric": metric, "limit": f"{limit:.1f}"}
                )

    def _row(self, params: dict[str, str]) -> tuple[tuple[str, str], Row]:
        key = (params["zone"], params["instance"])
        if key not in self.world.rows:
            raise Refusal(
                404,
                "notFound",
                (
                    "The resource "
                    f"'projects/{self.world.project}/zones/{key[0]}/instances/{key[1]}' was not"
                    " found"
                ),
            )
        return key, self.world.rows[key]

    def _instances_get(self, params: dict[str, str], *_: Any) -> Any:
        return self._row(params)[1].data

    def _instances_delete(
        self, params: dict[str, str], _: Any, place: dict[str, str], fault: Fault | None
    ) -> Any:
        (zone, name), row = self._row(params)
        if fault and fault.do == "late_failure":  # accepted, but the machine stays
            told = self.world.operation(
                "delete", f"zones/{zone}/instances/{name}", row.data["id"], zone
            )
            self.world.finish(told, operation_error("late_failure", place))
            return told
        if row.ends_at is None:
            row.data["status"] = "STOPPING"
            row.operation, row.asked = None, False
            row.ends_at = time.monotonic() + self.world.end
        told = self.world.operation(
            "delete", f"zones/{zone}/instances/{name}", row.data["id"], zone
        )
        if row.operation is None:
            row.operation = told
        else:
            self.world.finish(told)
        return told

    def _instances_stop(self, params: dict[str, str], *_: Any) -> Any:
        (zone, name), row = self._row(params)
        told = self.world.operation("stop", f"zones/{zone}/instances/{name}", row.data["id"], zone)
        if row.data["status"] in ("RUNNING", "STAGING", "PROVISIONING") and row.ends_at is None:
            row.data["status"], row.operation, row.asked = "STOPPING", told, False
            row.stops_at = time.monotonic() + self.world.end
        else:
            self.world.finish(told)
        return told

    def _instances_start(
        self, params: dict[str, str], _: Any, place: dict[str, str], fault: Fault | None
    ) -> Any:
        (zone, name), row = self._row(params)
        world = self.world
        if row.data["status"] == "STOPPING":
            raise Refusal(
                400,
                "resourceNotReady",
                (
                    f"The resource 'projects/{world.project}/zones/{zone}/instances/{name}' is not "
                    "ready"
                ),
            )
        told_place = {**place, "type": row.data["machineType"].rpartition("/")[2]}
        errors = (
            operation_error(fault.do, told_place)
            if fault and fault.do in ("capacity", "quota")
            else None
        )

        def done() -> list[dict[str, Any]] | None:
            if errors or row.data["status"] != "TERMINATED":
                return errors
            if world.room(zone, told_place["type"], 1):
                return operation_error("capacity", told_place)
            row.data |= {"status": "PROVISIONING", "lastStartTimestamp": now_text()}
            row.ready_at = time.monotonic() + world.boot
            if world.machines:
                world.machines.start(row.machine)
            return None

        return world.operation(
            "start", f"zones/{zone}/instances/{name}", row.data["id"], zone, "", done
        )

    def _instances_aggregated_list(
        self, params: dict[str, str], _: Any, place: dict[str, str], fault: Fault | None
    ) -> Any:
        young = time.monotonic() - self.world.hidden
        rows = [
            (zone, row.data)
            for (zone, _), row in self.world.rows.items()
            if not self.world.hidden or row.made < young
        ]
        told = self._aggregated(params, rows, "instances", "compute#instanceAggregatedList")
        return self._lacking(told, fault)

    @staticmethod
    def _lacking(told: dict[str, Any], fault: Fault | None) -> dict[str, Any]:
        """Return an answer that lacks a zone, and says so in one of Google's ways."""
        if fault and fault.do in ("unreachable", "partial"):
            code = {"unreachable": "UNREACHABLE", "partial": "PARTIAL_SUCCESS"}[fault.do]
            warning = {"code": code, "message": "The zone 'zones/us-central1-a' is unreachable."}
            return told | (
                {"items": {"zones/us-central1-a": {"warning": warning}}}
                if code == "UNREACHABLE"
                else {"items": {}, "warning": warning}
            )
        if fault and fault.do == "unreachables":
            return told | {"items": {}, "unreachables": ["zones/us-central1-a"]}
        return told

    def _instances_get_serial_port_output(self, params: dict[str, str], *_: Any) -> Any:
        _, row = self._row(params)
        if row.data["status"] not in ("RUNNING", "STAGING"):
            raise Refusal(400, "resourceNotReady", "The resource is not ready")
        text = (
            self.world.machines.console(row.machine)
            if self.world.machines
            else "SeaBIOS (version 1.8.2-google)\n"
        )
        return {
            "kind": "compute#serialPortOutput",
            "contents": text,
            "start": "0",
            "next": str(len(text)),
        }

    # --- lists

    def _filter(self, wanted: str) -> Any:
        """Return a test for the filters that nbprov sends.

        Any other filter is refused with a message.
        """
        if not wanted:
            return lambda _: True
        if found := _LABEL_FILTER.fullmatch(wanted):
            return lambda row: row.get("labels", {}).get(found[1]) == found[2]
        if found := _NAME_FILTER.fullmatch(wanted):
            return lambda row: re.fullmatch(found[1], row["name"]) is not None
        if found := _TARGET_FILTER.fullmatch(wanted):
            return lambda row: row.get("targetId") == found[1]
        self.world.problems.append(f"request: a filter that the double does not know: {wanted!r}")
        raise Refusal(
            400,
            "invalid",
            f"Invalid value for field 'filter': '{wanted}'. Invalid list filter expression.",
        )

    def _aggregated(
        self, params: dict[str, str], rows: list[tuple[str, dict[str, Any]]], kind: str, name: str
    ) -> Any:
        keep = self._filter(params.get("filter", ""))
        most, start = (
            min(int(params.get("maxResults", 500)), self.world.page),
            int(params.get("pageToken", "0")),
        )
        found = [(zone, row) for zone, row in rows if keep(row)]
        found = [("", {})] * (most * self.world.empty_pages) + found
        items: dict[str, Any] = {}
        for zone, row in found[start : start + most]:
            if not zone:
                continue
            items.setdefault(f"zones/{zone}", {kind: []})[kind].append(row)
        if not items:
            items = {
                "zones/us-central1-a": {
                    "warning": {
                        "code": "NO_RESULTS_ON_PAGE",
                        "message": (
                            "There are no results for scope 'zones/us-central1-a' on this page."
                        ),
                    }
                }
            }
        answer = {
            "kind": name,
            "id": f"projects/{self.world.project}/aggregated/{kind}",
            "items": items,
            "selfLink": f"{ROOT}/x",
        }
        return answer | ({"nextPageToken": str(start + most)} if len(found) > start + most else {})

    def _listed(self, params: dict[str, str], rows: list[dict[str, Any]], name: str) -> Any:
        keep = self._filter(params.get("filter", ""))
        return {
            "kind": name,
            "id": "x",
            "items": [row for row in rows if keep(row)],
            "selfLink": f"{ROOT}/x",
        }

    def _zone_operations_list(self, params: dict[str, str], *_: Any) -> Any:
        rows = [
            o
            for o in self.world.operations.values()
            if o.get("zone", "").endswith(f"/{params['zone']}")
        ]
        return self._listed(params, rows, "compute#operationList")

    def _zone_operations_get(self, params: dict[str, str], *_: Any) -> Any:
        found = self.world.operations.get(params["operation"])
        if found is None or not found.get("zone", "").endswith(f"/{params['zone']}"):
            raise Refusal(
                404,
                "notFound",
                (
                    f"The resource 'projects/{self.world.project}/zones/{params['zone']}"
                    f"/operations/{params['operation']}' was not found"
                ),
            )
        return found

    _zone_operations_wait = _zone_operations_get

    def _region_operations_get(self, params: dict[str, str], *_: Any) -> Any:
        found = self.world.operations.get(params["operation"])
        if found is None or not found.get("region", "").endswith(f"/{params['region']}"):
            raise Refusal(
                404,
                "notFound",
                (
                    "The resource "
                    f"'projects/{self.world.project}/regions/{params['region']}/operations/x'"
                    " was not found"
                ),
            )
        return found

    # --- the rest

    def _firewalls_list(self, params: dict[str, str], *_: Any) -> Any:
        return self._listed(params, [*self.world.firewalls.values()], "compute#firewallList")

    def _firewalls_insert(self, params: dict[str, str], body: Any, *_: Any) -> Any:
        world, name = self.world, body["name"]
        if not NAME.fullmatch(name) or bool(body.get("allowed")) == bool(body.get("denied")):
            raise Refusal(
                400, "invalid", "Invalid value for field 'resource.name' or 'resource.allowed'."
            )
        if name in world.firewalls:
            raise Refusal(
                409,
                "alreadyExists",
                f"The resource 'projects/{world.project}/global/firewalls/{name}' already exists",
            )
        if body["network"] not in NETWORKS:
            raise Refusal(
                404,
                "notFound",
                f"The resource 'projects/{world.project}/{body['network']}' was not found",
            )
        network = f"{ROOT}/projects/{world.project}/{body['network']}"
        data = {
            **body,
            "network": network,
            "id": world.number(),
            "kind": "compute#firewall",
            "creationTimestamp": now_text(),
        }
        world.firewalls[name] = data
        return self._global("insert", f"global/firewalls/{name}", data["id"])

    def _firewall(self, params: dict[str, str]) -> dict[str, Any]:
        found = self.world.firewalls.get(params["firewall"])
        if found is None:
            raise Refusal(
                404,
                "notFound",
                (
                    "The resource "
                    f"'projects/{self.world.project}/global/firewalls/{params['firewall']}' was"
                    " not found"
                ),
            )
        return found

    def _firewalls_patch(self, params: dict[str, str], body: Any, *_: Any) -> Any:
        found = self._firewall(params)
        found |= body
        return self._global("patch", f"global/firewalls/{params['firewall']}", found["id"])

    def _firewalls_delete(self, params: dict[str, str], *_: Any) -> Any:
        found = self._firewall(params)
        del self.world.firewalls[params["firewall"]]
        return self._global("delete", f"global/firewalls/{params['firewall']}", found["id"])

    def _global(self, kind: str, target: str, number: str) -> Any:
        told = self.world.operation(kind, target, number)
        self.world.finish(told)
        return told

    def _disks_aggregated_list(
        self, params: dict[str, str], _: Any, place: dict[str, str], fault: Fault | None
    ) -> Any:
        rows = [(zone, disk) for (zone, _), disk in self.world.disks.items()]
        return self._lacking(
            self._aggregated(params, rows, "disks", "compute#diskAggregatedList"), fault
        )

    def _disks_delete(self, params: dict[str, str], *_: Any) -> Any:
        key = (params["zone"], params["disk"])
        found = self.world.disks.get(key)
        where = f"projects/{self.world.project}/zones/{key[0]}/disks/{key[1]}"
        if found is None:
            raise Refusal(404, "notFound", f"The resource '{where}' was not found")
        if found["users"]:
            raise Refusal(
                400,
                "resourceInUseByAnotherResource",
                f"The disk resource '{where}' is already being used by '{found['users'][0]}'",
            )
        del self.world.disks[key]
        told = self.world.operation("delete", f"zones/{key[0]}/disks/{key[1]}", found["id"], key[0])
        self.world.finish(told)
        return told

    def _images_get_from_family(self, params: dict[str, str], *_: Any) -> Any:
        key = (params["project"], params["family"])
        if key not in IMAGES:
            raise Refusal(
                404,
                "notFound",
                f"The resource 'projects/{key[0]}/global/images/family/{key[1]}' was not found",
            )
        return {
            "kind": "compute#image",
            "id": "1",
            "name": f"{key[1]}-v20260801",
            "family": key[1],
            "diskSizeGb": str(IMAGES[key]),
            "status": "READY",
        }

    def _images_get(self, params: dict[str, str], *_: Any) -> Any:
        if not params["image"].startswith("own-"):
            raise Refusal(
                404,
                "notFound",
                (
                    f"The resource 'projects/{params['project']}/global/images/{params['image']}' "
                    "was not found"
                ),
            )
        return {
            "kind": "compute#image",
            "id": "2",
            "name": params["image"],
            "diskSizeGb": "30",
            "status": "READY",
        }

    def _projects_get(self, *_: Any) -> Any:
        world = self.world
        quotas = [
            {"metric": m, "limit": limit, "usage": world.devices_in_use(m)}
            for m, limit in world.project_quotas.items()
        ]
        return {
            "kind": "compute#project",
            "id": "1",
            "name": world.project,
            "quotas": quotas,
            "xpnProjectStatus": "UNSPECIFIED_XPN_PROJECT_STATUS",
        }

    def _regions_get(self, params: dict[str, str], *_: Any) -> Any:
        world, region = self.world, params["region"]
        if not re.fullmatch(r"[a-z]+-[a-z]+\d+", region):
            raise Refusal(
                404,
                "notFound",
                f"The resource 'projects/{world.project}/regions/{region}' was not found",
            )
        quotas = [
            {"metric": m, "limit": limit, "usage": world.devices_in_use(m, region)}
            for m, limit in world.quotas.items()
        ]
        return {
            "kind": "compute#region",
            "id": "1",
            "name": region,
            "status": "UP",
            "quotas": quotas,
        }

    def _advice_capacity(self, params: dict[str, str], body: Any, *_: Any) -> Any:
        chosen = [
            t
            for s in body["instanceFlexibilityPolicy"]["instanceSelections"].values()
            for t in s["machineTypes"]
        ]
        if any(t not in TYPES for t in chosen):
            raise Refusal(400, "invalid", f"Invalid value for field 'machineTypes': '{chosen}'.")
        zones = [
            z["zone"].rpartition("/")[2]
            for z in body.get("distributionPolicy", {}).get("zones", ())
        ] or [f"{params['region']}-a"]
        score = self.world.obtainability.get(zones[0], self.world.obtainability.get("", 0.8))
        shard = {
            "instanceCount": body["size"],
            "machineType": chosen[0],
            "provisioningModel": "SPOT",
            "zone": zones[0],
        }
        return {
            "recommendations": [
                {"scores": {"obtainability": score, "estimatedUptime": "3600s"}, "shards": [shard]}
            ]
        }
