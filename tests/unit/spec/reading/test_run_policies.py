"""How a run chooses, waits, asks and checks.

Covers prefer, race, wait, confirm_above, health, expose, engine, outputs and config.
"""

from __future__ import annotations

import pytest

from nbprov.model.money import usd
from nbprov.model.remarks import Severity
from nbprov.model.run_policies import ConfirmAbove, OrderPolicy, Race, WaitPolicy
from nbprov.model.sources import Repository
from nbprov.model.spec import ComputeEngine, ExposedPorts, HealthCheck, Hook, Spec
from nbprov.spec import SpecError, fill_paths, parse


def codes(text: str) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert all(p.hint and p.line >= 1 for p in caught.value.problems)
    return [p.code for p in caught.value.problems]


def test_defaults() -> None:
    spec = parse("run: x")
    assert (spec.prefer, spec.race, spec.wait, spec.confirm_above) == (
        OrderPolicy.CHEAPEST,
        Race(2, None),
        WaitPolicy(),
        ConfirmAbove(),
    )
    assert (spec.engine, spec.health, spec.expose, spec.outputs, spec.hooks) == (
        None,
        HealthCheck(),
        ExposedPorts(),
        (),
        (),
    )


@pytest.mark.parametrize("nested", [False, True])
def test_own_fields_stand_at_the_top_or_together(nested: bool) -> None:
    lines = [
        "prefer: Balanced",
        "race: {width: 3, hedge: 1.5m}",
        "wait: {for: 4h, notify: yes}",
        "confirm_above: $5",
    ]
    text = "nbprov:\n" + "".join(f"  {line}\n" for line in lines) if nested else "\n".join(lines)
    spec = parse(text)
    assert (spec.prefer, spec.race, spec.wait) == (
        OrderPolicy.BALANCED,
        Race(3, 90.0),
        WaitPolicy(14400.0, True),
    )
    assert spec.confirm_above == ConfirmAbove(hourly=usd(5))
    assert spec.remarks == ()


@pytest.mark.parametrize(
    ("value", "race"),
    [
        ("3", Race(3)),
        ("1", Race(1)),
        ("false", Race(1)),
        ("no", Race(1)),
        ("{width: 3}", Race(3)),
        ("{hedge: 20s}", Race(2, 20.0)),
        ("{hedge: auto}", Race(2)),
        ("{hedge: 0}", Race(2, 0.0)),
        ("{width: false}", Race(1)),
        ("{}", Race()),
        ("{width: null}", Race()),
    ],
)
def test_forms_of_race(value: str, race: Race) -> None:
    assert parse(f"race: {value}").race == race


@pytest.mark.parametrize(
    "value",
    [
        "0",
        "-1",
        "2.5",
        "'3'",
        "true",
        "17",
        "[2]",
        "{width: 0}",
        "{hedge: 20}",
        "{hedge: -1s}",
        "{wdith: 3}",
        "nan",
    ],
)
def test_bad_races(value: str) -> None:
    assert len(codes(f"race: {value}")) == 1


def test_clusters_of_several_nodes_race_in_pairs() -> None:
    spec = parse("race: 5\nnum_nodes: 2")
    assert (spec.race.width, [(r.level, r.code) for r in spec.remarks]) == (
        2,
        [(Severity.NOTE, "spec.race-width")],
    )
    assert parse("num_nodes: 2").remarks == ()
    assert parse("race: 1\nnum_nodes: 2").race.width == 1


@pytest.mark.parametrize(
    ("value", "wait"),
    [
        ("4h", WaitPolicy(14400.0)),
        ("0", WaitPolicy()),
        ("0s", WaitPolicy()),
        ("false", WaitPolicy()),
        ("{for: 1.5d}", WaitPolicy(129600.0)),
        ("{notify: true}", WaitPolicy(0.0, True)),
        ("{for: 1h, notify: false}", WaitPolicy(3600.0)),
        (
            "{for: 1h, notify: 'https://hooks.x.y/z'}",
            WaitPolicy(3600.0, True, "https://hooks.x.y/z"),
        ),
    ],
)
def test_forms_of_wait(value: str, wait: WaitPolicy) -> None:
    assert parse(f"wait: {value}").wait == wait


