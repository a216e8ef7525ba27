"""A `python3` for a machine that, in place of the sync's program, says what a test wants."""

from __future__ import annotations

import sys
from pathlib import Path

HOSTILE = """#!{python} -S
import json, os, struct, sys, time
def say(**m):
    d = json.dumps(m).encode(); os.write(1, struct.pack(">cI", b"J", len(d)) + d)
def data(b):
    b = struct.pack(">cI", b"D", len(b)) + b
    while b: b = b[os.write(1, b):]
left = int(sys.argv[-1])
while left: left -= len(os.read(0, left))
os.write(1, b"\\0nbprov-sync 1\\0")
def ask():
    while True:
        head = b""
        while len(head) < 5: head += os.read(0, 5 - len(head)) or sys.exit(0)
        kind, n = struct.unpack(">cI", head)
        body = b""
        while len(body) < n: body += os.read(0, n - len(body))
        return json.loads(body)
def row(name, kind="f", size=3, link=""): return [name, kind, size, 0, 0, 0o4777, link]
def listed(rows, **more):
    told = dict(listed=len(rows), skipped=[], more_skipped=0)
    told.update(ignored=[], ignored_count=0, is_whole=True)
    say(rows=rows); say(**dict(told, **more))
ask(); say(path="/x", exists=True, home=False, free=10**15, rsync=False)
ask()
try:
{body}
except BrokenPipeError:
    pass
"""
"""Takes the program, answers the opening and one question more, and goes on with the body.

`say` sends a message, `data` bytes of a file, `listed` a listing; `ask` waits for a question.
"""


def hostile_python(path: Path, body: str) -> Path:
    """Write it to a file, and return the file."""
    indented = "\n".join(" " + line for line in body.replace("\n ", "\n").split("\n"))
    path.write_text(HOSTILE.format(python=sys.executable, body=indented))
    path.chmod(0o755)
    return path
