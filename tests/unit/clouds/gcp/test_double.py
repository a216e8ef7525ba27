"""The Google Cloud double follows the official model, and reports violations."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from gcp_double import PROJECT, GcpDouble
from gcp_double_model import model
from googleapiclient.discovery import build
from googleapiclient.errors import HttpError
from httplib2 import Http

ZONE = "us-central1-a"
GOOD: dict[str, Any] = {
    "name": "one",
    "machineType": f"zones/{ZONE}/machineTypes/n2-standard-4",
    "disks": [
        {
            "boot": True,
            "autoDelete": True,
            "initializeParams": {
                "sourceImage": "projects/ubuntu-os-cloud/global/images/ubuntu-2204-lts-v20260801",
                "diskSizeGb": "10",
            },
        }
    ],
    "networkInterfaces": [
        {"network": "global/networks/default", "accessConfigs": [{"type": "ONE_TO_ONE_NAT"}]}
    ],
    "scheduling": {"provisioningModel": "STANDARD"},
}


@pytest.fixture(scope="module")
def server() -> Iterator[GcpDouble]:
    with GcpDouble() as made:
        yield made


@pytest.fixture
def double(server: GcpDouble) -> GcpDouble:
    server.tell("reset")
    return server


def posted(double: GcpDouble, path: str, body: Any) -> tuple[int, dict[str, Any]]:
    asked = urllib.request.Request(
        f"{double.url}/compute/v1/projects/{PROJECT}/{path}",
        json.dumps(body).encode(),
        {"Content-Type": "application/json"},
    )
    try:
        with urllib.request.urlopen(asked, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"scheduling": {"provisioningModel": "SOPT"}}, "provisioningModel"),
        ({"machineTypo": "x"}, "machineTypo"),
        ({"disks": "none"}, "disks"),
        ({"labels": {"Team": "a"}}, "Team"),
        ({"labels": {"team": "A b"}}, "A b"),
        ({"name": "Not-A-Name"}, "Not-A-Name"),
        ({"scheduling": {"maxRunDuration": {"seconds": "soon"}}}, "int64"),
    ],
)
def test_request_out_of_the_model_is_refused_and_noted(
    double: GcpDouble, change: dict[str, Any], words: str
) -> None:
    status, told = posted(double, f"zones/{ZONE}/instances", {**GOOD, **change})
    assert status == 400
    assert words in told["error"]["message"]
    assert any(words in problem for problem in double.problems)


@pytest.mark.parametrize(
    "change",
    [
        {"scheduling": {"provisioningModel": "SPOT"}},
        {"scheduling": {"instanceTerminationAction": "DELETE"}},
        {"scheduling": {"maxRunDuration": {"seconds": "5"}, "instanceTerminationAction": "STOP"}},
        {"guestAccelerators": [{"acceleratorType": "x/nvidia-tesla-t4", "acceleratorCount": 1}]},
    ],
)
def test_settings_that_do_not_go_together_are_refused_as_google_does(
    double: GcpDouble, change: dict[str, Any]
) -> None:
    assert posted(double, f"zones/{ZONE}/instances", {**GOOD, **change})[0] == 400
    assert double.problems == []


def test_unknown_parameter_method_and_filter_are_noted(double: GcpDouble) -> None:
    assert posted(double, f"zones/{ZONE}/instances?requestID=1", GOOD)[0] == 400
    assert posted(double, "zones/x/nonsense/at/all", {})[0] == 404
    with pytest.raises(urllib.error.HTTPError) as raised:
        urllib.request.urlopen(
            f"{double.url}/compute/v1/projects/{PROJECT}/aggregated/instances?filter=tags.x%3D1",
            timeout=60,
        )
    raised.value.close()
    assert len(double.problems) == 3


def test_repeat_with_another_body_is_noted(double: GcpDouble) -> None:
    request = str(uuid.uuid4())
    first = posted(double, f"zones/{ZONE}/instances?requestId={request}", GOOD)
    again = posted(double, f"zones/{ZONE}/instances?requestId={request}", GOOD)
    assert first[1]["name"] == again[1]["name"]
    assert double.problems == []
    posted(double, f"zones/{ZONE}/instances?requestId={request}", {**GOOD, "description": "other"})
    assert len(double.problems) == 1
    assert posted(double, f"zones/{ZONE}/instances", GOOD)[0] == 409
    assert posted(double, f"zones/{ZONE}/instances?requestId=no-uuid", GOOD)[0] == 400


def test_answer_out_of_the_model_is_noted(double: GcpDouble) -> None:
    posted(double, f"zones/{ZONE}/instances", GOOD)
    double.tell("set", id=f"{ZONE}/one", status="LEVITATING")
    urllib.request.urlopen(
        f"{double.url}/compute/v1/projects/{PROJECT}/zones/{ZONE}/instances/one", timeout=60
    ).close()
    assert any("LEVITATING" in problem for problem in double.problems)


def test_googles_other_client_is_served_too(double: GcpDouble) -> None:
    compute = build(
        "compute",
        "v1",
        http=Http(timeout=60),
        static_discovery=True,
        client_options={"api_endpoint": f"{double.url}/compute/v1/"},
    )
    told = compute.instances().insert(project=PROJECT, zone=ZONE, body=GOOD).execute()
    assert told["operationType"] == "insert"
    with pytest.raises(HttpError, match="already exists"):
        compute.instances().insert(project=PROJECT, zone=ZONE, body=GOOD).execute()
    assert f"zones/{ZONE}" in compute.instances().aggregatedList(project=PROJECT).execute()["items"]
    compute.close()
    assert double.problems == []


def test_model_is_the_one_in_the_wheel() -> None:
    assert model().revision >= "20250101"
    found = model().match("POST", f"/compute/v1/projects/p/zones/{ZONE}/instances/bulkInsert")
    assert found is not None
    assert found[0].name == "instances.bulkInsert"