@pytest.mark.parametrize(
    "value",
    [
        "4",
        "-1h",
        "true",
        "forever",
        "[4h]",
        "{for: 4}",
        "{notify: ftp://x}",
        "{notify: 1}",
        "{fro: 4h}",
    ],
)
def test_bad_waits(value: str) -> None:
    assert len(codes(f"wait: {value}")) == 1


@pytest.mark.parametrize(
    ("value", "above"),
    [
        ("20%", ConfirmAbove(jump=0.2)),
        ("150 %", ConfirmAbove(jump=1.5)),
        ("$5", ConfirmAbove(hourly=usd(5))),
        ("2.50", ConfirmAbove(hourly=usd("2.50"))),
        ("{jump: 20%, hourly: 5, total: 50}", ConfirmAbove(0.2, usd(5), usd(50))),
        ("false", ConfirmAbove()),
    ],
)
def test_forms_of_confirm_above(value: str, above: ConfirmAbove) -> None:
    assert parse(f"confirm_above: {value}").confirm_above == above


@pytest.mark.parametrize(
    "value",
    [
        "0%",
        "-5%",
        "0",
        "true",
        "lots",
        "[5]",
        "{}",
        "{jump: 20}",
        "{hourly: 5%}",
        "{totl: 5}",
        "nan%",
    ],
)
def test_bad_confirmations(value: str) -> None:
    assert len(codes(f"confirm_above: {value}")) == 1


@pytest.mark.parametrize(
    ("value", "health"),
    [
        ("nvidia-smi -L", HealthCheck(command="nvidia-smi -L")),
        ("false", HealthCheck(on=False)),
        ("true", HealthCheck()),
        ("':8000/ok'", HealthCheck(http=":8000/ok")),
        ("http://localhost:8000", HealthCheck(http=":8000/")),
        (
            "{command: ./ok, http: ':80', every: 5, timeout: 1m, failures: 5, on_fail: Replace}",
            HealthCheck(True, "./ok", ":80/", 5.0, 60.0, 5, "replace"),
        ),
    ],
)
def test_forms_of_health(value: str, health: HealthCheck) -> None:
    spec = parse(f"health: {value}")
    assert spec.health == health
    assert [r.level for r in spec.remarks] == [Severity.WARNING] * (
        bool(health.http) + (health.on_fail != "report")
    )


def test_what_is_not_done_once_the_machine_is_ready_is_said() -> None:
    def said(value: str, *ignore: str) -> list[tuple[Severity, bool]]:
        return [
            (r.level, "on_fail" in r.message)
            for r in parse(f"health: {value}", frozenset(ignore)).remarks
        ]

    assert said("{command: ./ok, on_fail: report, timeout: 5s}") == []
    assert said("{command: ./ok, every: 5s}") == said("{failures: 5}") == [(Severity.NOTE, False)]
    assert said("{command: ./ok, every: 5s, on_fail: down}") == [(Severity.WARNING, True)]
    assert said("{on_fail: replace}", "health") == [(Severity.NOTE, True)]


@pytest.mark.parametrize(
    "value",
    [
        "5",
        "''",
        "[x]",
        "':99999/x'",
        "https://example.com",
        "{failures: 0}",
        "{on_fail: stop}",
        "{every: -1s}",
        "{cmd: x}",
        "{http: 80}",
    ],
)
def test_bad_health_checks(value: str) -> None:
    assert len(codes(f"health: {value}")) == 1


def test_who_may_reach_the_ports() -> None:
    ports = "resources: {ports: [8080-8090, 22]}\n"
    assert parse(f"{ports}expose: Public").expose == ExposedPorts(everything=True)
    spec = parse(ports + "expose: {8081: public, 8080: public, 22: tunnel}")
    assert spec.expose == ExposedPorts(public=((8080, 8081),))
    assert spec.remarks == ()
    assert codes(ports + "expose: {9000: public}") == ["spec.value"]
    assert codes(ports + "expose: {22: open}") == ["spec.choice"]
    assert codes(ports + "expose: [22]") == ["spec.type"]


