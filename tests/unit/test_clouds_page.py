"""docs/clouds.md against the adapters.

The permissions are those of the calls they make, and no variable they read is left out.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore import xform_name

from nbprov.clouds.base import Capabilities

ROOT = Path(__file__).resolve().parents[2]
CLOUDS = ROOT / "nbprov" / "clouds"
PAGE = (ROOT / "docs" / "clouds.md").read_text(encoding="utf-8")

SERVICES = {
    "ec2": "ec2",
    "sts": "sts",
    "ssm": "ssm",
    "service-quotas": "servicequotas",
    "pricing": "pricing",
}
"""boto3's services that the adapter speaks to, and what they are called in a policy."""
BESIDE = {"ec2:CreateTags", "iam:CreateServiceLinkedRole"}
"""Permissions without a call of their own.

For tags given with a create, and for the first spot machine of an account.
"""

_MAKING = {
    "compute.instances.create",
    "compute.instances.setLabels",
    "compute.instances.setMetadata",
    "compute.instances.setTags",
    "compute.disks.create",
    "compute.disks.setLabels",
    "compute.subnetworks.use",
    "compute.subnetworks.useExternalIp",
    "compute.networks.use",
    "compute.networks.useExternalIp",
}
GCP_METHODS: dict[str, set[str]] = {
    "Disks": {"aggregated_list", "delete_unary"},
    "Firewalls": {"delete_unary", "insert_unary", "patch_unary"},
    "Images": {"get_from_family"},
    "Instances": {
        "aggregated_list",
        "bulk_insert_unary",
        "delete_unary",
        "get_serial_port_output",
        "insert_unary",
        "start_unary",
        "stop_unary",
    },
    "RegionInstances": {"bulk_insert_unary"},
    "ZoneOperations": set(),
    "RegionOperations": set(),
}
"""The library's services that the adapter uses and their methods; `get`, `list` and `wait`, which
are words of every day, are not looked for.
"""
GCP_NEEDS = {
    "Disks": {"compute.disks.list", "compute.disks.delete"},
    "Firewalls": {
        "compute.firewalls.create",
        "compute.firewalls.list",
        "compute.firewalls.get",
        "compute.firewalls.update",
        "compute.firewalls.delete",
        "compute.networks.updatePolicy",
    },
    "Images": {"compute.images.get", "compute.images.getFromFamily", "compute.images.useReadOnly"},
    "Instances": _MAKING
    | {
        "compute.instances.delete",
        "compute.instances.get",
        "compute.instances.list",
        "compute.instances.start",
        "compute.instances.stop",
        "compute.instances.getSerialPortOutput",
    },
    "RegionInstances": _MAKING,
    "ZoneOperations": {"compute.zoneOperations.get", "compute.zoneOperations.list"},
    "RegionOperations": {"compute.regionOperations.get"},
}
"""What Google's reference says these need."""
GCP_REST = {
    "": {"compute.projects.get"},
    "/regions/": {"compute.regions.get"},
    "/advice/capacity": {"compute.advice.capacity"},
}
"""Paths of what is asked without the library."""
GCP_PRICES = {"compute.zones.list", "compute.machineTypes.list", "compute.acceleratorTypes.list"}


@cache
def trees(cloud: str) -> dict[str, ast.Module]:
    """The sources of a cloud, read."""
    return {
        path.name: ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted((CLOUDS / cloud).rglob("*.py"))
    }


def texts(cloud: str) -> Iterator[str]:
    """Every string in the sources of a cloud."""
    for tree in trees(cloud).values():
        yield from (
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        )


def aws_calls() -> set[str]:
    """The operations that the AWS adapter and its price fetcher name.

    By botocore's name, or as a method of a client.
    """
    session = botocore.session.get_session()
    operations = {
        name: f"{policy}:{name}"
        for service, policy in SERVICES.items()
        for name in session.get_service_model(service).operation_names
    }
    methods = {xform_name(name): action for name, action in operations.items()}
    said = {operations[text] for text in texts("aws") if text in operations}
    attributes = {
        node.attr
        for tree in trees("aws").values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
    }
    return said | {methods[name] for name in attributes & methods.keys()}


