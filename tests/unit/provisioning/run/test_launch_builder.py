"""A launch holds every wish of its spec, and is the same when another kernel reads it back."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from engine_world import EngineWorld
from provisioning_samples import candidate, launch_row

from nbprov.clouds.base import LOGIN_LABEL, SSH_PORT_LABEL, Capabilities
from nbprov.clouds.local.provisioner import LocalCloud
from nbprov.model.clusters import RunState
from nbprov.model.failures import Cause, CloudError, Failure
from nbprov.model.guards import Autostop, Guards
from nbprov.model.launches import Launch
from nbprov.model.offers import Candidate, Plan
from nbprov.model.resources import Image, Request
from nbprov.model.spec import ExposedPorts, Spec
from nbprov.provisioning.ledger import Ledger
from nbprov.provisioning.run.launch_builder import image_at, make_launch, public_ports
from nbprov.provisioning.run.run_builder import place_notes
from nbprov.remote.boot.user_data import template_values
from nbprov.remote.ssh.keys import ClusterKeys

EVERYTHING = Request(
    disk_gb=512,
    ports=((8000, 8010), (9000, 9000)),
    labels=(("team", "vision"), (LOGIN_LABEL, "ec2-user"), (SSH_PORT_LABEL, "2222")),
    image=Image(machine=(("", "ami-any"), ("east", "ami-east"))),
    disk_tier="high",
    network_tier="best",
    accelerator_args=(("runtime_version", "tpu-vm-base"), ("tpu_name", "a")),
)
SPEC = Spec(
    expose=ExposedPorts(public=((8005, 8020),)),
    guards=Guards(autostop=Autostop(60.0, down=False), max_lifetime=3600.5, is_default=False),
)
CAN = Capabilities(login="ubuntu", own_timer=True, stop=True)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> ClusterKeys:
    return ClusterKeys.create(tmp_path_factory.mktemp("keys") / "k")


def _made(
    keys: ClusterKeys, request: Request = EVERYTHING, can: Capabilities = CAN, spec: Spec = SPEC
) -> Launch:
    wanted: Candidate = replace(candidate(count=2), request=request)
    return make_launch(
        "t" * 32, "owner", "run-1", "dev", spec, wanted, can, keys, answer_by=1_800_000_030.125
    )


def test_every_wish_is_in_the_launch(keys: ClusterKeys) -> None:
    made = _made(keys)
    assert (made.image, made.disk_gb, made.disk_tier, made.network_best) == (
        "ami-east",
        512,
        "high",
        True,
    )
    assert made.accelerator_args == EVERYTHING.accelerator_args
    assert made.ports == ((8005, 8010),)
    assert (made.terminate_after, made.on_shutdown.value) == (3600.5, "stop")
    assert made.tags["team"] == "vision"
    assert made.tags[SSH_PORT_LABEL] == "2222"


def test_a_plain_request_asks_for_nothing_special(keys: ClusterKeys) -> None:
    made = _made(keys, Request(ports=((8000, 8000),)), Capabilities(), Spec())
    assert (made.image, made.disk_tier, made.network_best, made.accelerator_args) == (
        "",
        "",
        False,
        (),
    )
    assert made.ports == (), "closed by default"
    assert made.terminate_after is None


def test_a_label_is_never_taken_for_one_of_ours(keys: ClusterKeys) -> None:
    made = _made(keys, Request(labels=(("nbprov-owner", "somebody-else"), ("nbprov-token", "x"))))
    assert (made.tags["nbprov-owner"], made.tags["nbprov-token"]) == ("owner", "t" * 32)


@pytest.mark.parametrize(
    ("image", "region", "found"),
    [
        (None, "east", ""),
        (Image(docker="ubuntu:22.04"), "east", ""),
        (Image(machine=(("", "one"),)), "anywhere", "one"),
        (Image(machine=(("East", "one"),)), "east", "one"),
        (Image(machine=(("west", "one"),)), "east", ""),
        (Image(docker="x", machine=(("", "any"), ("east", "own"))), "east", "own"),
    ],
)
def test_the_image_is_the_regions_own(image: Image | None, region: str, found: str) -> None:
    assert image_at(image, region) == found


@pytest.mark.parametrize(
    ("expose", "ports", "opened"),
    [
        (ExposedPorts(), ((80, 90),), ()),
        (ExposedPorts(everything=True), ((80, 90), (443, 443)), ((80, 90), (443, 443))),
        (ExposedPorts(public=((85, 100),)), ((80, 90), (95, 96), (443, 443)), ((85, 90), (95, 96))),
        (ExposedPorts(public=((1, 2),)), (), ()),
    ],
)
def test_only_ports_that_are_asked_for_and_exposed_are_opened(
    expose: ExposedPorts, ports: Any, opened: Any
) -> None:
    assert public_ports(ports, expose) == opened


@pytest.mark.parametrize(
    ("login", "labels", "who"),
    [
        ("", (), ""),
        ("ubuntu", (), "ubuntu"),
        ("ubuntu", ((LOGIN_LABEL, "ec2-user"),), "ec2-user"),
        ("", ((LOGIN_LABEL, "me"),), "me"),
    ],
)
def test_the_start_script_makes_the_login(
    keys: ClusterKeys, login: str, labels: Any, who: str
) -> None:
    from nbprov.remote.boot.user_data import boot_template

    can = Capabilities(login=login, poweroff_ends_bill=True)
    made = _made(keys, Request(labels=labels), can)
    assert made.user_data_template == boot_template("sudo -n poweroff", login=who)


def test_where_poweroff_ends_no_bill_the_boot_guard_powers_nothing_off(keys: ClusterKeys) -> None:
    ends = Capabilities(poweroff_ends_bill=True, poweroff="turn-off")
    stays = replace(ends, poweroff_ends_bill=False)
    assert _made(keys, Request(), ends).user_data_template.count("turn-off") == 2, (
        "by the boot guard, and by an agent without guards"
    )
    assert "turn-off" not in _made(keys, Request(), stays).user_data_template


class _Forgetful(LocalCloud):
    """Records what goes over the wire, and loses the answers to creates if the test wants that.

    The creates themselves are carried out.
    """

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.sent: list[bytes] = []
        self.loses = True

    def _call(
        self, name: str, arguments: Mapping[str, Any], timeout: float, *, creates: bool = False
    ) -> Any:
        answer = super()._call(name, arguments, timeout, creates=creates)
        if name == "submit":
            self.sent.append(json.dumps(arguments).encode())
            if self.loses:
                raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, "the answer was lost"))
        return answer


@pytest.mark.machine
def test_a_killed_kernels_lost_create_is_repeated_to_the_byte_by_the_next(
    world: EngineWorld,
) -> None:
    engine = world.engine(_Forgetful, submit_seconds=60.0, login="ubuntu")
    cloud = engine.cloud("local").adapter
    assert isinstance(cloud, _Forgetful)
    driver = world.launch(engine, world.prepare(engine, text="wait: 1h\nmax_lifetime: 5h\n"))
    world.until(lambda: len(cloud.sent) >= 2, "it was lost, and lost again")
    world.abandon(engine)
    before = len(cloud.sent)
    cloud.loses = False
    second = world.engine(lambda _: cloud)
    cloud.capabilities = engine.cloud("local").capabilities
    world.take_up(second)
    resumed = second.drivers[driver.run_id]
    world.until(lambda: resumed.state.is_final or resumed.ready.done(), "it is taken up")
    assert len(cloud.sent) > before
    assert len(set(cloud.sent)) == 1
    assert [len(world.alive()), len(resumed.view().attempts)] == [1, 1]


class _Wire(LocalCloud):
    """Keeps what would go over the wire."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[bytes] = []

    def _call(
        self, name: str, arguments: Mapping[str, Any], timeout: float, *, creates: bool = False
    ) -> Any:
        self.sent.append(json.dumps([name, arguments]).encode())
        raise CloudError(Failure(Cause.UNKNOWN_OUTCOME, "the answer was lost"))


