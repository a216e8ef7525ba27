"""The generator of a package for a new cloud: `python -m nbprov.clouds.scaffold NAME [--into DIR]`.

docs/adding-a-cloud.md then fills the package in, step by step. It can be installed and tested at
once. Its tests fail until the last part is filled in; each names the part, what it has to do, and
the step that explains it.
"""

from __future__ import annotations

import argparse
import csv
import keyword
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

from nbprov.model.errors import NbprovError

from .pricing import fetcher
from .registry import ENTRY_POINT_GROUP

TEMPLATES = "scaffold_templates"
FILES: dict[str, str] = {
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "@@name@@/__init__.py": "package/__init__.py.txt",
    "@@name@@/api.py": "package/api.py.txt",
    "@@name@@/errors.py": "package/errors.py.txt",
    "@@name@@/images.py": "package/images.py.txt",
    "@@name@@/prices.py": "package/prices.py.txt",
    "@@name@@/provisioner.py": "package/provisioner.py.txt",
    "@@name@@/py.typed": "package/py.typed.txt",
    "@@name@@/stock.py": "package/stock.py.txt",
    "@@name@@/vms.csv": "package/vms.csv.txt",
    "tests/conftest.py": "tests/conftest.py.txt",
    "tests/double.py": "tests/double.py.txt",
    "tests/corpus.jsonl": "tests/corpus.jsonl.txt",
    "tests/test_causes.py": "tests/test_causes.py.txt",
    "tests/test_contract.py": "tests/test_contract.py.txt",
    "tests/test_filled_in.py": "tests/test_filled_in.py.txt",
    "tests/under_test.py": "tests/under_test.py.txt",
}
"""The files that are written, with their templates."""

OWN_PRICES, OWN_FETCHER = "@@name@@/vms.csv", "@@name@@/prices.py"
"""Files that are left out if nbprov has prices of the cloud, or reads its list itself."""

_NAME = re.compile(r"[a-z][a-z0-9_]{1,30}")
_BLOCK = re.compile(r"^ *# @@(own-prices|own-fetcher|known-prices)\n(.*?)^ *# @@end\n", re.M | re.S)
SNAPSHOTS = ("nbprov/_catalogs", "catalogs")
"""Where the shipped prices are: in a wheel, and in a checkout."""


class ScaffoldError(NbprovError):
    """A new cloud cannot be created under this name, or in this place."""

    code = "scaffold"


def scaffold(name: str, into: Path) -> Path:
    """Write the package of a new cloud.

    Parameters
    ----------
    name
        The name in a spec (`cloud: NAME`) and of the Python package: 2 to 31 lower-case letters,
        digits and underscores, a letter first.
    into
        The folder in which a folder `name` is created; it is created itself if missing.

    Returns
    -------
    Path
        The new folder. It is created completely or not at all.

    Raises
    ------
    ScaffoldError
        If the name is invalid (`scaffold.name`) or taken (`scaffold.taken`), or if the folder
        exists (`scaffold.exists`); nothing is ever overwritten.

    Examples
    --------
    >>> scaffold("acme", Path(tempfile.mkdtemp())).name
    'acme'
    """
    _check_form(name)
    target = into / name
    if target.exists():
        hint = "move it away, or choose --into"
        raise ScaffoldError(
            f"{target} is there already, and nothing is overwritten",
            hint=hint,
            code="scaffold.exists",
        )
    _check_free(name)
    into.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=into))
    try:
        for path, text in _contents(name).items():
            file = draft / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8", newline="\n")
        draft.chmod(0o755)
        draft.rename(target)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    return target


def _contents(name: str) -> dict[str, str]:
    """Return the text of each file of the package."""
    prices, is_fetched = known_prices(name), name in fetcher.known()
    kept = {"own-prices": not prices, "own-fetcher": not is_fetched, "known-prices": bool(prices)}
    left_out = {OWN_PRICES: bool(prices), OWN_FETCHER: is_fetched}
    templates, made = files("nbprov.clouds") / TEMPLATES, {}
    for path, template in FILES.items():
        if left_out.get(path):
            continue
        text = templates.joinpath(*template.split("/")).read_text(encoding="utf-8")
        text = _BLOCK.sub(lambda found: found[2] if kept[found[1]] else "", text)
        made[_filled(path, name)] = _filled(text, name).replace("@@known@@", prices)
    return made


def known_prices(name: str) -> str:
    """Say which types and regions of a cloud have prices in nbprov; empty if none has."""
    root = Path(str(files("nbprov"))).parent
    for folder in (root / place / name for place in SNAPSHOTS):
        try:
            kinds, regions = (
                _column(folder / "types.csv", "type"),
                _column(folder / "prices.csv", "region"),
            )
        except OSError:
            continue
        return (
            f"{len(kinds)} types such as `{kinds[0]}`, in {len(regions)} regions such as"
            f" `{regions[0]}`"
        )
    return ""


def _column(file: Path, name: str) -> list[str]:
    with file.open(encoding="utf-8", newline="") as lines:
        return sorted({row[name] for row in csv.DictReader(lines) if row[name]})


def _filled(text: str, name: str) -> str:
    title = "".join(part.capitalize() for part in name.split("_"))
    return (
        text.replace("@@name@@", name).replace("@@Name@@", title).replace("@@NAME@@", name.upper())
    )


def _check_form(name: str) -> None:
    if not _NAME.fullmatch(name):
        hint = (
            "2 to 31 lower-case letters, digits and underscores, a letter first: acme, fluffy_cloud"
        )
        raise ScaffoldError(
            f"{name!r} cannot be the name of a cloud", hint=hint, code="scaffold.name"
        )
    if keyword.iskeyword(name) or keyword.issoftkeyword(name):
        raise ScaffoldError(
            f"{name!r} is a word of Python", hint=f"call it {name}_cloud", code="scaffold.name"
        )


def _check_free(name: str) -> None:
    if name in sys.stdlib_module_names or find_spec(name) is not None:
        raise ScaffoldError(
            f"a Python package is called {name!r} already",
            hint=f"call it {name}_cloud",
            code="scaffold.taken",
        )
    if name in {point.name for point in entry_points(group=ENTRY_POINT_GROUP)}:
        raise ScaffoldError(
            f"nbprov knows a cloud called {name!r} already",
            hint="choose another name",
            code="scaffold.taken",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command. Returns 0 if the folder was written, 2 if not."""
    parser = argparse.ArgumentParser(
        prog="python -m nbprov.clouds.scaffold",
        description="Begin the package of a new cloud for nbprov.",
    )
    parser.add_argument("name", help="as it will stand in a spec: cloud: NAME")
    parser.add_argument(
        "--into",
        type=Path,
        default=Path(),
        metavar="DIR",
        help="where the folder NAME is made (default: here)",
    )
    told = parser.parse_args(arguments)
    try:
        target = scaffold(told.name, told.into)
    except NbprovError as error:
        print(error, file=sys.stderr)
        return 2
    except OSError as error:
        print(f"nothing was written: {error}", file=sys.stderr)
        return 2
    print(f"wrote {target}: {sum(path.is_file() for path in target.rglob('*'))} files")
    if prices := known_prices(told.name):
        print(f"  nbprov has prices of {told.name}: {prices}")
    print(
        f"  next: read {target / 'README.md'}; docs/adding-a-cloud.md goes through it step by step"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
