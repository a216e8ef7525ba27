"""Tunnels in a kernel: a page of the machine in a cell, also after a broken connection, until
the kernel ends."""

from __future__ import annotations

import socket
from pathlib import Path

from kernels import CPU, Kernel

SERVE = """%%on dev --bash
mkdir -p site && cd site && echo "hello from the machine" > index.html
nohup setsid python3 -u -m http.server --bind 127.0.0.1 0 > ../server.log 2>&1 &
until grep -q "port" ../server.log; do sleep 0.05; done
sed 's/.*port \\([0-9]*\\).*/\\1/' ../server.log
"""

READ = "import urllib.request\nprint(urllib.request.urlopen(url).read().decode(), end='')"

CUT = """
import nbprov
def _cut():
    for live in nbprov.session().engine.live.values():
        for node in live.nodes:
            node.agent.connection.abort()
nbprov.session().engine.thread.soon(_cut)
"""


def _listens(port: int) -> bool:
    with socket.socket() as trial:
        return trial.connect_ex(("127.0.0.1", port)) == 0


def test_a_page_of_the_machine_in_a_cell(home: Path, kernel: Kernel) -> None:
    kernel.run(f"%%provision dev --yes --wait\n{CPU}")
    port = int(kernel.run(SERVE).text)
    shown = kernel.run(f"%nbprov tunnel dev {port}").displays
    assert f"is port {port} of dev" in shown[0]["data"]["text/plain"]
    assert '<a href="http://127.0.0.1:' in shown[0]["data"]["text/html"]
    local = (
        kernel.value("nbprov.session().tunnels()[0].local") if kernel.run("import nbprov") else 0
    )
    kernel.run("url = nbprov.session().tunnels()[0].url")
    assert kernel.run(READ).text == "hello from the machine\n"
    kernel.run(CUT)
    assert kernel.run(READ).text == "hello from the machine\n"
    assert _listens(local)
    kernel.restart()
    assert not _listens(local)
    kernel.run("%load_ext nbprov")
    assert "no tunnel is open" in kernel.run("%nbprov tunnel").text
