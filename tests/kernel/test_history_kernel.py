"""`%nbprov history` and `%nbprov dashboard`."""

from __future__ import annotations

import re

from homes import market
from kernels import CPU, GPU, Kernel, new_kernel


def test_history_tells_of_every_launch_and_why_it_ended(home, kernel: Kernel) -> None:
    assert kernel.run("%nbprov history").text == "nothing has been launched yet\n"
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    market(home, '[[stock]]\ntype = "gpu"\nleft = 0\n')
    kernel.run(f"%%provision big --yes --wait\n{GPU}", ok=False)
    kernel.run("%nbprov down dev")
    kernel.run(f"%%provision again --yes --wait\n{CPU}")
    (shown,) = kernel.run("%nbprov history").displays
    text = shown["data"]["text/plain"]
    rows = {line.split()[0]: line for line in text.splitlines()[3:6]}
    assert list(rows) == ["again", "big", "dev"], "newest first"
    assert "● running" in rows["again"]
    assert "✕ failed" in rows["big"]
    assert "out of stock" in next(line for line in text.splitlines() if line.startswith("big, "))
    assert "■ ended" in rows["dev"]
    assert next(line for line in text.splitlines() if line.startswith("dev, ")).endswith(
        ": you ended it"
    )
    assert "you paid $0.00 for them" in text
    assert "<table" in shown["data"]["text/html"]
    kernel.run("x = %nbprov history")
    assert kernel.value(
        "[type(x).__name__, len(x), list(x['name']), str(x['started'].dtype)[:10]]"
    ) == [
        "DataFrame",
        3,
        ["again", "big", "dev"],
        "datetime64",
    ]
    assert kernel.value(
        "[bool(x['refused'][1] > 0), bool(x['cost'][2] > 0), x['reason'][2], "
        "bool(x['ended'].isna()[0])]"
    ) == [
        True,
        True,
        "you ended it",
        True,
    ]
    assert kernel.value("[r.name for r in __import__('nbprov').history('dev')]") == ["dev"]


def test_the_dashboard_follows_what_another_notebook_does(home, kernel: Kernel) -> None:
    shown = kernel.run("%nbprov dashboard").displays
    assert shown[0]["data"]["text/plain"].startswith("nbprov: no cluster is live\ntoday $0.00")
    kernel.run("%nbprov dashboard")
    panel, second = kernel.panels()
    with new_kernel(home) as other:
        market(home, '[[stock]]\nregion = "north"\ntype = "gpu"\nleft = 0\n')
        other.run(f"%%provision dev --yes --wait\n{CPU}")
        other.run(f"%%provision big --yes --wait\n{GPU}", ok=False)
        for one in (panel, second):
            kernel.until(
                lambda one=one: [c["name"] for c in kernel.state(one)["clusters"]] == ["dev"],
                "the other's cluster",
            )
        kernel.until(lambda: len(kernel.state(panel)["figures"]) == 7, "what it costs")
        state = kernel.state(panel)
        assert [f["label"] for f in state["figures"]] == [
            "today",
            "today, simulated",
            "this month",
            "this month, simulated",
            "this month, if what runs goes on, simulated",
            "in total",
            "in total, simulated",
        ]
        assert state["figures"][0]["cost"] == 0
        assert state["figures"][1]["hourly"] > 0
        assert state["figures"][4]["cost"] > state["figures"][3]["cost"]
        assert [one["cloud"] for one in state["days"]["clouds"]] == ["local"]
        blocked = kernel.until(
            lambda: [s for s in kernel.state(panel)["sections"] if s["title"] == "blocked"],
            "what is blocked",
        )
        assert "out of stock" in blocked[0]["lines"][0]
        kernel.press(panel, type="down", name="dev")
        for one in (panel, second):
            kernel.until(
                lambda one=one: kernel.state(one)["heading"] == "nbprov: no cluster is live",
                "the end",
            )
        (ended,) = (
            s["lines"] for s in kernel.state(panel)["sections"] if s["title"] == "ended today"
        )
        assert re.match(r"dev ended less than a minute ago, after .*: you ended it$", ended[0])
        assert ended[1].startswith("big failed less than a minute ago, after ")
