"""The doubles of the clouds with real machines, for kernels and the chaos harness."""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

from nbprov.catalog import Query, default_catalog

if TYPE_CHECKING:
    from kernels import Kernel

ALWAYS = 1_000_000
"""More calls than any test makes."""
BOOKS_SECONDS = 90.0
"""How long a double may take to reach an expected state; ends are confirmed within a few
seconds."""
TOKEN_TAG = "nbprov-token"

QUICK = """
from dataclasses import replace as _replace
from nbprov.clouds import registry as _registry
for _name in {clouds!r}:
    _cloud = _registry.get(_name)
    _cloud.capabilities = _replace(_cloud.capabilities, poll_every={pause})
"""
POLL_EVERY = 0.1
"""Seconds between two polls of a double. The clouds' own intervals of 2 to 10 s would take most of
a test's time."""


class AtHand(ABC):
    """The running double of one cloud, with real machines in its own folder."""

    env: Mapping[str, str]

    @abstractmethod
    def alive(self) -> set[str]:
        """Return the ids of the machines that may be billed, which are neither gone nor ending."""

    @abstractmethod
    def left(self) -> list[str]:
        """Return the objects beside machines that exist for one launch only."""

    @abstractmethod
    def problems(self) -> list[str]:
        """Return what has violated the official model so far, on either side."""

    @abstractmethod
    def fault(self, what: str, times: int = 1) -> None:
        """Make the next creates fail."""

    @abstractmethod
    def creates(self) -> int:
        """Return how many creates were requested."""

    @abstractmethod
    def close(self) -> None:
        """Stop it with all its machines."""

    def is_empty(self, seconds: float = BOOKS_SECONDS) -> bool:
        """Return whether, within a while, no machine is alive and no side object is left."""
        return soon(lambda: not self.alive() and not self.left(), seconds)


class Aws(AtHand):
    """The double of EC2."""

    def __init__(self, folder: Path) -> None:
        from aws_double import AwsDouble

        self.double = AwsDouble(machines=folder).start()
        self.env = self.double.env
        self._made: list[Any] = []

    def alive(self) -> set[str]:
        return {
            name
            for name, told in self.double.told("instances").items()
            if told["state"] not in ("terminated", "shutting-down")
        }

    def left(self) -> list[str]:
        found: list[str] = []
        for ec2 in self._clients():
            by_launch = [{"Name": "tag-key", "Values": [TOKEN_TAG]}]
            found += [
                group["GroupId"]
                for group in ec2.describe_security_groups(Filters=by_launch)["SecurityGroups"]
            ]
            found += [disk["VolumeId"] for disk in ec2.describe_volumes()["Volumes"]]
            wanting = ec2.describe_spot_instance_requests(
                Filters=[{"Name": "state", "Values": ["open"]}]
            )
            found += [one["SpotInstanceRequestId"] for one in wanting["SpotInstanceRequests"]]
        return found

    def _clients(self) -> list[Any]:
        if not self._made:
            import boto3
            from aws_double import KEY_ID, REGIONS, SECRET

            keys = {"aws_access_key_id": KEY_ID, "aws_secret_access_key": SECRET}
            self._made = [
                boto3.client("ec2", region, endpoint_url=self.double.url, **keys)
                for region in REGIONS
            ]
        return self._made

    def problems(self) -> list[str]:
        return list(self.double.told("problems"))

    def fault(self, what: str, times: int = 1) -> None:
        self.double.add_fault("RunInstances", what, times=times)

    def creates(self) -> int:
        return len(
            [
                call
                for call in self.double.asked("RunInstances")
                if call["parameters"].get("DryRun") != "true"
            ]
        )

    def close(self) -> None:
        for ec2 in self._made:
            ec2.close()
        self.double.close(check=False)


