"""From text to nodes, and how problems are shown."""

from __future__ import annotations

import pytest

from nbprov.model.errors import NbprovError
from nbprov.spec import SpecError, parse
from nbprov.spec.yaml.diagnostics import EXCERPT_WIDTH, MOST_SHOWN
from nbprov.spec.yaml.reader import MAX_BYTES


def refusal(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse(text)
    return caught.value


@pytest.mark.parametrize("text", ["", "  \n\n", "# only a comment", "---\n---\n", "null"])
def test_an_empty_cell_is_an_error(text: str) -> None:
    assert refusal(text).problems[0].code == "spec.empty"


@pytest.mark.parametrize("text", ["- a", "A100:8", "42", "'x'", "[a, b]"])
def test_a_body_that_is_no_map(text: str) -> None:
    assert refusal(text).problems[0].code == "spec.not-a-map"


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("resources:\n\tcpus: 4\n", (2, 1)),
        ("resources: {cpus: 4\n", (2, 1)),
        ("a: b: c\n", (1, 5)),
        ("resources:\n  cpus: 4\n infra: aws\n", (3, 2)),
        ("run: 'x\n", (2, 1)),
        ("run: *nowhere\n", (1, 6)),
        ("run: a\x00b\n", (1, 7)),
        ("run: @x\n", (1, 6)),
    ],
)
def test_syntax_errors_have_their_place(text: str, place: tuple[int, int]) -> None:
    (problem,) = refusal(text).problems
    assert (problem.line, problem.column) == place
    assert problem.hint


def test_repeated_keys_name_both_places() -> None:
    error = refusal("run: a\nresources: {cpus: 4, cpus: 8}\nrun: b\n")
    assert [(p.line, p.column, p.code) for p in error.problems] == [
        (2, 22, "spec.repeated-key"),
        (3, 1, "spec.repeated-key"),
    ]
    assert "line 1, column 1" in error.problems[1].message


def test_anchors_and_merge_keys() -> None:
    text = "_base: &b {cpus: 4+, infra: aws}\nresources:\n  <<: *b\n  infra: gcp\n"
    assert [str(r) for r in parse(text).requests] == ["cpus 4+ @gcp"]
    two = "_a: &a {cpus: 4+}\n_b: &b {cpus: 8+, memory: 32+}\nresources: {<<: [*a, *b]}\n"
    assert [str(r) for r in parse(two).requests] == ["cpus 4+ memory 32+"]
    assert refusal("resources: {<<: 5}").problems[0].code == "spec.merge"


def test_expansion_is_capped() -> None:
    lines = ["_0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"_{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 9)]
    assert refusal("\n".join(lines)).problems[0].code == "spec.too-many"
    assert refusal("run: &a [*a]").problems[0].code == "spec.alias"
    assert refusal("[" * 5000).problems[0].code == "spec.too-deep"


