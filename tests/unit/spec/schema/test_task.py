"""The fields of a task: what each takes and refuses, and the remarks on unused ones."""

from __future__ import annotations

import pytest

from nbprov.model.guards import DEFAULT_IDLE_SECONDS, Autostop, Guards
from nbprov.model.money import usd
from nbprov.model.remarks import Severity
from nbprov.model.secret import Secret
from nbprov.model.sources import Mount, SourceKind
from nbprov.spec import SpecError, fields, fill_paths, parse
from nbprov.spec.schema.field import FieldUse, Section


def codes(text: str, ignore: frozenset[str] = frozenset()) -> list[str]:
    with pytest.raises(SpecError) as caught:
        parse(text, ignore)
    return [p.code for p in caught.value.problems]


def said(text: str, ignore: frozenset[str] = frozenset()) -> list[tuple[str, str]]:
    return [(r.level.value, r.origin.path) for r in parse(text, ignore).remarks]


@pytest.mark.parametrize("name", ["my-job.v2", "a", "x--y", "2024", "A_b.C"])
def test_good_names(name: str) -> None:
    assert parse(f"name: {name}").name == name


@pytest.mark.parametrize("name", ["-a", "a-", "a---b", "a b", "a/b", "'é'", "''", "$x"])
def test_bad_names(name: str) -> None:
    assert len(codes(f"name: {name}")) == 1


@pytest.mark.parametrize("value", ["0", "-1", '"2"', "2.0", "two", "[2]", "true", "1e3"])
def test_num_nodes_must_be_a_whole_number(value: str) -> None:
    assert codes(f"num_nodes: {value}") == ["spec.value"]


def test_envs_keep_their_source_text() -> None:
    text = (
        'envs: {A: 010, B: 0.10, C: yes, D: 12:30:45, E: "", F: null, G: 1_000, H: true, I: '
        '"null", J: ~}'
    )
    assert parse(text).envs == {
        "A": "010",
        "B": "0.10",
        "C": "yes",
        "D": "12:30:45",
        "E": "",
        "F": None,
        "G": "1_000",
        "H": "true",
        "I": "null",
        "J": None,
    }


def test_bad_envs() -> None:
    assert codes("envs: [A, B]") == ["spec.type"]
    assert codes("envs: {1A: x, B-C: y, D: [z]}") == ["spec.env-name", "spec.env-name", "spec.type"]


def test_what_looks_like_a_secret_is_warned_of() -> None:
    assert said("envs: {HF_TOKEN: abcdef, TOKENIZERS_PARALLELISM: 1}") == [
        ("warning", "envs.HF_TOKEN")
    ]


def test_forms_of_secrets() -> None:
    spec = parse("secrets: {TOKEN: null, KEY: abc}\nmanaged_secrets: [OTHER]")
    assert spec.secrets == {"TOKEN": None, "KEY": Secret("abc"), "OTHER": None}
    assert parse('secrets: ["secrets:TOKEN", "secrets:personal.KEY"]').secrets == {
        "TOKEN": None,
        "KEY": None,
    }
    assert codes("secrets: [TOKEN]") == ["spec.secret"]
    assert codes('secrets: {"secrets:T": v}') == ["spec.secret"]


def test_the_secret_wins_over_the_env_of_its_name() -> None:
    spec = parse("envs: {A: x}\nsecrets: {A: null}")
    assert spec.envs == {}
    assert list(spec.secrets) == ["A"]
    assert [r.code for r in spec.remarks] == ["spec.env-and-secret"]


@pytest.mark.parametrize("value", ["5", "1.5", "[a]", "{a: b}", "true"])
def test_commands_must_be_text(value: str) -> None:
    assert codes(f"run: {value}") == ["spec.type"]


def test_block_scalars_are_kept_to_the_letter() -> None:
    spec = parse("setup: |\n  all:\n  \tmake\nrun: >-\n  a\n  b\n")
    assert spec.setup == "all:\n\tmake\n"
    assert spec.run == "a b"


def test_default_guard() -> None:
    assert parse("run: x").guards == Guards(
        Autostop(DEFAULT_IDLE_SECONDS, down=True), is_default=True
    )


@pytest.mark.parametrize(
    ("text", "guards"),
    [
        ("max_lifetime: 8h", Guards(None, 28800.0, None, False)),
        ("budget: $5", Guards(None, None, usd(5), False)),
        ("budget: {total: 2.50}", Guards(None, None, usd("2.5"), False)),
        ("nbprov: {budget: 10, max_lifetime: 1d}", Guards(None, 86400.0, usd(10), False)),
        (
            "budget: 1\nresources: {autostop: {down: true}}",
            Guards(Autostop(300.0, down=True), None, usd(1), False),
        ),
        ("budget: 1\nresources: {autostop: false}", Guards(None, None, usd(1), False)),
    ],
)
def test_given_guards_replace_the_default(text: str, guards: Guards) -> None:
    spec = parse(text)
    assert spec.guards == guards
    assert spec.remarks == ()