class Gcp(AtHand):
    """The double of Compute Engine."""

    CREATES = ("instances.insert", "instances.bulkInsert", "regionInstances.bulkInsert")

    def __init__(self, folder: Path) -> None:
        from gcp_double import GcpDouble

        self.double = GcpDouble(machines=folder).start()
        self.env = self.double.env

    def alive(self) -> set[str]:
        return {
            f"{row['zone'].rpartition('/')[2]}/{row['name']}"
            for row in self.double.tell("state")["machines"]
        }

    def left(self) -> list[str]:
        books = self.double.tell("state")
        # A launch's firewall rules are named after it. The one that lets this computer in serves
        # all launches.
        return [disk["name"] for disk in books["disks"]] + [
            name for name in books["firewalls"] if name.endswith("-ports")
        ]

    def problems(self) -> list[str]:
        return self.double.problems

    def fault(self, what: str, times: int = 1) -> None:
        self.double.add_fault(call="create", do=what, times=times)

    def creates(self) -> int:
        return len([call for call in self.double.calls() if call["call"] in self.CREATES])

    def close(self) -> None:
        self.double.close()


class RunPod(AtHand):
    """The double of RunPod."""

    def __init__(self, folder: Path) -> None:
        from runpod_double import Double

        self.double = Double(machines=folder)
        self.env = self.double.env

    def alive(self) -> set[str]:
        # The list of the whole account, because the control route also shows ended pods.
        asked = Request(
            f"{self.double.url}/v2/pods",
            headers={"Authorization": f"Bearer {self.env['RUNPOD_API_KEY']}"},
        )
        with urlopen(asked, timeout=BOOKS_SECONDS) as answer:
            return {pod["id"] for pod in json.load(answer)["pods"]}

    def left(self) -> list[str]:
        return list(self.double.control("secrets"))

    def problems(self) -> list[str]:
        return self.double.problems()

    def fault(self, what: str, times: int = 1) -> None:
        self.double.add_fault(what, times=times)

    def creates(self) -> int:
        return len(self.double.calls("createPod"))

    def close(self) -> None:
        self.double.close()


class Lambda(AtHand):
    """The double of Lambda, with A10s everywhere and without a rate limit of its own."""

    def __init__(self, folder: Path) -> None:
        from lambda_double import LambdaDouble

        self.double = LambdaDouble(machines=folder).start()
        self.env = self.double.env
        for offer in default_catalog().offers(
            Query(cloud=("lambda",), accelerator=("A10",), count=1)
        ):
            self.double.tell(
                "stock", instance_type=offer.instance_type, region=offer.region, left=99
            )

    def alive(self) -> set[str]:
        asked = Request(
            f"{self.env['LAMBDA_API_BASE_URL']}/instances",
            headers={"Authorization": f"Bearer {self.env['LAMBDA_API_KEY']}"},
        )
        with urlopen(asked, timeout=BOOKS_SECONDS) as answer:
            return {
                one["id"]
                for one in json.load(answer)["data"]
                if one["status"] not in ("terminating", "terminated", "preempted")
            }

    def left(self) -> list[str]:
        return []  # it only has a key beside machines, and that one serves all launches

    def problems(self) -> list[str]:
        return list(self.double.told("problems"))

    def fault(self, what: str, times: int = 1) -> None:
        self.double.add_fault("launch", what, times=times)

    def creates(self) -> int:
        return len(self.double.asked("launch"))

    def close(self) -> None:
        self.double.close(check=False)


CLOUDS: Mapping[str, Callable[[Path], AtHand]] = {
    "aws": Aws,
    "gcp": Gcp,
    "runpod": RunPod,
    "lambda": Lambda,
}


def started(name: str, folder: Path) -> AtHand:
    """Start the double of a cloud."""
    folder.mkdir(parents=True, exist_ok=True)
    return CLOUDS[name](folder)


def soon(look: Callable[[], bool], seconds: float = BOOKS_SECONDS) -> bool:
    """Return whether a condition becomes true within a while."""
    end = time.monotonic() + seconds
    while not look():
        if time.monotonic() > end:
            return False
        time.sleep(0.05)
    return True


@contextmanager
def kernel_with(home: Path, clouds: Sequence[str]) -> Iterator[tuple[Kernel, dict[str, Any]]]:
    """Yield a kernel with these clouds set up, and the clouds by name; all are stopped
    afterwards."""
    from kernels import new_kernel

    with ExitStack() as stack:
        at_hand = {
            name: stack.enter_context(closing(started(name, home.parent / f"{home.name}.{name}")))
            for name in clouds
        }
        env: dict[str, str] = {}
        for one in at_hand.values():
            env |= one.env
        kernel = stack.enter_context(new_kernel(home, **env))
        kernel.run(QUICK.format(clouds=tuple(clouds), pause=POLL_EVERY))
        yield kernel, at_hand