@pytest.mark.parametrize(
    ("value", "engine"),
    [
        ("dask", ComputeEngine("dask")),
        ("Ray", ComputeEngine("ray")),
        ("none", None),
        ("false", None),
        ("{ray: null}", ComputeEngine("ray")),
        (
            "{dask: {workers: gpu, threads: 4}}",
            ComputeEngine("dask", (("threads", "4"), ("workers", "gpu"))),
        ),
        ("{dask: {workers: 2}}", ComputeEngine("dask", (("workers", "2"),))),
        ("{ray: {memory: 1.5 GiB}}", ComputeEngine("ray", (("memory", "1.5GiB"),))),
    ],
)
def test_forms_of_engine(value: str, engine: ComputeEngine | None) -> None:
    spec = parse(f"engine: {value}")
    assert spec.engine == engine
    assert spec.remarks == ()


@pytest.mark.parametrize(
    "value",
    [
        "spark",
        "{dask: {memory: 4}}",
        "{dask: {memory: 0GB}}",
        "{dask: {memory: [1GB]}}",
        "{}",
        "{dask: {}, ray: {}}",
        "{spark: {}}",
        "{dask: 4}",
        "{dask: {thread: 4}}",
        "{dask: {threads: 0}}",
        "[dask]",
        "{dask: {workers: tpu}}",
    ],
)
def test_bad_engines(value: str) -> None:
    assert len(codes(f"engine: {value}")) == 1


def pulled(text: str) -> list[tuple[str, str]]:
    return [(mount.source, mount.target) for mount in parse(text).outputs]


def test_forms_of_outputs() -> None:
    assert pulled('outputs: [results, "*.ckpt", results]') == [("results", ""), ("*.ckpt", "")]
    assert pulled("outputs: {~/sky_workdir/out: ./out, log: null}") == [
        ("~/sky_workdir/out", "./out"),
        ("log", ""),
    ]
    assert pulled("outputs: results") == [("results", "")]


def test_a_number_makes_outputs_an_estimate() -> None:
    spec = parse("outputs: {s3://b/x: 20}\ninputs: {s3://b/y: 1.5}")
    assert (spec.outputs, spec.inputs) == ((), (("s3://b/y", 1.5),))
    assert [r.level for r in spec.remarks] == [Severity.NOTE, Severity.NOTE]


@pytest.mark.parametrize(
    "value",
    [
        "[s3://b]",
        "{a: 5}",
        "{s3://b: 20, a: 5, c: d}",
        "{s3://b: 20, a: b}",
        "[null]",
        "[[a]]",
        "{s3://b/x: out}",
        "true",
        "[~]",
        "[/]",
        "[.]",
        "[../x]",
        "[a/../b]",
        "[~you/x]",
    ],
)
def test_bad_outputs(value: str) -> None:
    assert len(codes(f"outputs: {value}")) == 1


@pytest.mark.parametrize("value", ["5", "{a: 5}", "{s3://b: big}", "{s3://b: -5}", "{s3://b: '5'}"])
def test_bad_inputs(value: str) -> None:
    assert len(codes(f"inputs: {value}")) == 1


def container(options: str) -> Spec:
    return parse(f"config: {{docker: {{run_options: {options}}}}}")


def test_options_of_the_container() -> None:
    spec = container("[--ipc=host, '-v /a:/b', --gpus=all]")
    assert spec.docker_options == ("--ipc=host", "-v", "/a:/b", "--gpus=all")
    (remark,) = spec.remarks
    assert (remark.level, "--ipc=host" in remark.message, "--gpus" in remark.message) == (
        Severity.WARNING,
        True,
        False,
    )
    assert container("--shm-size=1g").docker_options == ("--shm-size=1g",)
    assert codes('config: {docker: {run_options: ["\'"]}}') == ["spec.value"]
    assert codes("config: {docker: {run_option: x}}") == ["spec.unknown-field"]


def test_hooks() -> None:
    spec = parse(
        "config: "
        "{hooks: [{run: a}, {run: b, events: [stop, STOP], timeout: 60}, {run: c, events: "
        "preemption}]}"
    )
    assert spec.hooks == (Hook("a"), Hook("b", ("stop",), 60.0), Hook("c", ("preemption",)))
    for bad in (
        "{}",
        "[{events: [stop]}]",
        "[x]",
        "[{run: a, events: [boot]}]",
        "[{run: a, events: []}]",
        "[{run: a, timeout: -1}]",
        "[{rum: a}]",
    ):
        assert codes(f"config: {{hooks: {bad}}}")