def test_autostop_off_alone_warns() -> None:
    spec = parse("resources: {autostop: false}")
    assert spec.guards == Guards(None, None, None, False)
    assert [(r.level, r.code) for r in spec.remarks] == [(Severity.WARNING, "spec.unguarded")]


@pytest.mark.parametrize(
    ("value", "idle"),
    [
        ("10", 600),
        ('"10"', 600),
        ("30s", 30),
        ("1.5h", 5400),
        ("true", 300),
        ("yes", 300),
        ("2d", 172_800),
        ("0", 60),
        ("0.5", 30),
    ],
)
def test_forms_of_autostop(value: str, idle: float) -> None:
    assert parse(f"resources: {{autostop: {value}}}").guards.autostop == Autostop(idle)


def test_the_whole_autostop_map() -> None:
    text = (
        "resources: "
        "{autostop: {idle_minutes: 7, down: yes, wait_for: JOBS, hook: 'sync it', hook_timeout: "
        "60}}"
    )
    assert parse(text).guards.autostop == Autostop(420.0, True, "jobs", "sync it", 60.0)


@pytest.mark.parametrize(
    "value",
    [
        "-1",
        "never",
        "1.5y",
        "[10]",
        "{idle_minutes: 1h}",
        "{idle_minutes: -1}",
        "{down: maybe}",
        "{wait_for: all}",
        "{minutes: 5}",
        "nan",
    ],
)
def test_bad_autostops(value: str) -> None:
    assert len(codes(f"resources: {{autostop: {value}}}")) == 1


@pytest.mark.parametrize(
    "value", ["0", "-1", "nan", "inf", "ten", "1e9", "{}", "{warn: [50%]}", "[5]", "true", "'20%'"]
)
def test_bad_budgets(value: str) -> None:
    assert len([c for c in codes(f"budget: {value}") if c != "spec.not-used"]) == 1


@pytest.mark.parametrize("value", ["8", "0h", "-1h", "1y", "true", "h", "1e400h", "99999999w"])
def test_bad_lifetimes(value: str) -> None:
    assert len(codes(f"max_lifetime: {value}")) == 1


def test_the_whole_budget_map() -> None:
    guards = parse("budget: {total: 10, warn: [80%, 50%, 80%], at_limit: STOP}").guards
    assert guards == Guards(None, None, usd(10), False, (0.5, 0.8), "stop")
    assert parse("budget: {total: 10, warn: 95%}").guards.warn == (0.95,)


@pytest.mark.parametrize(
    "value", ["[50]", "[0%]", "[101%]", "[-5%]", "half", "[[5%]]", "{a: b}", "true"]
)
def test_bad_warnings_of_a_budget(value: str) -> None:
    assert len(codes(f"budget: {{total: 10, warn: {value}}}")) == 1
    assert codes("budget: {total: 10, at_limit: pause}") == ["spec.choice"]


def test_a_second_clock_ends_what_was_stopped() -> None:
    assert parse(
        "resources: {autostop: {idle_minutes: 5, down_after: 1d}}"
    ).guards.autostop == Autostop(300.0, down_after=86400.0)
    assert said("resources: {autostop: {down: true, down_after: 1d}}") == [
        ("note", "resources.autostop")
    ]
    assert len(codes("resources: {autostop: {down_after: 5}}")) == 1


def test_own_fields_stand_in_one_place() -> None:
    assert codes("budget: 5\nnbprov: {budget: 6}") == ["spec.same-field"]
    assert codes("nbprov: {run: x}") == ["spec.misplaced-field"]


@pytest.mark.parametrize(("field", "value"), [("health", "':8000/ok'")])
def test_what_may_cost_money_or_data_is_a_warning(field: str, value: str) -> None:
    assert said(f"{field}: {value}") == [("warning", field)]
    assert said(f"nbprov: {{{field}: {value}}}") == [("warning", f"nbprov.{field}")]
    assert said(f"{field}: {value}", frozenset({field})) == [("note", field)]


