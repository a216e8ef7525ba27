"""Writing a spec as YAML and reading it again gives the same spec."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.model.guards import Autostop, Guards
from nbprov.model.money import Micros
from nbprov.model.places import Market
from nbprov.model.remarks import Origin
from nbprov.model.resources import (
    Accelerator,
    Compare,
    Image,
    LocalDisk,
    PlaceGlob,
    PlaceRule,
    Quantity,
    Request,
)
from nbprov.model.run_policies import ConfirmAbove, OrderPolicy, Race, WaitPolicy
from nbprov.model.sources import Mount, Repository
from nbprov.model.spec import ComputeEngine, HealthCheck, Hook, Spec
from nbprov.spec import parse, to_yaml


def essence(spec: Spec) -> Spec:
    """The spec without what YAML need not keep: places, remarks, the text and values of secrets."""
    return replace(
        spec,
        requests=tuple(replace(r, origin=Origin("")) for r in spec.requests),
        file_mounts=tuple(replace(m, origin=Origin("")) for m in spec.file_mounts),
        outputs=tuple(replace(m, origin=Origin("")) for m in spec.outputs),
        secrets=dict.fromkeys(spec.secrets),
        remarks=(),
        source="",
    )


def assert_same(spec: Spec) -> None:
    text = to_yaml(spec)
    again = parse(text)
    assert essence(again) == essence(spec), text
    assert to_yaml(again) == text


_words = st.from_regex(r"[A-Za-z][A-Za-z0-9]{0,5}(-[a-z0-9]{1,4}){0,2}", fullmatch=True)
_texts = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="\0\ufffe\uffff"),
    max_size=40,
)
_lines = st.lists(st.text("ab $#:{}'\"\\\t-|>é ", max_size=12), max_size=4).map("\n".join)
_positive = st.one_of(st.integers(1, 4096).map(float), st.floats(0.01, 5000, allow_nan=False))
_micros: st.SearchStrategy[Micros] = st.integers(1, 10**9)
_seconds = st.integers(1, 10**6).map(float)
_variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)

_named = st.builds(Accelerator, _words, _positive)
_by_memory = st.builds(
    Accelerator,
    st.just(""),
    _positive,
    st.integers(1, 200).map(float),
    st.booleans(),
    st.sampled_from(["", "nvidia", "amd"]),
)
_quantities = st.builds(Quantity, st.sampled_from([Compare.EXACTLY, Compare.AT_LEAST]), _positive)
_memories = st.builds(Quantity, st.sampled_from(Compare), _positive)


def _ports(numbers: set[int]) -> tuple[tuple[int, int], ...]:
    return tuple((n * 10, n * 10 + n % 3) for n in sorted(numbers))


_names = st.sampled_from(["", "us-east-1", "NO", "eu"])
_patterns = st.sampled_from(["", "us-*", "eu-west-?", "*-1", "CZ", "eu"])
_globs = st.builds(
    PlaceGlob,
    st.sampled_from(["", "aws", "g*"]),
    _patterns,
    st.sampled_from(["", "us-east-1?", "z1"]),
)
_rules = st.lists(
    st.builds(
        PlaceRule,
        st.lists(_globs, max_size=2, unique=True).map(tuple),
        st.lists(_globs, max_size=2, unique=True).map(tuple),
    ),
    max_size=2,
    unique=True,
).map(tuple)
_images = st.from_regex(r"[a-z][a-z0-9./-]{0,8}(:[a-z0-9.]{1,5})?", fullmatch=True)
_tpu_args = st.sampled_from(
    [(), (("gcp_queued_resource", "true"),), (("runtime_version", "v2-alpha"), ("tpu_vm", "false"))]
)


@st.composite
def _image(draw: st.DrawFn, cloud: str, region: str) -> Image | None:
    """An image that its place can start.

    It is a machine image only if the cloud is named, and by region only if no region is.
    """
    kind = draw(st.sampled_from(["none", "docker", "one", "regions", "both"]))
    docker = draw(_images) if kind in ("docker", "both") else ""
    if kind == "none" or (cloud not in ("aws", "gcp") and not docker):
        return None
    machine: dict[str, str] = {}
    if cloud in ("aws", "gcp") and kind in ("regions", "both") and not region:
        machine = draw(
            st.dictionaries(st.sampled_from(["us-east-1", "eu-west-1"]), _images, min_size=1)
        )
    elif cloud == "gcp" and kind == "one":
        machine = {"": draw(_images)}
    elif cloud == "aws" and kind == "one":
        machine = {"": draw(_images) if region else "skypilot:gpu-ubuntu-2204"}
    return Image(docker, tuple(sorted(machine.items()))) if docker or machine else None


def _regions_of(image: Image | None, region: str) -> tuple[PlaceRule, ...]:
    """The rule that an image by region can be had in these regions only."""
    regions = [where for where, _ in image.machine if where] if image and not region else []
    return (PlaceRule(tuple(PlaceGlob(region=where) for where in regions)),) if regions else ()


@st.composite
def _requests(draw: st.DrawFn) -> Request:
    cloud = draw(st.sampled_from(["", "aws", "gcp", "local", "runpod", "kubernetes"]))
    region = draw(st.one_of(_names, _words))
    is_tpu = draw(st.integers(0, 9)) == 0 and cloud in ("gcp", "kubernetes")
    image = draw(_image(cloud, region))
    fast = image is None or not image.machine or cloud == "gcp"
    return Request(
        cloud=cloud,
        region=region,
        zone=draw(st.one_of(st.just(""), _words)),
        instance_type=""
        if is_tpu
        else draw(
            st.sampled_from(
                ["", "p4d.24xlarge", "VM.Standard.E4.Flex$_2_16", "1x_L4_SECURE", "a$b"]
            )
        ),
        accelerator=Accelerator("tpu-v5litepod-8")
        if is_tpu
        else draw(st.one_of(st.none(), _named, _by_memory)),
        accelerator_args=draw(_tpu_args) if is_tpu else (),
        cpus=draw(st.one_of(st.none(), _quantities)),
        memory=draw(st.one_of(st.none(), _memories)),
        market=draw(st.sampled_from(Market)),
        disk_gb=draw(st.sampled_from([256, 1, 100, 2048])),
        disk_tier=draw(st.sampled_from(["", "low", "medium", "best"])),
        network_tier=draw(st.sampled_from(["", "best"])) if fast else "",
        local_disk=draw(st.sampled_from([None, LocalDisk(), LocalDisk("ssd", 500, False)]))
        if cloud in ("", "aws")
        else None,
        image=image,
        places=tuple(dict.fromkeys((*draw(_rules), *_regions_of(image, region)))),
        ports=draw(st.sets(st.integers(1, 6000), max_size=3).map(_ports)),
        labels=draw(
            st.dictionaries(_texts.filter(str.strip), _texts, max_size=2).map(
                lambda d: tuple(sorted(d.items()))
            )
        ),
        max_hourly=draw(st.one_of(st.none(), _micros)),
    )


@st.composite
def _alternatives(draw: st.DrawFn) -> tuple[Request, ...]:
    """Requests as a reader returns them: all different, and tiers without gaps."""
    found: dict[object, Request] = {}
    for request in draw(st.lists(_requests(), min_size=1, max_size=5)):
        kind = request.accelerator
        key = replace(request, region=request.region.casefold(), zone=request.zone.casefold())
        found.setdefault(
            replace(key, accelerator=kind and replace(kind, name=kind.name.casefold())), request
        )
    wished = [draw(st.integers(0, 3)) for _ in found]
    ranks = {tier: rank for rank, tier in enumerate(sorted(set(wished)))}
    return tuple(
        replace(r, index=n, tier=ranks[tier])
        for n, (r, tier) in enumerate(zip(found.values(), wished, strict=True))
    )


_autostops = st.builds(
    Autostop,
    _seconds.map(lambda s: s + 59),
    st.just(False),
    st.sampled_from(["jobs_and_ssh", "jobs", "none"]),
    _lines,
    _seconds,
    st.one_of(st.none(), _seconds),
)
_shares = st.sets(st.integers(1, 100), max_size=3).map(lambda s: tuple(n / 100 for n in sorted(s)))


@st.composite
def _guards(draw: st.DrawFn) -> Guards:
    if draw(st.booleans()):
        return Guards()
    budget = draw(st.one_of(st.none(), _micros))
    autostop = draw(
        st.one_of(st.none(), _autostops, _autostops.map(lambda a: replace(a, down=True)))
    )
    lifetime = draw(st.one_of(st.none(), _seconds))
    if budget is None:
        return Guards(autostop, lifetime, is_default=False)
    return Guards(
        autostop, lifetime, budget, False, draw(_shares), draw(st.sampled_from(["down", "stop"]))
    )


_commands = st.from_regex(r"[a-z][a-z $./-]{0,20}[a-z]", fullmatch=True)
_healths = st.one_of(
    st.just(HealthCheck()),
    st.just(HealthCheck(on=False)),
    st.builds(
        HealthCheck,
        st.just(True),
        st.one_of(st.just(""), _commands),
        st.sampled_from(["", ":8000/ok"]),
        _seconds,
        _seconds,
        st.integers(1, 1000),
        st.sampled_from(["report", "replace", "down"]),
    ),
)
_waits = st.one_of(
    st.just(WaitPolicy()),
    st.builds(WaitPolicy, st.one_of(st.just(0.0), _seconds), st.booleans()),
)
_engines = st.sampled_from(
    [None, ComputeEngine("ray"), ComputeEngine("dask", (("threads", "4"), ("workers", "gpu")))]
)
_confirms = st.builds(
    ConfirmAbove,
    st.one_of(st.none(), st.integers(1, 9999).map(lambda n: n / 10 / 100)),
    st.one_of(st.none(), _micros),
    st.none() | _micros,
)
_hooks = st.builds(
    Hook,
    _commands,
    st.sampled_from([("stop", "down"), ("preemption",), ("down", "stop")]),
    _seconds,
)
_sources = st.one_of(_words, st.sampled_from(["./a b", "~/x", "../$VAR/y", "C:\\data"]))
_uris = st.sampled_from(["s3://b/x", "gs://b-ucket/$x/", "https://h/x?y=1#sha256=" + "0" * 64])
_repositories = st.builds(
    Repository,
    st.sampled_from(["https://h/o/r.git", "git@h:o/$r"]),
    st.sampled_from(["", "main", "0123", "$REF"]),
)
_specs = st.builds(
    Spec,
    requests=_alternatives(),
    name=st.one_of(
        st.just(""), _words, st.sampled_from(["no", "2024", "1e3", "0x10", "null", "true"])
    ),
    num_nodes=st.integers(1, 99),
    setup=st.one_of(_texts, _lines),
    run=st.one_of(_texts, _lines),
    envs=st.dictionaries(_variables, st.one_of(st.none(), _texts, _lines), max_size=3),
    secrets=st.dictionaries(_variables.map(lambda v: f"S_{v}"), st.none(), max_size=2),
    workdir=st.one_of(st.just(""), _sources, _repositories),
    file_mounts=st.dictionaries(
        st.from_regex(r"/[a-z]{1,5}", fullmatch=True), _sources | _uris, max_size=2
    ).map(lambda d: tuple(Mount(target, source) for target, source in d.items())),
    guards=_guards(),
    prefer=st.sampled_from(OrderPolicy),
    race=st.builds(Race, st.integers(1, 2), st.one_of(st.none(), _seconds)),
    wait=_waits,
    confirm_above=_confirms,
    engine=_engines,
    health=_healths,
    outputs=st.dictionaries(
        st.sampled_from(["results", "~/out/$x", "*.ckpt"]),
        st.sampled_from([".", "./here"]),
        max_size=2,
    ).map(lambda d: tuple(Mount(target, source) for source, target in d.items())),
    inputs=st.dictionaries(st.sampled_from(["s3://b/x", "gs://$b"]), _positive, max_size=2).map(
        lambda d: tuple(d.items())
    ),
    hooks=st.lists(_hooks, max_size=2).map(tuple),
    docker_options=st.lists(
        st.sampled_from(["--ipc=host", "--shm-size=8g", "--env=A=$B"]), max_size=2
    ).map(tuple),
    recovery=st.sampled_from(["", "failover", "eager_next_region"]),
)


def test_a_zone_with_a_region_beside_one_without() -> None:
    """A region that an alternative names takes the place of a zone that stands outside."""
    alternatives = "[{cloud: kubernetes, zone: a-1}, {cloud: kubernetes, region: a, zone: a-1}]"
    assert_same(parse(f"resources: {{any_of: {alternatives}}}"))


@given(_specs.filter(lambda spec: not spec.envs.keys() & spec.secrets.keys()))
@settings(max_examples=100, deadline=None)
def test_any_spec(spec: Spec) -> None:
    assert_same(spec)


@pytest.mark.parametrize(
    "text",
    [
        "resources: {accelerators: [L4:1, T4:1], any_of: [{infra: gcp}, {infra: aws}]}",
        "resources: "
        "{use_spot: prefer, ordered: [{accelerators: {H100, A100}}, {accelerators: [L4, T4]}]}",
        "resources: {infra: k8s/a/b/c}",
        "resources: {autostop: false}",
        "resources: {autostop: false}\nbudget: 3",
        "resources: {}",
        "resources: {region: eu}",
        "resources: {cloud: k8s, zone: z}",
        "resources: {cloud: aws, region: {allow: [us-*], deny: [us-west-1], prefer: [us-east-2]}}",
        "resources: {infra: {prefer: [gcp, 'aws/eu-*'], deny: [azure, '*/us-*']}}",
        "resources: "
        "{region: {allow: [eu], prefer: [eu-west-1]}, cloud: [aws, gcp], use_spot: prefer}",
        "resources: {region: [us-*, CZ, eu-*], zone: {deny: [us-east-1e]}}",
        "resources: {places: [{allow: ['*/us-*'], deny: [aws]}, {}]}",
        "resources: "
        "{accelerators: tpu-v5litepod-8, accelerator_args: {tpu_vm: false, tpu_name: a}}",
        "resources: {ports: [22, 8080-8090]}\nexpose: {8080-8090: public}",
        "resources: {ports: 22}\nexpose: public",
        "config: "
        "{docker: {run_options: ['--ipc=host']}, hooks: [{run: ./x, events: [preemption]}]}\nrun: "
        "x",
        "outputs: [results, '*.ckpt']\nrun: x",
        "run: |\n  #!/bin/bash\n  echo 'x'\n\n  echo y\nsetup: '  x'",
    ],
)
def test_written_forms(text: str) -> None:
    assert_same(parse(text))


def test_the_address_of_a_webhook_is_not_written() -> None:
    spec = Spec(wait=WaitPolicy(60.0, True, "https://example.org/secret-hook"))
    assert "secret-hook" not in to_yaml(spec)
    assert parse(to_yaml(spec)).wait == WaitPolicy(60.0, True)


def test_a_simple_rule_is_written_with_its_names() -> None:
    text = "resources: {cloud: aws, region: {allow: [us-*], deny: [us-west-1]}}"
    assert (
        to_yaml(parse(text))
        == 'resources:\n  infra:\n    allow:\n    - "aws/us-*"\n    deny:\n    - "*/us-west-1"\n'
    )


def test_other_readers_see_the_same_text() -> None:
    spec = Spec(name="1e3", run="no", envs={"A": "010", "B": "NO", "C": "1_000", "D": "12:30:45"})
    read = yaml.safe_load(to_yaml(spec))
    assert (read["name"], read["run"], read["envs"]) == (spec.name, spec.run, dict(spec.envs))


def test_it_reads_well() -> None:
    text = (
        "resources: {gpus: A100:8, infra: aws, use_spot: true, cpus: 8+}\nrun: |\n  python "
        "a.py\n  python b.py\nbudget: 20"
    )
    assert to_yaml(parse(text)) == (
        'resources:\n  infra: aws\n  accelerators: A100:8\n  cpus: "8+"\n  use_spot: true\n'
        'run: "python a.py\\npython b.py\\n"\nbudget: 20\n'
    ).replace('"python a.py\\npython b.py\\n"', "|\n  python a.py\n  python b.py")
