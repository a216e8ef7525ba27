"""The other fields of `resources`: every form, old names, and the remarks on each."""

from __future__ import annotations

import pytest

from nbprov.model.remarks import Severity
from nbprov.model.resources import Compare, Quantity
from nbprov.model.spec import Spec
from nbprov.spec import SpecError, parse


def spec(resources: str, *ignore: str) -> Spec:
    return parse(f"resources: {resources}", frozenset(ignore))


def problems(resources: str) -> list[tuple[str, str]]:
    with pytest.raises(SpecError) as caught:
        spec(resources)
    assert all(p.hint for p in caught.value.problems)
    return [(p.code, p.path) for p in caught.value.problems]


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("A100", ["A100:1"]),
        ("A10:0.33", ["A10:0.33"]),
        ("{A10:1, L4: 2}", ["A10:1", "L4:2"]),
        ("[H100:8, A100:8, h100:8]", ["H100:8", "A100:8"]),
        ("80GB", ["80GB:1"]),
        ("nvidia:80GB+:4", ["nvidia:80GB+:4"]),
        ("[80GB+:8, L4]", ["80GB+:8", "L4:1"]),
        ("{A100: 0.5}", ["A100:0.5"]),
    ],
)
def test_accelerators_outside_and_in_items(text: str, kinds: list[str]) -> None:
    for resources in (
        f"{{accelerators: {text}}}",
        f"{{any_of: [{{accelerators: {text}}}]}}",
        f"{{gpus: T4, any_of: [{{gpus: {text}}}]}}",
    ):
        assert [str(r.accelerator) for r in spec(resources).requests] == kinds


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "8",
        "1.5",
        "A100:x",
        "A:8:2",
        "[{A100: 8}]",
        "{A100: '8'}",
        "A100:0",
        "A100:-1",
        "A100:nan",
        "A100:inf",
        "{A100: .nan}",
    ],
)
def test_accelerators_that_are_refused(text: str) -> None:
    quoted = text or "''"
    for resources, path in (
        (f"{{accelerators: {quoted}}}", "resources"),
        (f"{{any_of: [{{gpus: {quoted}}}]}}", "resources.any_of[0]"),
    ):
        assert all(
            code.startswith("spec.") and where.startswith(path)
            for code, where in problems(resources)
        )


@pytest.mark.parametrize(
    ("text", "quantity"),
    [
        ("32", Quantity(Compare.EXACTLY, 32)),
        ("32+", Quantity(Compare.AT_LEAST, 32)),
        ("3x", Quantity(Compare.PER_VCPU, 3)),
        ("64GiB+", Quantity(Compare.AT_LEAST, 64)),
        ("64g", Quantity(Compare.EXACTLY, 64)),
        ("1.5TB", Quantity(Compare.EXACTLY, 1536)),
        ("64 GB", Quantity(Compare.EXACTLY, 64)),
        ("65536MB", Quantity(Compare.EXACTLY, 64)),
    ],
)
def test_memory(text: str, quantity: Quantity) -> None:
    assert spec(f"{{memory: {text}}}").requests[0].memory == quantity


def test_exact_amounts_that_few_machines_have_are_warned_of() -> None:
    assert [r.code for r in spec("{memory: 1500MB}").remarks] == ["spec.odd-memory"]
    assert [r.code for r in spec("{cpus: 4.5}").remarks] == ["spec.odd-cpus"]
    assert spec("{memory: 1500MB+, cpus: 0.5}").remarks == ()


@pytest.mark.parametrize(
    ("resources", "strategy", "notes"),
    [
        ("{job_recovery: FAILOVER}", "failover", ["resources.job_recovery"]),
        (
            "{job_recovery: eager_next_region}",
            "eager_next_region",
            ["resources.job_recovery"],
        ),
        ("{job_recovery: none}", "", []),
        ("{spot_recovery: FAILOVER}", "failover", ["resources.spot_recovery"]),
        (
            "{job_recovery: {strategy: FAILOVER, max_restarts_on_errors: 3, "
            "recover_on_exit_codes: [33, 34]}}",
            "failover",
            [
                "resources.job_recovery.strategy",
                "resources.job_recovery.max_restarts_on_errors",
                "resources.job_recovery.recover_on_exit_codes",
            ],
        ),
        (
            "{job_recovery: {recover_on_exit_codes: 33}}",
            "",
            ["resources.job_recovery.recover_on_exit_codes"],
        ),
    ],
)
def test_recovery(resources: str, strategy: str, notes: list[str]) -> None:
    found = spec(resources)
    assert found.recovery == strategy
    assert [(r.level, r.origin.path) for r in found.remarks] == [
        (Severity.NOTE, path) for path in notes
    ]


