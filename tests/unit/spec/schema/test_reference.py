"""docs/spec.md says what the table of fields says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from nbprov.spec import Section, fields, parse

ROOT = Path(__file__).resolve().parents[4]


def test_the_page_is_made_from_the_table() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "spec_reference.py"), "--check"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "name",
    [
        "README.md",
        "docs/spec.md",
        "docs/getting-a-machine.md",
        "docs/files-and-outputs.md",
        "docs/jobs-and-engines.md",
    ],
)
def test_what_the_pages_show_can_be_pasted(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    blocks = re.findall(
        r"(?:^%%provision[^\n]*\n|^```yaml\n)(?!%)(.*?)^```", text, re.DOTALL | re.MULTILINE
    )
    assert blocks
    for block in blocks:
        assert parse(block.split("\n#", 1)[0], variables={"lr": 3e-4}).requests


def _shown() -> list[str]:
    """Each example of the page, set where its field belongs."""
    cells = []
    for where in [w for w in Section if w not in (Section.ITEM, Section.NBPROV)]:
        for field in fields(where):
            for value in field.example:
                body = f"{{{field.name}: {value}{_COMPANY.get((where, field.name), '')}}}"
                for part in reversed(where.value.split(".") if where.value else []):
                    name = part.removesuffix("[]")
                    body = f"{{{name}: [{body}]}}" if part.endswith("[]") else f"{{{name}: {body}}}"
                cells.append(body)
    return cells


_COMPANY = {
    (Section.BUDGET, "warn"): ", total: 10",
    (Section.HOOK, "events"): ", run: x",
    (Section.HOOK, "timeout"): ", run: x",
    (Section.TASK, "expose"): ", resources: {ports: 8080}",
    (Section.RESOURCES, "image_id"): ", infra: aws",
    (Section.RESOURCES, "accelerator_args"): ", accelerators: tpu-v5litepod-8, infra: gcp",
    (Section.RESOURCES, "local_disk"): ", infra: aws",
    (Section.RESOURCES, "region"): ", cloud: aws",
}


@pytest.mark.parametrize("cell", _shown())
def test_every_example_is_read(cell: str) -> None:
    assert parse(cell).requests
