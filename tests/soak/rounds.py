"""What a person does on a cluster in one round of a soak, and what must come of it whatever is cut
meanwhile.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kernels import Kernel, Outcome

LINES = 400
"""Lines a cell prints: some seconds of output, so that most cells meet a cut."""

TRIES = 20
"""A request through a tunnel, or a sync, may be cut; so many in a row may not."""

LONG_CELL = """%%on dev
import time as _t
for _i in range({lines}):
    print('{mark}', _i, flush=True)
    _t.sleep(0.005)
"""

SCRIPT = """%%on dev --bash
for i in $(seq 0 {last}); do echo {mark} $i; sleep 0.01; done
"""

ASK = """
import http.client as _h
_why = ''
for _n in range({tries}):
    try:
        _c = _h.HTTPConnection('127.0.0.1', _board.local, timeout=70)
        _c.request('GET', '/')
        _answer = _c.getresponse().read().decode()
        _c.close()
        break
    except (OSError, _h.HTTPException) as _error:
        _answer, _why = '', repr(_error)
print(_answer or 'nothing: ' + _why)
"""

SYNC = """
import nbprov, pathlib
pathlib.Path('soaked').mkdir(exist_ok=True)
pathlib.Path('soaked/a').write_text('{mark}' * 100_000)
for _n in range({tries}):
    try:
        nbprov.cluster('dev').push('soaked')
        print('in step')
        break
    except nbprov.NbprovError as _error:
        _why = str(_error)
else:
    print('not in step:', _why)
"""


@dataclass
class Tally:
    """What the rounds did and what went wrong in them."""

    rounds: int = 0
    done: dict[str, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)

    def check(self, what: str, outcome: Outcome, expected: str) -> None:
        """Count one piece of work; a fault where its text is not what was expected."""
        self.done[what] = self.done.get(what, 0) + 1
        if outcome.error is not None:
            self.faults.append(f"round {self.rounds}, {what}: {outcome.error_text}")
        elif (text := _without_notes(outcome.text)) != expected:
            self.faults.append(
                f"round {self.rounds}, {what}: {_difference(text, expected)}; stderr:"
                f" {outcome.stderr[-300:]!r}"
            )


def _without_notes(text: str) -> str:
    """Without what nbprov itself says: that the line is down, and back."""
    return "".join(
        line for line in text.splitlines(keepends=True) if not line.startswith("nbprov: ")
    )


def _difference(text: str, expected: str) -> str:
    got, wanted = text.splitlines(), expected.splitlines()
    at = next(
        (i for i, (a, b) in enumerate(zip(got, wanted, strict=False)) if a != b),
        min(len(got), len(wanted)),
    )
    return (
        f"{len(got)} lines instead of {len(wanted)}; from line {at} on: {got[at : at + 3]}"
        f" instead of {wanted[at : at + 3]}"
    )


def prepare(kernel: Kernel) -> None:
    """A variable there, and a server that the tunnel leads to."""
    kernel.run("%%on dev --bash\nmkdir -p www && echo served > www/index.html")
    kernel.run("%%on dev\nimport functools, http.server, threading\n" + _SERVE)
    port = kernel.run("%%on dev\nprint(_server.server_address[1])").text.strip()
    kernel.run(f"import nbprov\n_board = nbprov.cluster('dev').tunnel({port})")


_SERVE = """
class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *a): pass
_server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), functools.partial(_Quiet, directory='www'))
threading.Thread(target=_server.serve_forever, daemon=True).start()
"""


def one_round(
    kernel: Kernel, tally: Tally, *, lines: int = LINES, new_cluster: bool = False
) -> None:
    """Cells, scripts, variables, a tunnel, a sync; now and then a whole cluster that comes and
    goes.
    """
    tally.rounds += 1
    mark = f"r{tally.rounds}"
    long = kernel.finish(kernel.send(LONG_CELL.format(lines=lines, mark=mark)))
    tally.check("cells", long, "".join(f"{mark} {i}\n" for i in range(lines)))
    script = kernel.finish(kernel.send(SCRIPT.format(last=lines // 4, mark=mark)))
    tally.check("scripts", script, "".join(f"{mark} {i}\n" for i in range(lines // 4 + 1)))
    travelled = kernel.finish(
        kernel.send(f"x = list(range({tally.rounds}, {tally.rounds} + 20000))\n")
    )
    travelled = kernel.finish(kernel.send("%%on dev -i x -o y\ny = x[::-1]"))
    tally.check("variables", travelled, "")
    tally.check("variables back", kernel.finish(kernel.send("print(y == x[::-1])")), "True\n")
    tally.check(
        "requests through the tunnel",
        kernel.finish(kernel.send(ASK.format(tries=TRIES))),
        "served\n\n",
    )
    tally.check(
        "syncs", kernel.finish(kernel.send(SYNC.format(tries=TRIES, mark=mark))), "in step\n"
    )
    if new_cluster:
        up = kernel.finish(
            kernel.send("%%provision passing --yes --wait\nresources: {cpus: 2, infra: local}")
        )
        down = kernel.finish(kernel.send("%nbprov down passing"))
        for outcome in (up, down):
            if outcome.error is not None:
                tally.faults.append(f"round {tally.rounds}, a cluster: {outcome.error_text}")
        tally.done["clusters up and down"] = tally.done.get("clusters up and down", 0) + 1
    kernel.messages.clear()