def test_large_bodies_are_refused() -> None:
    assert parse("# " + "x" * (MAX_BYTES - 100) + "\nrun: a").run == "a"
    assert refusal("# " + "é" * (MAX_BYTES // 2) + "\nrun: a").problems[0].code == "spec.too-large"


def test_tags_and_keys_that_are_no_words() -> None:
    assert refusal("resources: !!python/object:os.system {cpus: 4}").problems[0].code == "spec.tag"
    assert refusal("name: {{ name }}").problems[0].code == "spec.key"
    assert parse("name: !!str 12").name == "12"


@pytest.mark.parametrize(
    ("text", "closest", "where"),
    [
        ("resource: {cpus: 4}", "resources", "did you mean"),
        ("Resources: {cpus: 4}", "resources", "did you mean"),
        ("resources: {acelerators: A100}", "accelerators", "did you mean"),
        ("accelerators: A100", "accelerators", "under `resources`"),
        ("gpus: A100", "accelerators", "under `resources`"),
        ("use_sopt: true", "use_spot", "under `resources`"),
        ("resources: {num_nodes: 2}", "num_nodes", "at the top level"),
        ("resources: {idle_minutes: 2}", "idle_minutes", "under `resources.autostop`"),
        ("resources: {gpu: A100}", "accelerators", "did you mean"),
        ("nodes: 2", "num_nodes", "did you mean"),
        ("resources: {any_of: [{regoin: x}]}", "region", "did you mean"),
        ("resources: {autostop: {dwon: true}}", "down", "did you mean"),
        ("config: {kuberntes: {}}", "kubernetes", "did you mean"),
        ("budget: {totl: 5, total: 4}", "total", "did you mean"),
    ],
)
def test_unknown_keys_name_the_closest_and_where_it_belongs(
    text: str, closest: str, where: str
) -> None:
    (problem,) = refusal(text).problems
    assert problem.closest == closest
    assert where in problem.hint


def test_rendering_of_one_problem() -> None:
    error = refusal("name: x\nresources:\n  acelerators: A100:8\n")
    assert str(error) == (
        "line 3, column 3: unknown field `acelerators` under `resources`  [spec.unknown-field]\n"
        "  |   acelerators: A100:8\n"
        "  |   ^\n"
        "  next: did you mean `accelerators`?"
    )
    assert isinstance(error, NbprovError)
    assert error.code == "spec.unknown-field"
    assert error._render_traceback_() == error.render()


def test_only_the_first_few_are_shown() -> None:
    error = refusal("\n".join(f"zz{n}zz: 1" for n in range(MOST_SHOWN + 5)))
    assert len(error.problems) == MOST_SHOWN + 5
    assert str(error).splitlines()[0] == f"{MOST_SHOWN + 5} problems in this cell  [spec.invalid]"
    assert str(error).splitlines()[-1] == "+5 more"
    assert len(error.render()) <= 2 + 4 * MOST_SHOWN


def test_long_lines_are_clipped_round_the_caret() -> None:
    error = refusal(
        "run: x  #" + "y" * 300 + "\n" + "resources: {" + "labels: {a: b}, " + " " * 300 + "cpu: 4}"
    )
    (problem,) = error.problems
    assert len(problem.excerpt) <= EXCERPT_WIDTH + 2
    assert problem.excerpt[problem.caret :].startswith("cpu: 4")


def test_lines_are_counted_as_the_reader_counts() -> None:
    with pytest.raises(SpecError) as caught:
        parse("run: x\r\nbudget: -1\r\n", first_line=2)
    assert (caught.value.problems[0].line, caught.value.problems[0].excerpt) == (3, "budget: -1")


@pytest.mark.parametrize(
    "text", ['run: "echo \\ud800"', 'envs: {X: "\\udfff"}', 'setup: "\\ud83d"']
)
def test_half_a_character_is_refused_where_it_stands(text: str) -> None:
    (problem,) = refusal(text).problems
    assert problem.code == "spec.value"
    assert "half of a character" in problem.message
    assert problem.column == text.index('"') + 1


def test_a_character_may_be_written_as_two_halves() -> None:
    assert parse('run: "echo \\ud83d\\udc0d"').run == "echo \U0001f40d"


@pytest.mark.parametrize(
    ("cell", "path"),
    [
        ('workdir: "%s"', "workdir"),
        ('workdir: {url: "https://host/%s.git"}', "workdir.url"),
        ('file_mounts: {/d: "%s"}', "file_mounts./d"),
        ('file_mounts: {/d: {source: "%s", mode: COPY}}', "file_mounts./d"),
        ('file_mounts: {/d: "s3://bucket/%s"}', "file_mounts./d"),
        ('outputs: {/d: "%s"}', "outputs./d"),
        ('outputs: ["%s"]', "outputs[0]"),
        ('python: "%s.txt"', "python"),
        ('python: {lock: "%s"}', "python.lock"),
    ],
)
def test_a_character_that_no_path_can_hold_has_its_line_and_caret(cell: str, path: str) -> None:
    text = "resources: {accelerators: A100}\n" + cell % r"a\0b"
    with pytest.raises(SpecError) as caught:
        parse(text)
    (problem,) = caught.value.problems
    assert (problem.code, problem.path, problem.line) == ("spec.path", path, 2)
    assert problem.column - 1 == cell.index('"')
    assert "which no path can hold" in problem.message


@pytest.mark.parametrize(
    ("cell", "path", "told"),
    [
        ('envs: {X: "%s"}' % ("y" * 200_000), "envs.X", "200,000 bytes; Linux takes at most"),
        ('secrets: {X: "%s"}' % ("y" * 200_000), "secrets.X", "200,000 bytes; Linux takes at most"),
        (r'run: "echo \0"', "run", "NUL, which no command can hold"),
    ],
)
def test_what_no_process_can_be_given_has_its_line_and_caret(
    cell: str, path: str, told: str
) -> None:
    (problem,) = refusal("resources: {accelerators: A100}\n" + cell).problems
    assert (problem.path, problem.line, problem.column) == (path, 2, cell.index('"') + 1)
    assert told in problem.message
    assert "yy" not in problem.message
