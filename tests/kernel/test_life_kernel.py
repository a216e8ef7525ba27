"""Two notebooks on one home see and use the same clusters, and learn what the other one does to
them."""

from __future__ import annotations

import re

from homes import machines
from kernels import CPU, GPU, Kernel, new_kernel


def test_two_notebooks_on_one_cluster(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    with new_kernel(home) as other:
        table = other.run("%clusters").displays[0]
        assert "dev" in table["data"]["text/plain"]
        # Both at once, and each with its own output only.
        code = (
            "%%on dev\nimport time\nfor i in range(20):\n    print('{who}', i)\n"
            "    time.sleep(0.01)"
        )
        here, there = kernel.send(code.format(who="first")), other.send(code.format(who="second"))
        assert kernel.finish(here).text == "".join(f"first {i}\n" for i in range(20))
        assert other.finish(there).text == "".join(f"second {i}\n" for i in range(20))
        # Two tunnels to one port: each notebook has its own local port.
        kernel.run("%nbprov tunnel dev 26006\nimport nbprov")
        other.run("%nbprov tunnel dev 26006\nimport nbprov")
        locals_ = {k.value("nbprov.session().tunnels()[0].local") for k in (kernel, other)}
        assert len(locals_) == 2
        # One notebook renames the cluster, and the other's table and handle follow.
        other.run("theirs = nbprov.cluster('dev')")
        assert (
            "dev is now called train, and the variable train is its handle"
            in kernel.run("%nbprov rename dev train").text
        )
        assert "train" in other.renewed(table, "train")
        assert other.value("[theirs.cell('1 + 1').value, theirs.name]") == ["2", "train"]
        assert (
            "dev was renamed: it is called train now"
            in other.run("%%on dev\n1", ok=False).error_text
        )
        assert kernel.value("train.name") == "train"
        # One notebook stops it while a cell of the other runs.
        running = other.send_waiting("%%on train\nimport time\ntime.sleep(600)")
        other.until(lambda: other.outcome(running).messages, "the cell")
        kernel.run("%nbprov stop train")
        told = other.finish(running).error_text
        # The kernel that noticed it first gave the reason.
        assert re.match(
            r"train was stopped while this ran \((you stopped it|stopped)\); a kernel's "
            r"variables do not survive that",
            told,
        )
        started = kernel.run("%nbprov start train").text
        assert started.splitlines()[0] == "train: running"
        assert "there again: its disk, its host key, its guards, its tunnels" in started
        assert "setup and run are not run again" in started
        assert (
            kernel.run("%nbprov start train").text
            == "train: was already running; nothing was changed\n"
        )
        told = other.run("%%on train\nprint('time' in globals())")
        assert told.text == "False\n"
        assert "this is a new one, its variables are gone" in told.stderr
        # One notebook terminates it.
        kernel.run("%nbprov down train")
        assert "ended" in other.renewed(table, "ended")
        assert "it ended: you ended it" in other.run("theirs.state", ok=False).error_text
        assert machines(home) == 0


def test_a_cluster_that_does_not_fit_is_replaced(home, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}\nsetup: echo old > mark")
    told = kernel.run(f"%%provision dev --replace --yes --wait\n{GPU}").everything
    assert "the handle of dev-next is the variable dev" in told
    assert "replaces dev" in told
    assert "dev is now the new cluster; the old one is being terminated" in told
    assert kernel.value("[dev.name, dev.wait().view().candidate.offer.instance_type]") == [
        "dev",
        "gpu",
    ]
    kernel.until(lambda: machines(home) == 1, "the end of the old one")
    assert kernel.run("%%on dev --bash\nls").text == ""
    assert "nothing was launched" in kernel.run(f"%%provision dev --replace\n{GPU}").text
    # Without a cluster to replace it is a launch like any other.
    kernel.run(f"%%provision other --replace --yes --wait\n{CPU}")
    assert kernel.value("other.name") == "other"


def test_variables_that_travel_to_a_new_kernel_say_that_it_is_one(kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    kernel.run("a = 1\n")
    kernel.run("%%on dev -i a\nb = a")
    kernel.run("%nbprov stop dev")
    kernel.run("%nbprov start dev")
    told = kernel.run("%%on dev -i a\nprint(a, 'b' in globals())").text
    assert told.splitlines()[-1] == "1 False"
    assert (
        "nbprov: the kernel had ended (the machine was stopped and started since); this is a "
        "new one, its variables are gone" in told
    )