def test_what_queues_is_noted() -> None:
    found = spec("{priority: -1000, priority_class: high}")
    assert [(r.level, r.origin.path) for r in found.remarks] == [
        (Severity.NOTE, "resources.priority"),
        (Severity.NOTE, "resources.priority_class"),
    ]


@pytest.mark.parametrize("field", ["volumes", "ephemeral_storage"])
def test_what_the_program_would_miss_is_an_error_unless_ignored(field: str) -> None:
    text = f"{{{field}: 50}}"
    assert problems(text) == [("spec.not-yet", f"resources.{field}")]
    assert [(r.level, r.code) for r in spec(text, field).remarks] == [
        (Severity.WARNING, "spec.ignored")
    ]


@pytest.mark.parametrize(
    ("resources", "code", "path"),
    [
        ("{job_recovery: FAILOVR}", "choice", "job_recovery"),
        ("{job_recovery: FAILOVER, spot_recovery: none}", "same-field", "spot_recovery"),
        (
            "{job_recovery: {recover_on_exit_codes: [256]}}",
            "value",
            "job_recovery.recover_on_exit_codes",
        ),
        (
            "{job_recovery: {max_restarts_on_errors: -1}}",
            "value",
            "job_recovery.max_restarts_on_errors",
        ),
        ("{job_recovery: {strategi: FAILOVER}}", "unknown-field", "job_recovery.strategi"),
        (
            "{job_recovery: failover, any_of: [{}, {job_recovery: none}]}",
            "job-recovery-differs",
            "any_of[1].job_recovery",
        ),
        ("{priority: 1, any_of: [{}, {priority: 2}]}", "priority-differs", "any_of[1].priority"),
        ("{priority: 1001}", "value", "priority"),
        ("{priority: '5'}", "value", "priority"),
        ("{labels: {a: 1}}", "type", "labels.a"),
        ("{ports: {a: b}}", "type", "ports"),
        ("{ports: 0}", "value", "ports"),
        ("{ports: 9-8}", "value", "ports"),
        ("{ports: 70000}", "value", "ports"),
        ("{cpus: 4x}", "value", "cpus"),
        ("{cpus: -1}", "value", "cpus"),
        ("{memory: 64+GB}", "value", "memory"),
        ("{disk_size: 1.5TB}", "value", "disk_size"),
        ("{disk_size: 100+}", "value", "disk_size"),
        ("{disk_size: 0}", "value", "disk_size"),
        ("{use_spot: 1}", "value", "use_spot"),
        ("{use_spot: 'true'}", "value", "use_spot"),
        ("{max_hourly_cost: 0}", "value", "max_hourly_cost"),
        ("{max_price: nan}", "value", "max_price"),
        ("{any_of: {infra: aws}}", "type", "any_of"),
        ("{any_of: [{any_of: []}]}", "nested", "any_of[0].any_of"),
        ("{any_of: [aws]}", "type", "any_of[0]"),
    ],
)
def test_errors(resources: str, code: str, path: str) -> None:
    assert problems(resources) == [(f"spec.{code}", f"resources.{path}")]


def test_the_place_written_twice_is_shown_written_once() -> None:
    with pytest.raises(SpecError) as caught:
        spec("{infra: aws/us-east-1, region: us-west-2}")
    assert (
        caught.value.problems[0].hint
        == "write one of the two: infra: aws/us-east-1, or infra: aws/us-west-2"
    )


def test_the_lower_cap_holds_across_item_and_outer() -> None:
    found = spec(
        "{max_price: 2, any_of: [{max_hourly_cost: 1}, {max_hourly_cost: 3}, {max_price: null}]}"
    ).requests
    assert [r.max_hourly for r in found] == [1_000_000, 2_000_000, None]
