"""Write docs/spec.md from the one table of fields, so that the page cannot drift from what is read. `--check` only compares."""

from __future__ import annotations

import sys
from pathlib import Path

from nbprov.spec import Field, Where, fields

PAGE = Path(__file__).with_name("spec.md")

INTRODUCTION = """# What a `%%provision` cell may say

A cell is YAML, and a SkyPilot task file works when pasted. Scalars are read as YAML 1.2: only `true` and `false` are booleans, so that the
region `NO` stays text. All errors of a cell are shown at once, each with its line, a caret and the closest field. This page is made from
the table that the parser reads (`nbprov/spec/fields.py`).

```yaml
resources:
  accelerators: {A100: 1, L4: 1}      # any of these, the cheapest first; a list [A100:1, L4:1] is tried in its order
  infra: [aws/us-east-1, gcp]         # any of these places
  max_price: $2.50                    # a node an hour, for every place that is tried
  autostop: {idle_minutes: 30, down: true}
num_nodes: 1
setup: pip install -r requirements.txt
run: python train.py
workdir: .
envs: {EPOCHS: 3, RUN_ID: null}       # null: %%provision --env RUN_ID=v, else the kernel's environment, else a prompt
secrets: {HF_TOKEN: null}             # travels over the verified ssh connection only
max_lifetime: 8h
budget: $10
```

Without `autostop`, `max_lifetime` and `budget` a cluster ends after 60 idle minutes.
"""

HEADINGS = {
    Where.TASK: "At the top",
    Where.NBPROV: "nbprov's own, at the top or together under `nbprov:`",
    Where.RESOURCES: "Under `resources`, and in each item of `any_of` and `ordered`",
    Where.AUTOSTOP: "Under `autostop`",
    Where.BUDGET: "Under `budget`",
    Where.CONFIG: "Under `config`",
}


def page() -> str:
    """The page's text."""
    parts = [INTRODUCTION]
    for where, heading in HEADINGS.items():
        parts.append(f"\n## {heading}\n\n| field | means | today |\n|---|---|---|\n" + "".join(map(_row, fields(where))))
    return "".join(parts)


def _row(field: Field) -> str:
    values = f" ({', '.join(f'`{v}`' for v in field.values)})" if field.values and not field.free else ""
    advice = f": {field.advice}" if field.advice else ""
    cells = (f"`{field.name}`", f"{field.doc}{values}", f"{field.use.value}{advice}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(0 if PAGE.read_text(encoding="utf-8") == page() else "docs/spec.md is out of date: python docs/spec_reference.py")
    PAGE.write_text(page(), encoding="utf-8")