def test_settings_of_other_platforms() -> None:
    assert [
        r.level
        for r in parse("config: {kubernetes: {a: b}, ssh: {x: 1}, active_workspace: x}").remarks
    ] == [Severity.NOTE] * 3
    assert (
        parse("config: {kubernetes: {}, gcp: {}}\nvolumes: {}\nresources: {volumes: []}").remarks
        == ()
    )
    assert (
        codes("config: {gcp: {vpc_name: x}, vast: {datacenter_only: true}}") == ["spec.not-yet"] * 2
    )


def test_service_and_pool_are_maps() -> None:
    assert codes("service: 5") == codes("pool: [a]") == ["spec.type"]


def test_a_service_says_how_to_ask_its_probe() -> None:
    spec = parse("service: {readiness_probe: {path: /ok}, replicas: 2}\nresources: {ports: 8080}")
    assert "curl -fsS localhost:8080/ok in a cell %%on NAME --bash" in spec.remarks[0].message
    assert "health" not in spec.remarks[0].message
    assert "num_nodes: 3" in parse("pool: {workers: 3}").remarks[0].message


def test_an_event_callback_points_to_notify() -> None:
    with pytest.raises(SpecError) as caught:
        parse("event_callback: ./tell.sh")
    assert "wait: {notify: true}" in caught.value.problems[0].hint
    assert [
        r.code for r in parse("event_callback: ./tell.sh", frozenset({"event_callback"})).remarks
    ] == ["spec.ignored"]


LOGIN = ("SKYPILOT_DOCKER_USERNAME", "SKYPILOT_DOCKER_PASSWORD", "SKYPILOT_DOCKER_SERVER")


def test_a_registry_log_in_stands_together() -> None:
    image = "resources: {image_id: 'docker:r.x/i:1'}\n"
    whole = "secrets: {" + ", ".join(f"{name}: null" for name in LOGIN) + "}\n"
    assert parse(image + whole).remarks == ()
    assert [r.code for r in parse(whole).remarks] == ["spec.docker-login"]
    assert codes(image + f"envs: {{{LOGIN[0]}: a}}") == ["spec.docker-login"]
    assert codes(
        image + f"envs: {{{LOGIN[0]}: a, {LOGIN[2]}: b}}\nsecrets: {{{LOGIN[1]}: null}}"
    ) == ["spec.docker-login"]


def test_variables_hold_no_nul_and_are_not_without_number() -> None:
    assert codes('envs: {A: "a\\0b"}') == ["spec.value"]
    assert codes("envs:\n" + "".join(f"  A{n}: x\n" for n in range(501))) == ["spec.too-many"]


@pytest.mark.parametrize(
    ("value", "targets"),
    [
        ("{source: ./a, mode: copy}", ["/d"]),
        ("{source: [./a, ./b/c.txt], mode: COPY}", ["/d/a", "/d/c.txt"]),
        ("{source: ./a, mode: COPY, name: bk, store: s3}", ["/d"]),
        ("s3://b/x", ["/d"]),
        ("gs://b", ["/d"]),
        ("'https://x.y/z.tar?sig=1'", ["/d"]),
        ("{source: s3://b/x, mode: COPY}", ["/d"]),
        (
            "{source: [./a, gs://b/x/, 'https://h/z.bin?sig=/q'], mode: COPY}",
            ["/d/a", "/d/x", "/d/z.bin"],
        ),
    ],
)
def test_copies_in_any_form_are_read(value: str, targets: list[str]) -> None:
    assert [mount.target for mount in parse(f"file_mounts: {{/d: {value}}}").file_mounts] == targets


