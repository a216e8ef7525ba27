"""Python programs of ours that run on a machine: modules of this folder, sent as one text over a channel. They are in no file and on no command line."""

from __future__ import annotations

import shlex
from functools import cache
from importlib.resources import files

_READ = "import os,sys\nn=int(sys.argv[1]);d=b''\nwhile len(d)<n:\n c=os.read(0,n-len(d))\n if not c:sys.exit(1)\n d+=c\nexec(compile(d,'nbprov','exec'))"
_LOAD = """
import sys
for name, text in {sources!r}:
    module = type(sys)("nbprov_there." + name)
    module.__package__ = "nbprov_there"
    sys.modules[module.__name__] = module
    exec(compile(text, name + ".py", "exec"), module.__dict__)
"""


@cache
def loading(modules: tuple[str, ...]) -> str:
    """The text of a program that loads modules of this folder, in the order of their imports; the last one is `module` in what follows it."""
    folder = files("nbprov.remote")
    sources = [
        (name, folder.joinpath(f"{name}.py").read_text(encoding="utf-8")) for name in modules
    ]
    return _LOAD.format(sources=sources)


@cache
def program(modules: tuple[str, ...]) -> bytes:
    """A whole program: it runs the last module's `main`."""
    return f"{loading(modules)}module.main()\n".encode()


def reading_command(python: str, size: int) -> str:
    """A command that reads a program of so many bytes from its standard input and runs it; what follows there is the program's to read."""
    return f"exec {shlex.quote(python)} -I -S -c {shlex.quote(_READ)} {size}"