def test_a_launch_read_back_after_a_crash_makes_the_same_request_to_the_byte(
    ledger: Ledger, keys: ClusterKeys, tmp_path: Path
) -> None:
    made = replace(_made(keys), nodes=(1,), part=2)
    plain = Launch("", "", "", "", candidate(), 1, 0)
    unset = [
        f.name
        for f in fields(Launch)
        if f.name != "template_values" and getattr(made, f.name) == getattr(plain, f.name)
    ]
    assert unset == [], "every field has a value of its own"
    ledger.runs.open(
        "run-1", "dev", "name: dev", folder="", race=1, consent=5, state=RunState.LAUNCHING
    )
    ledger.launches.intend(replace(launch_row(made.token, made.candidate), launch=made))
    copied = shutil.copytree(keys.client_private_file.parent, tmp_path / "k")
    cloud = _Wire()
    for launch, of in (
        (made, keys),
        (ledger.launches.of_run("run-1")[0].launch, ClusterKeys.load(copied)),
    ):
        # This cloud refuses a launch from an image before it sends anything.
        plain_image = replace(launch, image="", template_values=template_values(of))
        with pytest.raises(CloudError):
            cloud.submit(plain_image)
    first, second = cloud.sent
    assert first == second
    assert ledger.launches.of_run("run-1")[0].launch == made
    assert keys.host_private.strip().splitlines()[1].encode() in first, (
        "the real script, keys and all"
    )
    assert (
        keys.host_private.strip().splitlines()[1]
        not in ledger.store.rows("SELECT launch FROM launches")[0]["launch"]
    )


@pytest.mark.parametrize(
    ("ports", "said"),
    [
        (((8000, 8000),), ["open to the whole internet: port 8000"]),
        (((443, 443), (8000, 8010)), ["open to the whole internet: ports 443, 8000-8010"]),
        ((), []),
    ],
)
def test_what_will_be_open_to_the_internet_is_said_before_launch(
    ports: Any, said: list[str]
) -> None:
    chosen = candidate()
    chosen = replace(chosen, request=replace(chosen.request, ports=ports))
    spec = Spec(expose=ExposedPorts(everything=True))
    assert (
        list(
            place_notes(
                spec, Plan(spec, [chosen]), lambda name: Capabilities(poweroff_ends_bill=True)
            )
        )
        == said
    )
    assert (
        list(
            place_notes(
                spec,
                Plan(spec, [chosen]),
                lambda name: Capabilities(poweroff_ends_bill=True, simulated=True),
            )
        )
        == []
    )


@pytest.mark.parametrize(("down", "mode"), [(False, "stop"), (True, "terminate")])
def test_a_machine_that_stays_alone_ends_as_its_guards_say(
    keys: ClusterKeys, down: bool, mode: str
) -> None:
    spec = replace(SPEC, guards=Guards(autostop=Autostop(60.0, down=down), is_default=False))
    can = replace(CAN, poweroff="turn-off {mode} {reason}", poweroff_ends_bill=True)
    template = _made(keys, Request(), can, spec).user_data_template
    assert f"turn-off {mode} " in template
    assert f'"mode": "{mode}"' in template