@pytest.mark.parametrize(
    ("value", "code", "hint"),
    [
        ("{source: ./a}", "spec.not-yet", "mode: COPY"),
        ("{source: s3://b, mode: MOUNT}", "spec.not-yet", "--ignore file_mounts"),
        ("{name: b, store: volume}", "spec.not-yet", "--ignore file_mounts"),
        ("{source: s3://b/x}", "spec.not-yet", "mode: COPY"),
        ("{source: gs://b/x, mode: MOUNT_CACHED, type: DATASET_RO}", "spec.not-yet", "mode: COPY"),
        ("{source: [s3://b/x, oci://b/y], mode: COPY}", "spec.not-yet", "setup"),
        ("oci://b/x", "spec.not-yet", "setup"),
        ("{source: [s3://b/x, [y]], mode: COPY}", "spec.mount", "./data"),
        ("s3:///x", "spec.mount", "BUCKET"),
        ("https://host", "spec.mount", "HOST"),
        ("'https://host/x#md5=1'", "spec.mount", "HOST"),
        ("{sorce: ./a, mode: COPY}", "spec.unknown-field", "source"),
        ("{source: ./a, mode: MOVE}", "spec.choice", ""),
        ("{source: s3://b, type: DATASET_RO}", "spec.mount", "MOUNT_CACHED"),
        ("{mode: COPY}", "spec.mount", "source"),
    ],
)
def test_other_mounts_are_errors_with_a_way_out(value: str, code: str, hint: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(f"file_mounts: {{/d: {value}}}")
    assert [p.code for p in caught.value.problems] == [code]
    assert hint in caught.value.problems[0].hint


def test_what_is_written_to_a_mount_is_not_lost_unsaid() -> None:
    for value in (
        "{source: s3://b/x}",
        "{source: ./a}",
        "{name: new, store: gcs, persistent: false}",
    ):
        with pytest.raises(SpecError, match="would be lost with the machine"):
            parse(f"file_mounts: {{/d: {value}}}")


def test_files_by_plain_http_are_warned_of() -> None:
    assert [(r.level.value, r.code) for r in parse("file_mounts: {/d: http://h/x}").remarks] == [
        ("warning", "spec.plain-http")
    ]


def test_a_password_in_an_address_is_refused_and_shown_nowhere() -> None:
    for text in (
        "file_mounts: {/d: 'https://me:s3cr3t-w0rd@h/x'}",
        "workdir: {url: 'https://s3cr3t-w0rd@h/o/r.git'}",
    ):
        with pytest.raises(SpecError) as caught:
            parse(text)
        assert "password or token" in str(caught.value)
        assert "s3cr3t-w0rd" not in str(caught.value)


def test_a_git_workdir_is_read_and_checked() -> None:
    assert parse("workdir: {url: https://x.y/z.git, ref: v1}").workdir == Repository(
        "https://x.y/z.git", "v1"
    )
    assert parse("workdir: {url: git@host:me/x.git}").workdir == Repository("git@host:me/x.git")
    spec = parse("envs: {REF: null}\nworkdir: {url: https://x.y/z.git, ref: $REF}")
    assert fill_paths(spec, {"REF": "v2"}).workdir == Repository("https://x.y/z.git", "v2")
    with pytest.raises(SpecError, match="no name of a branch"):
        fill_paths(spec, {"REF": "--upload-pack=id"})
    assert codes("workdir: {ref: v1}") == ["spec.missing"]
    assert codes("workdir: {url: https://x.y/z, branch: v1}") == ["spec.unknown-field"]
    assert codes("workdir: https://x.y/z.git") == ["spec.value"]
    assert codes("workdir: {url: 'https://h/$T.git'}\nsecrets: {T: null}") == ["spec.mount"]


@pytest.mark.parametrize(
    ("url", "ref"),
    [
        ("ext::sh -c id", ""),
        ("-oProxyCommand=x", ""),
        ("file:///etc", ""),
        ("ssh://-oProxyCommand=x/y", ""),
        ("git@-oProxyCommand=x:y", ""),
        ("ssh://me:pw@host/x", ""),
        ("http://host.example/x.git", ""),
        ("https://host/x", "--upload-pack=id"),
        ("https://host/x", "a..b"),
        ("https://host/x", "a b"),
    ],
)
def test_a_git_address_that_could_do_harm_is_refused(url: str, ref: str) -> None:
    assert codes(f"workdir: {{url: '{url}', ref: '{ref}'}}") == ["spec.value"]
