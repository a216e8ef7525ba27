"""Writing a spec as YAML and reading it gives the same spec."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from nbprov.model.money import Micros
from nbprov.model.places import Market
from nbprov.model.spec import Accelerator, Autostop, Compare, Guards, Mount, Origin, Quantity, Request, Spec
from nbprov.spec import parse, to_yaml


def essence(spec: Spec) -> Spec:
    """The spec without what YAML need not keep: where things stood, what was said, the text, the values of secrets."""
    return replace(
        spec,
        requests=tuple(replace(r, origin=Origin("")) for r in spec.requests),
        file_mounts=tuple(replace(m, origin=Origin("")) for m in spec.file_mounts),
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
_texts = st.text(st.characters(codec="utf-8", exclude_categories=("Cs",), exclude_characters="\ufffe\uffff"), max_size=40)
_lines = st.lists(st.text("ab $#:{}'\"\\\t-|>é ", max_size=12), max_size=4).map("\n".join)
_positive = st.one_of(st.integers(1, 4096).map(float), st.floats(0.01, 5000, allow_nan=False))
_micros: st.SearchStrategy[Micros] = st.integers(1, 10**9)
_seconds = st.integers(1, 10**6).map(float)
_variables = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,8}", fullmatch=True)

_named = st.builds(Accelerator, _words, _positive)
_by_memory = st.builds(
    Accelerator, st.just(""), _positive, st.integers(1, 200).map(float), st.booleans(), st.sampled_from(["", "nvidia", "amd"])
)
_quantities = st.builds(Quantity, st.sampled_from([Compare.EXACTLY, Compare.AT_LEAST]), _positive)
_memories = st.builds(Quantity, st.sampled_from(Compare), _positive)


def _ports(numbers: set[int]) -> tuple[tuple[int, int], ...]:
    return tuple((n * 10, n * 10 + n % 3) for n in sorted(numbers))


_requests = st.builds(
    Request,
    cloud=st.sampled_from(["", "aws", "gcp", "local", "runpod"]),
    region=st.one_of(st.just(""), st.sampled_from(["NO", "us-east-1"]), _words),
    zone=st.one_of(st.just(""), _words),
    instance_type=st.one_of(st.just(""), st.sampled_from(["p4d.24xlarge", "VM.Standard.E4.Flex$_2_16", "1x_L4_SECURE"])),
    accelerator=st.one_of(st.none(), _named, _by_memory),
    cpus=st.one_of(st.none(), _quantities),
    memory=st.one_of(st.none(), _memories),
    market=st.sampled_from(Market),
    disk_gb=st.sampled_from([256, 1, 100, 2048]),
    ports=st.sets(st.integers(1, 6000), max_size=3).map(_ports),
    labels=st.dictionaries(_texts.filter(str.strip), _texts, max_size=2).map(lambda d: tuple(sorted(d.items()))),
    max_hourly=st.one_of(st.none(), _micros),
)


@st.composite
def _alternatives(draw: st.DrawFn) -> tuple[Request, ...]:
    """Requests as a reader returns them: none equal to another, tiers without gaps."""
    found: dict[object, Request] = {}
    for request in draw(st.lists(_requests, min_size=1, max_size=5)):
        kind = request.accelerator
        key = replace(request, region=request.region.casefold(), zone=request.zone.casefold())
        found.setdefault(replace(key, accelerator=kind and replace(kind, name=kind.name.casefold())), request)
    wished = [draw(st.integers(0, 3)) for _ in found]
    ranks = {tier: rank for rank, tier in enumerate(sorted(set(wished)))}
    return tuple(replace(r, index=n, tier=ranks[tier]) for n, (r, tier) in enumerate(zip(found.values(), wished, strict=True)))


_autostops = st.builds(Autostop, _seconds, st.booleans(), st.sampled_from(["jobs_and_ssh", "jobs", "none"]), _lines, _seconds)
_guards = st.one_of(
    st.just(Guards()),
    st.builds(Guards, st.one_of(st.none(), _autostops), st.one_of(st.none(), _seconds), st.one_of(st.none(), _micros), st.just(False)),
)
_sources = st.one_of(_words, st.sampled_from(["./a b", "~/x", "../$VAR/y", "C:\\data"]))
_specs = st.builds(
    Spec,
    requests=_alternatives(),
    name=st.one_of(st.just(""), _words, st.sampled_from(["no", "2024", "1e3", "0x10", "null", "true"])),
    num_nodes=st.integers(1, 99),
    setup=st.one_of(_texts, _lines),
    run=st.one_of(_texts, _lines),
    envs=st.dictionaries(_variables, st.one_of(st.none(), _texts, _lines), max_size=3),
    secrets=st.dictionaries(_variables.map(lambda v: f"S_{v}"), st.none(), max_size=2),
    workdir=st.one_of(st.just(""), _sources),
    file_mounts=st.dictionaries(st.from_regex(r"/[a-z]{1,5}", fullmatch=True), _sources, max_size=2).map(
        lambda d: tuple(Mount(target, source) for target, source in d.items())
    ),
    guards=_guards,
)


@given(_specs.filter(lambda spec: not spec.envs.keys() & spec.secrets.keys()))
@settings(max_examples=300, deadline=None)
def test_any_spec(spec: Spec) -> None:
    assert_same(spec)


@pytest.mark.parametrize(
    "text",
    [
        "resources: {accelerators: [L4:1, T4:1], any_of: [{infra: gcp}, {infra: aws}]}",
        "resources: {use_spot: prefer, ordered: [{accelerators: {H100, A100}}, {accelerators: [L4, T4]}]}",
        "resources: {infra: k8s/a/b/c}",
        "resources: {autostop: false}",
        "resources: {autostop: false}\nbudget: 3",
        "resources: {}",
        "run: |\n  #!/bin/bash\n  echo 'x'\n\n  echo y\nsetup: '  x'",
    ],
)
def test_written_forms(text: str) -> None:
    assert_same(parse(text))


def test_other_readers_see_the_same_text() -> None:
    spec = Spec(name="1e3", run="no", envs={"A": "010", "B": "NO", "C": "1_000", "D": "12:30:45"})
    read = yaml.safe_load(to_yaml(spec))
    assert (read["name"], read["run"], read["envs"]) == (spec.name, spec.run, dict(spec.envs))


def test_it_reads_well() -> None:
    text = "resources: {gpus: A100:8, infra: aws, use_spot: true, cpus: 8+}\nrun: |\n  python a.py\n  python b.py\nbudget: 20"
    assert to_yaml(parse(text)) == (
        'resources:\n  infra: aws\n  accelerators: A100:8\n  cpus: "8+"\n  use_spot: true\n'
        'run: "python a.py\\npython b.py\\n"\nbudget: 20\n'
    ).replace('"python a.py\\npython b.py\\n"', "|\n  python a.py\n  python b.py")