@pytest.mark.parametrize(
    "text",
    [
        "race: 1",
        "race: {width: 3, hedge: 20s}",
        "race: false",
        "wait: 0",
        "wait: {for: 4h, notify: true}",
        "engine: none",
        "engine: dask",
        "prefer: soonest",
        "confirm_above: 20%",
        "health: nvidia-smi -L",
        "expose: tunnel",
        "resources: {network_tier: standard}",
    ],
)
def test_nothing_is_said_where_nothing_differs(text: str) -> None:
    assert parse(text).remarks == ()


@pytest.mark.parametrize(
    "text",
    [
        "service: {readiness_probe: /ok}",
        "pool: {workers: 3}",
        "config: {kubernetes: {pod_config: {spec: {}}}}",
        "inputs: {s3://b/x: 120}",
        "outputs: {s3://b/x: 20}",
        "api_server_access: false",
        "resources: {priority: 5}",
        "_internal: {password: hunter22}",
        "volume_mounts: [a]",
    ],
)
def test_what_the_program_would_not_notice_is_a_note(text: str) -> None:
    assert [level for level, _ in said(text)] == ["note"]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("volumes: {/mnt: v}", "volumes"),
        ("resources: {volumes: [{path: /d}]}", "volumes"),
        ("resources: {ephemeral_storage: 50}", "ephemeral_storage"),
        ("config: {gcp: {vpc_name: x}}", "gcp"),
        ("event_callback: ./tell.sh", "event_callback"),
        ("file_mounts: {/d: oci://b/x}", "file_mounts"),
        ("file_mounts: {/d: {source: s3://b, mode: MOUNT}}", "file_mounts"),
        ("quantum: 5", "quantum"),
    ],
)
def test_what_it_would_miss_is_an_error_unless_ignored(text: str, name: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse(text)
    assert f"--ignore {name}" in str(caught.value)
    assert [level for level, _ in said(text, frozenset({name}))] == ["warning"]


def test_ignoring_what_is_not_there_is_said() -> None:
    assert said("run: x", frozenset({"volumes"})) == [("note", "volumes")]


def test_nulls_are_absent() -> None:
    text = (
        "name:\nrun: null\nsetup: ~\nenvs:\nresources:\nvolumes: null\nnbprov:\nbudget: "
        "null\nfile_mounts:\n"
    )
    spec = parse(text)
    assert (spec.name, spec.run, spec.envs, spec.remarks, spec.guards.is_default) == (
        "",
        "",
        {},
        (),
        True,
    )


def test_file_mounts() -> None:
    spec = parse("file_mounts:\n  /data: ./data\n  ~/w: {source: ./q, mode: COPY}\n")
    assert [(m.target, m.source, m.origin.line) for m in spec.file_mounts] == [
        ("/data", "./data", 2),
        ("~/w", "./q", 3),
    ]
    assert (
        codes("file_mounts: {/x/: a, s3://b: c, /d: null, /e: [1], ~/sky_workdir: y}")
        == ["spec.mount"] * 5
    )


def test_paths_are_filled_once_all_values_are_known() -> None:
    spec = parse(
        "envs: {WHERE: code, RUN_ID: null}\nworkdir: ./$WHERE\nfile_mounts: "
        "{'/d/${RUN_ID}': ./$OTHER/$RUN_ID}"
    )
    assert spec.workdir == "./$WHERE"
    filled = fill_paths(spec, {"WHERE": "code", "RUN_ID": "7"})
    assert filled.workdir == "./code"
    assert [(m.target, m.source) for m in filled.file_mounts] == [("/d/7", "./$OTHER/7")]


def test_a_filled_path_can_turn_out_to_be_a_bucket_or_nonsense() -> None:
    spec = parse("envs: {SRC: null}\nfile_mounts: {/d: $SRC}")
    assert spec.file_mounts == (Mount("/d", "$SRC", spec.file_mounts[0].origin),)
    assert spec.file_mounts[0].kind is SourceKind.LOCAL
    assert fill_paths(spec, {"SRC": "s3://b/x"}).file_mounts[0].kind is SourceKind.S3
    assert fill_paths(spec, {"SRC": "r2://b/x"}).file_mounts[0].kind is SourceKind.R2
    for value in ("oci://b/x", "s3://", "https://a:b@h/x"):
        with pytest.raises(SpecError):
            fill_paths(spec, {"SRC": value})
    assert codes("envs: {SRC: oci://b/x}\nfile_mounts: {/d: $SRC}") == ["spec.not-yet"]
    assert codes("secrets: {S: null}\nfile_mounts: {/d: 's3://b/$S'}") == ["spec.mount"]


def test_a_secret_does_not_become_a_path() -> None:
    assert codes("secrets: {KEY: null}\nfile_mounts: {/d: ./$KEY}") == ["spec.mount"]


@pytest.mark.parametrize(
    "value",
    [
        "''",
        "4",
        "0.5",
        "A100:x",
        "A:8:2",
        "A100:nan",
        "A100:inf",
        "A100:0",
        "A100:-1",
        "'A100:'",
        "[]",
        "{}",
        "[{A100: 8}]",
        '{A100: "8"}',
        "{A100:8: 2}",
        "8xA100",
        "A100:80GB",
        "true",
        "[[A100]]",
        "'4'",
        "{A100: -1}",
    ],
)
def test_bad_accelerators(value: str) -> None:
    assert len(codes(f"resources: {{accelerators: {value}}}")) == 1


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("cpus", ["4x", "0", "-1", "4++", "nan", "[4]", "true", "''", "1e999"]),
        ("memory", ["64+GB", "0+", "x", "64 apples", "-3", "3x+", "''"]),
        ("disk_size", ["100.5", "100+", "100gB", "0", "-5", "1EB", "100GiB"]),
        ("ports", ["0", "65536", "90-80", "22:22", "http", "[[80]]", "true", "-1"]),
        ("use_spot", ['"true"', "1", "maybe", "[true]", "null_"]),
        ("labels", ["{a: 1}", "[a]", "x", "{a: true}", "{a: null}"]),
        ("infra", ["aws//z", "aws/a/b/c", "''", "[aws, null]", "[]", "aws/", "/x"]),
        ("cloud", ["aws/us-east-1", "[]", "true"]),
        ("region", ["a/b", "[]", "{a: b}"]),
        ("max_price", ["0", "-1", "free", "5%"]),
        ("instance_type", ["''", "a b", "$t", "[a]"]),
        ("disk_tier", ["hihg"]),
        ("network_tier", ["fast"]),
        ("any_of", ["{infra: aws}", "aws", "[aws]", "[{any_of: []}]"]),
    ],
)
def test_bad_demands(field: str, values: list[str]) -> None:
    for value in values:
        assert len(codes(f"resources: {{{field}: {value}}}")) == 1, value


