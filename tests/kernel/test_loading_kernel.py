"""What `%load_ext nbprov` registers and leaves alone, and the help of the magics."""

from __future__ import annotations

import pytest
from kernels import Kernel, new_kernel

HEAVY = (
    "boto3",
    "botocore",
    "runpod",
    "google",
    "pandas",
    "numpy",
    "ipywidgets",
    "anywidget",
    "asyncssh",
    "yaml",
    "cryptography",
)


@pytest.mark.versions
def test_load_imports_nothing_heavy_and_starts_no_engine(home) -> None:
    # In a notebook that somebody watches the panels are imported, too, a second later.
    with new_kernel(home, load=False, NBPROV_NONINTERACTIVE="1") as kernel:
        kernel.run(
            "import sys, threading; _before, _threads = set(sys.modules), threading.active_count()"
        )
        kernel.run("%load_ext nbprov")
        kernel.run("_new = {name.partition('.')[0] for name in set(sys.modules) - _before}")
        assert kernel.value(f"sorted(_new & set({HEAVY!r}))") == []
        ours = (
            "nbprov.api",
            "nbprov.provisioning.engine",
            "nbprov.clouds",
            "nbprov.spec",
            "nbprov.model.resources",
            "nbprov.model.spec",
        )
        assert kernel.value(f"[n for n in sys.modules if n.startswith({ours!r})]") == []
        assert kernel.value("[t.name for t in threading.enumerate() if 'nbprov' in t.name]") == []
        assert not (home / "ledger.sqlite3").exists()


def test_load_with_nothing_live_shows_nothing(home) -> None:
    with new_kernel(home, load=False) as kernel:
        outcome = kernel.run("%load_ext nbprov")
        assert (outcome.displays, outcome.text, outcome.stderr) == ([], "", "")


def test_a_home_that_cannot_be_written_is_one_readable_line(home) -> None:
    (home / "file").touch()
    with new_kernel(home, load=False, NBPROV_HOME=str(home / "file" / "nbprov")) as kernel:
        loaded = kernel.run("%load_ext nbprov")
        assert loaded.error is None
        said: list[str] = []
        for cell in ("%prices H100", "%nbprov down --all", "%%provision dev\nresources: {cpus: 2}"):
            outcome = kernel.finish(kernel.send(cell))
            said.append(outcome.everything)
            assert "Traceback" not in outcome.everything
        assert "cannot be written" in said[-1]
        assert "ls -ld" in said[-1], "it says where to look"


def test_help_of_every_magic_is_printed_and_nothing_is_done(shared: Kernel, shared_home) -> None:
    for magic, body in (
        ("%%provision", "\nresources: {infra: local}"),
        ("%%on", "\n1"),
        ("%prices", ""),
        ("%clusters", ""),
        ("%nbprov", ""),
    ):
        outcome = shared.run(f"{magic} --help{body}")
        assert "--help" in outcome.text
        assert magic in outcome.text
        assert outcome.displays == []
    threads = shared.value(
        "[t.name for t in __import__('threading').enumerate() if 'nbprov' in t.name]"
    )
    assert set(threads) <= {"nbprov-panels"}, "an engine was started"


def test_help_of_every_subcommand(shared: Kernel) -> None:
    names = shared.value(
        "list(__import__('nbprov.notebook.commands.registry', fromlist=['x']).COMMANDS)"
    )
    assert {
        "check",
        "plan",
        "attempts",
        "blocks",
        "costs",
        "sweep",
        "logs",
        "jobs",
        "stop",
        "start",
        "down",
        "autostop",
        "catalog",
        "config",
    } <= set(names)
    told = shared.run("\n".join(f"%nbprov {name} --help" for name in names)).text
    for name in names:
        assert f"usage: %nbprov {name}" in told


def test_a_wrong_subcommand_names_the_closest_one(shared: Kernel) -> None:
    assert "did you mean %nbprov attempts?" in shared.run("%nbprov atempts", ok=False).error_text
    assert "commands: check, plan" in shared.run("%nbprov xyzzy", ok=False).error_text


