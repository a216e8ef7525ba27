"""Outputs in the magics: shown as they arrive, fetched before `down`, also by another kernel."""

from __future__ import annotations

from pathlib import Path

from kernels import CPU, Kernel, new_kernel


def test_outputs_are_pulled_now_and_before_down(kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}\noutputs: [results, '*.ckpt']")
    kernel.run("%%on dev --bash\nmkdir results; echo 1 >results/a.txt; echo 2 >x.ckpt")
    told = kernel.run("%nbprov outputs dev").text
    assert told.splitlines()[-1] == "dev: outputs fetched, 2 files, 4 B"
    assert "dev: ~/results to " in told
    kernel.run("%%on dev --bash\necho more >results/b.txt")
    ended = kernel.run("%nbprov down dev").text
    assert "1 file, 5 B, 1 here already" in ended
    assert "dev: ended, confirmed by the cloud's list" in ended
    names = "('results/a.txt', 'results/b.txt', 'x.ckpt')"
    assert kernel.value(f"sorted(open('dev-outputs/' + p).read() for p in {names})") == [
        "1\n",
        "2\n",
        "more\n",
    ]


def test_a_down_that_fails_names_both_ways_on_and_a_second_kernel_ends_it(home: Path) -> None:
    with new_kernel(home) as first:
        first.run(f"%%provision dev --yes --wait\n{CPU}\noutputs: [results]")
        first.run("%%on dev --bash\nmkdir results; echo 1 >results/a.txt; touch $'results/b\\x01'")
        told = first.run("%nbprov down dev", ok=False).error_text
        assert told.startswith(
            "dev is kept, under its guards: not all of its outputs could be pulled"
        )
        assert "%nbprov down dev --no-outputs" in told
        assert len(told.splitlines()) == 2
        first.run("%%on dev --bash\nrm results/b*; echo 2 >results/c.txt")
        with new_kernel(home) as second:
            assert "dev: ended" in second.run("%nbprov down dev").text
        assert first.value("sorted(__import__('os').listdir('dev-outputs/results'))") == [
            "a.txt",
            "c.txt",
        ]
