"""What runs on each machine of a cluster to put its files in place. Sent there as text: standard library only, Python 3.8 or later.

It reads one JSON object: `files` (below `~/.nbprov`, by name), `login` (a line that lets the cluster's other machines log in; empty for
none) and `mark` (how such lines end), and prints the absolute path of `~/.nbprov`.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile

FOLDER = "@@folder@@"
"""In a file's text: the absolute path of `~/.nbprov`, as an ssh config takes it."""


def put(path: str, text: str) -> None:
    """Replace a file in one step; nobody else can read it at any moment."""
    descriptor, draft = tempfile.mkstemp(dir=os.path.dirname(path))
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    os.replace(draft, path)


def text_of(path: str) -> str:
    """What a file says; nothing where there is none."""
    try:
        with open(path) as file:
            return file.read()
    except FileNotFoundError:
        return ""


def let_in(login: str, mark: str) -> None:
    """Let the holder of the cluster's inner key log in, from where the line says, and take earlier lines of ours out."""
    path = os.environ.get("NBPROV_AUTHORIZED_KEYS") or os.path.expanduser("~/.ssh/authorized_keys")
    before = text_of(path).splitlines()
    kept = [line for line in before if not line.endswith(" " + mark)]
    if [*kept, login] != before:
        # Written in place: the file may be a mount, or labelled.
        with open(path, "w") as file:
            file.write("".join(line + "\n" for line in [*kept, login]))


def include(config: str) -> None:
    """Make the machine's own ssh heed a config of ours, before all that is written in its user's."""
    path, line = os.path.expanduser("~/.ssh/config"), f'Include "{config}"\n'
    before = text_of(path)
    if line not in before:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        put(path, line + before)


def main() -> None:
    """Put everything in place."""
    told = json.load(sys.stdin)
    os.umask(0o077)
    folder = os.path.expanduser("~/.nbprov")
    for name, text in told["files"].items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        put(path, text.replace(FOLDER, folder.replace("%", "%%")))
    if told["login"]:
        let_in(told["login"], told["mark"])
        include(os.path.join(folder, told["config"]))
    print(folder)


if __name__ == "__main__":
    main()