def test_unload_takes_everything_away_and_load_brings_it_back(home) -> None:
    with new_kernel(home) as kernel:
        kernel.run("%nbprov costs\n%unload_ext nbprov")
        assert "`%prices` not found" in kernel.run("%prices A100").stderr
        assert (
            kernel.value(
                "[c for c in map(lambda c: type(c).__name__, get_ipython().configurables) if "
                "c == 'Nbprov']"
            )
            == []
        )
        assert (
            kernel.value(
                "[t.name for t in __import__('threading').enumerate() if t.name == 'nbprov-engine']"
            )
            == []
        )
        kernel.run("%load_ext nbprov\n%load_ext nbprov\n%reload_ext nbprov")
        assert (
            kernel.value("[type(c).__name__ for c in get_ipython().configurables].count('Nbprov')")
            == 1
        )
        assert (
            kernel.value(
                "len([m for m in get_ipython().Completer.custom_matchers if 'nbprov' in "
                "m.__module__])"
            )
            == 1
        )
        assert "nothing has been launched yet" in kernel.run("%nbprov costs").text


def test_autoreload_of_the_package_leaves_the_magics_working(home) -> None:
    with new_kernel(home) as kernel:
        kernel.run("%load_ext autoreload\n%autoreload 2")
        kernel.run("import importlib, nbprov.notebook.extension, nbprov.notebook.completion.magics")
        kernel.run(
            "importlib.reload(nbprov.notebook.completion.magics); "
            "importlib.reload(nbprov.notebook.extension)"
        )
        kernel.run("%reload_ext nbprov")
        assert "nothing has been launched yet" in kernel.run("%nbprov costs").text
        assert (
            kernel.value(
                "len([m for m in get_ipython().Completer.custom_matchers if 'nbprov' in "
                "m.__module__])"
            )
            == 1
        )


def test_options(home) -> None:
    with new_kernel(home) as kernel:
        assert "Nbprov.demo=<Bool>" in kernel.run("%config Nbprov").text
        assert (
            "no candidates"
            in kernel.run("%%provision a --dry-run\nresources: {accelerators: A100}").everything
        )
        kernel.run("%config Nbprov.demo = True")
        shown = kernel.run("%%provision a --dry-run\nresources: {accelerators: A100}").everything
        assert "local/north-a" in shown
        kernel.run("%config Nbprov.hedge = 2.5")
        assert kernel.run("%nbprov config").text.split("hedge")[1].split()[0] == "2.5"
        kernel.run("%config Nbprov.hedge = -1")
        assert kernel.run("%config Nbprov.hedge").values == ["2.5"]


def test_nest_asyncio_without_the_package_is_refused_and_stays_off(home) -> None:
    with new_kernel(home) as kernel:
        kernel.run("import sys; sys.modules['nest_asyncio'] = None")
        told = kernel.run("%config Nbprov.nest_asyncio = True").everything
        assert "nest_asyncio is not installed" in told
        assert "pip install 'nbprov[nest]'" in told
        assert kernel.run("%config Nbprov.nest_asyncio").values == ["False"]


def test_prices_are_a_table_and_a_frame(shared: Kernel) -> None:
    assert shared.run("x = %prices A100").displays == []
    assert shared.value("[type(x).__module__.split('.')[0], type(x).__name__]") == [
        "pandas",
        "DataFrame",
    ]
    assert shared.value("len(x) > 20 and bool(x.hourly.is_monotonic_increasing)")
    assert shared.value("list(x.columns)[:3]") == ["cloud", "region", "zone"]
    assert shared.run(
        "def ask():\n    found = %prices A100\n    return found\ntype(ask()).__name__"
    ).values == ["'DataFrame'"]
    shared.run("%prices A100")
    assert shared.value("len(_) == len(_.to_frame()) and _[0].hourly <= _[1].hourly")
    table, live = (
        shown["data"] for shown in shared.run("%prices a100:8 --spot --cloud gcp").displays
    )
    assert "gcp/" in table["text/plain"]
    assert "on-demand" not in table["text/plain"]
    assert set(table) == {"text/plain", "text/html"}
    assert "application/vnd.jupyter.widget-view+json" in live
    assert (
        shared.run("%prices A100 --max-price 0.01").everything.strip()
        == "prices of A100: no offers"
    )


def test_the_ipykernel_that_loses_background_updates_is_refused(home) -> None:
    with new_kernel(home, load=False) as kernel:
        kernel.run("import ipykernel; ipykernel.version_info = (7, 0, 1)")
        told = kernel.run("%load_ext nbprov", ok=False).error_text.splitlines()
        assert told[0].startswith("ipykernel 7.0 loses the output of background threads")
        assert "pip install 'ipykernel>=7.1'" in told[1]
        assert "`%prices` not found" in kernel.run("%prices A100").stderr