@cache
def policy() -> dict[str, Any]:
    """The one policy document on the page."""
    found = [
        json.loads(text)
        for text in re.findall(r"^```json\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    ]
    assert len(found) == 1
    document: dict[str, Any] = found[0]
    return document


def listed(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_the_policy_allows_what_the_adapter_calls_and_no_more() -> None:
    allowed = [
        action for statement in policy()["Statement"] for action in listed(statement["Action"])
    ]
    assert len(allowed) == len(set(allowed)), "an action stands in two statements"
    assert aws_calls() == set(allowed) - BESIDE
    assert set(allowed) >= BESIDE


def test_the_policy_is_one_that_iam_takes() -> None:
    document = policy()
    assert document["Version"] == "2012-10-17"
    # A managed policy may have 6144 characters, white space not counted.
    assert len(re.sub(r"\s", "", json.dumps(document))) <= 6144
    names = [statement["Sid"] for statement in document["Statement"]]
    assert len(set(names)) == len(names)
    for statement in document["Statement"]:
        assert set(statement) <= {"Sid", "Effect", "Action", "Resource", "Condition"}
        assert re.fullmatch(r"[A-Za-z0-9]+", statement["Sid"])
        assert statement["Effect"] == "Allow"
        assert listed(statement["Resource"])


def test_whatever_ends_or_changes_something_is_narrowed_to_what_is_ours() -> None:
    for statement in policy()["Statement"]:
        harsh = [
            a
            for a in listed(statement["Action"])
            if re.match(
                r"ec2:(Terminate|Stop|Start|Delete|Detach|Revoke|Authorize|Modify|Cancel)", a
            )
        ]
        condition = json.dumps(statement.get("Condition", {}))
        assert not harsh or "aws:ResourceTag/nbprov-" in condition, harsh


def test_every_create_that_tags_may_tag() -> None:
    """The tags of a create are a permission of their own, and the policy names the creates for
    which it is given.
    """
    creating = next(s for s in policy()["Statement"] if s["Action"] == "ec2:CreateTags")[
        "Condition"
    ]["StringEquals"]["ec2:CreateAction"]
    creates = {
        call.removeprefix("ec2:") for call in aws_calls() if re.match(r"ec2:(Create|Run)", call)
    }
    assert set(creating) == creates - {"CreateRoute"}


@cache
def gcp_library() -> dict[str, set[str]]:
    """The services of Google's library and their methods, read from its files.

    Importing it would take a second.
    """
    place = find_spec("google.cloud.compute_v1")
    assert place is not None
    assert place.origin is not None
    clients = (Path(place.origin).parent / "services").glob("*/client.py")
    return {
        "".join(word.capitalize() for word in client.parent.name.split("_")): set(
            re.findall(
                r"^    def ([a-z]\w*)\(\s*self,\s*request:",
                client.read_text(encoding="utf-8"),
                re.MULTILINE,
            )
        )
        for client in clients
    }


def test_the_permissions_of_gcp_are_those_of_its_calls() -> None:
    library, said = gcp_library(), set(texts("gcp"))
    assert said & library.keys() == set(GCP_NEEDS), "another service is used: what does it need?"
    every = {name for service in GCP_NEEDS for name in library[service] if "_" in name}
    assert said & every == set().union(*GCP_METHODS.values()), (
        "other methods are used: what do they need?"
    )
    assert all(GCP_METHODS[service] <= library[service] for service in GCP_METHODS)
    needed = set().union(*GCP_NEEDS.values(), *GCP_REST.values(), GCP_PRICES)
    assert set(re.findall(r"`(compute\.[a-zA-Z]+\.[a-zA-Z]+)`", PAGE)) == needed


def test_what_gcp_is_asked_without_the_library_is_known_here() -> None:
    asked = [
        node.args[0]
        for tree in trees("gcp").values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "ask"
        and node.args
    ]
    assert asked
    for path in asked:
        parts = (
            [p.value for p in path.values if isinstance(p, ast.Constant)]
            if isinstance(path, ast.JoinedStr)
            else [ast.literal_eval(path)]
        )
        assert set(parts) <= set(GCP_REST), ast.unparse(path)


def variables() -> Iterator[tuple[str, str]]:
    """Environment variables that anything below nbprov/clouds names, with the file."""
    for path in sorted(CLOUDS.rglob("*")):
        if path.suffix in (".py", ".sh", ".txt"):
            name, text = path.relative_to(CLOUDS).as_posix(), path.read_text(encoding="utf-8")
            yield from (
                (found, name) for found in re.findall(r"\bNBPROV_[A-Z][A-Z_]*[A-Z]\b", text)
            )
            # Only whole strings: AWS's and Google's words occur in texts that are no variables.
            yield from (
                (found, name)
                for found in re.findall(
                    r'"((?:AWS|GOOGLE|GCLOUD|CLOUDSDK|RUNPOD|LAMBDA)_[A-Z_]*[A-Z])"', text
                )
            )


MADE_UP = {"NBPROV_LABEL_TEAM_COST_CENTRE", "NBPROV_END"}
"""An example of a label's variable, and the end of a text."""


def test_every_variable_is_on_the_page() -> None:
    missing = {
        name: where
        for name, where in variables()
        if name not in MADE_UP and not re.search(rf"`{name}`", PAGE)
    }
    assert missing == {}


def test_no_variable_on_the_page_is_made_up() -> None:
    known = {name for name, _ in variables()}
    known |= {
        "NBPROV_LABEL_",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_REGION",
        "AWS_ENDPOINT_URL_EC2",
    }  # read by boto3 itself
    named = set(
        re.findall(r"`((?:NBPROV|AWS|GOOGLE|GCLOUD|CLOUDSDK|RUNPOD|LAMBDA)_[A-Z_]+)[`<]", PAGE)
    )
    assert named - known == set()


FOLDERS = ("aws", "gcp", "runpod", "lambda_cloud")
"""In the order of the table's columns."""
YES_AND_NO = {
    "spot": "spot",
    "stop and start again": "stop",
    "several nodes at once": "multi_node",
    "open ports (`expose`)": "ports",
    "stock before the launch": "stock_probe",
}


def capabilities(folder: str) -> Capabilities:
    found = import_module(f"nbprov.clouds.{folder}").make().capabilities
    assert isinstance(found, Capabilities)
    return found


def table() -> dict[str, list[str]]:
    """The rows of the first table that have a cell for each cloud."""
    return {
        cells[0]: cells[1:]
        for line in PAGE.splitlines()
        if line.startswith("|") and len(cells := _cells(line)) == 1 + len(FOLDERS)
    }


@pytest.mark.parametrize(("row", "name"), [*YES_AND_NO.items()])
def test_the_table_says_what_the_adapters_say(row: str, name: str) -> None:
    for folder, said in zip(FOLDERS, table()[row], strict=True):
        assert getattr(capabilities(folder), name) == (said.strip("*") != "no"), f"{folder}: {row}"


def test_who_logs_in_and_what_ends_a_bill_is_as_the_adapters_say() -> None:
    assert [cell.strip("`") for cell in table()["who logs in"]] == [
        capabilities(folder).login for folder in FOLDERS
    ]
    ends = [cell.strip("*") != "no" for cell in table()["a machine can end its own bill"]]
    assert ends == [capabilities(folder).poweroff_ends_bill for folder in FOLDERS]
    zones = [cell != "region" for cell in table()["finest place"]]
    assert zones == [capabilities(folder).zones for folder in FOLDERS]


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def test_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([a-z_./-]+\.md)\)", PAGE):
        assert (ROOT / "docs" / target).is_file(), target