def test_device_memory_forms() -> None:
    for text, words in [
        ("80GB", "80GB:1"),
        ("80gb+", "80GB+:1"),
        ("nvidia:80GB+:4", "nvidia:80GB+:4"),
        ("{80GB: 8}", "80GB:8"),
    ]:
        assert str(parse(f"resources: {{accelerators: {text}}}").requests[0].accelerator) == words


def test_exact_memory_that_is_not_whole_warns() -> None:
    assert said("resources: {memory: 1500MB}") == [("warning", "resources.memory")]
    assert said("resources: {memory: 1500MB+}") == []


def test_infra_shapes() -> None:
    for text, place in [
        ("gcp", ("gcp", "", "")),
        ("gcp/*/us-west1-b", ("gcp", "", "us-west1-b")),
        ("'*/us-east-1'", ("", "us-east-1", "")),
        ("k8s/ctx/with/slashes", ("kubernetes", "ctx/with/slashes", "")),
        ("ssh/pool", ("ssh", "pool", "")),
        ("GCP/us-west1/*", ("gcp", "us-west1", "")),
    ]:
        (request,) = parse(f"resources: {{infra: {text}}}").requests
        assert (request.cloud, request.region, request.zone) == place


def test_places_as_sets_lists_and_blocks() -> None:
    for text in ("{CZ, NO}", "[CZ, NO]", "[CZ, NO, CZ]"):
        assert [r.region for r in parse(f"resources: {{region: {text}}}").requests] == ["CZ", "NO"]


def test_every_field_of_the_table_is_recognised() -> None:
    for where, template in [
        (Section.TASK, "{}: null"),
        (Section.RESOURCES, "resources: {{{}: null}}"),
        (Section.AUTOSTOP, "resources: {{autostop: {{{}: null}}}}"),
    ]:
        for field in fields(where):
            remarks = parse(template.format(field.name)).remarks
            assert all(r.code == "spec.dropped" for r in remarks), field.name
    assert all(f.doc for where in Section for f in fields(where))
    assert all(
        f.use is FieldUse.READ or f.use in FieldUse for where in Section for f in fields(where)
    )


def test_a_header_document_and_one_task() -> None:
    spec = parse("name: pipe\n---\nrun: x\n")
    assert (spec.name, spec.run, [r.level for r in spec.remarks]) == ("pipe", "x", [Severity.NOTE])
    assert codes("run: a\n---\nrun: b") == ["spec.tasks"]
    assert parse("---\nrun: x\n...\n").run == "x"


def test_service_beside_pool() -> None:
    assert codes("service: {replicas: 1}\npool: {workers: 2}") == ["spec.both"]
