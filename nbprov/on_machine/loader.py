"""Load modules of this folder into a Python on a machine, which has none of them in a file.

A program is one text that defines its modules and runs the last one's `main`. It travels over the
ssh channel, so that it stands in no file and on no command line there.
"""

from __future__ import annotations

import functools
import os
import shlex

_READ = """
import os, sys
size = int(sys.argv[1])
data = b""
while len(data) < size:
    piece = os.read(0, size - len(data))
    if not piece:
        sys.exit(1)
    data += piece
exec(compile(data, "nbprov", "exec"))
""".strip()
_LOAD = """
import sys
for name, text in {sources!r}:
    module = type(sys)("nbprov_there." + name)
    module.__package__ = "nbprov_there"
    sys.modules[module.__name__] = module
    exec(compile(text, name + ".py", "exec"), module.__dict__)
"""


@functools.lru_cache(maxsize=None)
def source(name: str) -> str:
    """Return the text of one module of this folder.

    Examples
    --------
    >>> "def source" in source("loader")
    True
    """
    with open(os.path.join(os.path.dirname(__file__), name + ".py"), encoding="utf-8") as file:
        return file.read()


@functools.lru_cache(maxsize=None)
def loading(modules: tuple[str, ...]) -> str:
    """Return a text that loads modules in the order of their imports.

    The last one is bound to the name `module` for whatever text follows.
    """
    return _LOAD.format(sources=[(name, source(name)) for name in modules])


@functools.lru_cache(maxsize=None)
def program(modules: tuple[str, ...]) -> bytes:
    """Return a whole program, which runs the `main` of the last module."""
    return (loading(modules) + "module.main()\n").encode()


def reading_command(python: str, size: int) -> str:
    """Return a shell command that reads a program of `size` bytes from its stdin and runs it.

    Whatever follows on stdin is left for the program to read.
    """
    return f"exec {shlex.quote(python)} -I -S -c {shlex.quote(_READ)} {size}"
