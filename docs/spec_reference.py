"""Write docs/spec.md from the table of fields; with `--check`, only compare."""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

from nbprov.spec import Field, Section, fields
from nbprov.spec.schema.field import FieldUse

NO_BREAK = "\0"
"""Stands for a space inside code, where a line must not be broken."""

PAGE = Path(__file__).with_name("spec.md")

INTRODUCTION = """\
# What a `%%provision` cell may say

A cell is YAML, and a SkyPilot task file works when it is pasted. Scalars follow YAML 1.2: only
`true` and `false` are booleans, so the region `NO` stays text. All errors of a cell are shown at
once, each with its line, a caret and the closest field. This page is made from the table that the
parser reads (`nbprov/spec/schema/registry.py`).

```yaml
resources:
  accelerators: {A100: 1, L4: 1}      # any of these, the cheapest first; a list is tried in order
  infra: [aws/us-east-1, gcp]         # any of these places
  max_price: $2.50                    # per node and hour, for every place that is tried
  autostop: {idle_minutes: 30, down: true}
num_nodes: 1
setup: pip install -r requirements.txt
run: python train.py
workdir: .
envs: {EPOCHS: 3, RUN_ID: null}       # null: --env RUN_ID=v, the kernel's environment, or a prompt
secrets: {HF_TOKEN: null}             # is sent over the verified ssh connection only
max_lifetime: 8h
budget: {total: 10, warn: [50%, 80%], at_limit: down}
```

Without `autostop`, `max_lifetime` and `budget` a cluster ends after 60 idle minutes.

## Alternatives and places

```yaml
resources:
  accelerators: {A100-80GB: 8, H100: 8}
  cpus: 32+
  region: {allow: [us-*, eu], deny: [us-west-1], prefer: [us-east-2, us-east-1]}
  any_of:                             # the cheapest of these; `ordered` takes the first available
    - {cloud: aws, use_spot: prefer}  # spot first, then on-demand
    - {cloud: gcp, accelerators: "H100:8", cpus: null}  # null: the outer `cpus` does not hold here
```

- A set (`{L4, T4}`), `any_of` and a list of places mean any of these, the cheapest first. A list of
  accelerators, `ordered`, `prefer` and `use_spot: prefer` are an order: the next one is tried when
  the one before is exhausted, whatever it costs.
- The fields of an alternative replace the outer ones. Labels are merged, a region or zone narrows
  the outer cloud, and `infra` replaces the whole place.
- `allow` and `deny` take names, patterns with `*` and `?`, countries and continents. `deny` wins
  over `allow`.
- `cpus`, `memory` and `max_price` hold for each node. A cell may have at most 1,000 alternatives,
  with all lists multiplied out.

## A file from SkyPilot

Fields mean what they mean in SkyPilot, older names included. What nbprov does not do is named once,
with its line. It is a note where the program would see no difference (`service`, `pool`,
`priority`, settings of Kubernetes), and an error where data or money would be lost (mounted
buckets, `volumes`, `config.gcp`, `event_callback`). `--ignore FIELD` on the magic line turns such
an error into a warning. These things differ:

| | SkyPilot | nbprov |
|---|---|---|
| text | YAML 1.1: `NO` is false, `22:22` is 1342, `010` is 8 | as written |
| repeated keys | the last one counts | an error with both places |
| several tasks in one file | a pipeline | one task per cell; a `name` document is its header |
| no `autostop` | the machine stays | it ends after 60 idle minutes |
| `autostop: true` | after one minute | after 5 idle minutes |
| `autostop: -1` | never | an error; write `false` |
| ports | open to the internet | reached through tunnels, unless `expose` opens them |
| `max_hourly_cost` | filters types by their cheapest place | holds for every offer |
| labels of one alternative | leak into the others | stay there |
| `disk_size: 1500MB` | an error | rounded up, with a note |
| a machine image | checked at launch | needs its cloud, on AWS its region, at once |
| one alternative with other `autostop` | an error at launch | an error at once |

`nbprov.spec.to_skypilot(spec)` writes a spec as a file for SkyPilot, and lists what is lost.

## nbprov's own fields

All fields beyond SkyPilot's are optional. They may stand at the top level, or together in one map
that can be cut out to get the SkyPilot file back:

```yaml
resources: {accelerators: H100:8, ports: 8080}
nbprov:
  prefer: soonest                     # within a tier: cheapest (default), soonest or balanced
  race: {width: 3, hedge: 20s}        # try three machines at once; keep the first that is ready
  wait: {for: 4h, notify: true}       # watch for stock after every place has refused
  confirm_above: {jump: 20%, hourly: 50}
  health: {command: nvidia-smi -L, every: 30s, timeout: 10s, failures: 3}  # before setup and run
  max_lifetime: 1d
```

Durations are `90s`, `30m`, `4h`, `2d` or `1w`; decimals are allowed and the unit is required. Money
is `5`, `2.50` or `$5`; shares are `20%`.

## Notebook variables

`$name` stands for a notebook variable. Its value is filled in after the text has been parsed, so it
never adds structure by accident. A variable that stands alone (`$x`, `"${x}"`) keeps its type:
text, number, boolean, None, list or dict. Inside other text (`aws/$region`) it must be text or a
number. `"${cfg.gpus[0]}"` takes attributes and entries; nothing is called. `$$` is a dollar sign.

- In `setup`, `run`, hooks and the health command `$` belongs to the shell. Pass values with
  `envs: {LR: $lr}`.
- In values of `envs`, names of other envs and of variables that machines have (`$HOME`, `$PATH`,
  `$SKYPILOT_NODE_RANK`, `$NBPROV_…`) stay as they are, with a note, unless there is a notebook
  variable with that name. The program sees the text, as it does with SkyPilot.
- In `file_mounts`, `workdir`, `volumes` and `service` the spec's own `envs` come first, and unknown
  names stay.
- Values under `secrets`, and of a webhook's address all but its host, are never shown or stored;
  all other values are stored. A run that another kernel adopts therefore has no webhook: it reports
  its end in the notebook.

A cell may have 256 kB, 20,000 values with all anchors expanded, 32 levels, 500 envs and 500
secrets. Linux gives a process at most 131,071 bytes for one variable with its name; all of a cell's
may have 1.5 MB together.
"""

HEADINGS = {
    Section.TASK: "At the top",
    Section.NBPROV: "nbprov's own, at the top or together under `nbprov:`",
    Section.RESOURCES: "Under `resources`, and in each item of `any_of` and `ordered`",
    Section.PLACE: "Under `infra`, `cloud`, `region` and `zone`",
    Section.AUTOSTOP: "Under `autostop`",
    Section.RECOVERY: "Under `job_recovery`",
    Section.BUDGET: "Under `budget`",
    Section.RACE: "Under `race`",
    Section.WAIT: "Under `wait`",
    Section.CONFIRM: "Under `confirm_above`",
    Section.HEALTH: "Under `health`",
    Section.PYTHON: "Under `python`",
    Section.MOUNT: "Under a target of `file_mounts`",
    Section.CONFIG: "Under `config`",
    Section.DOCKER: "Under `config.docker`",
    Section.HOOK: "In each entry of `config.hooks`",
}


def page() -> str:
    """The text of the page."""
    parts = [INTRODUCTION]
    for section, heading in HEADINGS.items():
        entries = "".join(map(_entry, fields(section)))
        parts.append(f"\n## {heading}\n\n{entries}")
    return "".join(parts)


def _entry(field: Field) -> str:
    """One field as an item of a list: its documentation, its examples, and what is not done yet."""
    text = f"- `{field.name}`: {field.doc}"
    if field.values and not field.free:
        text += f" ({', '.join(f'`{value}`' for value in field.values)})"
    if field.example:
        text += f". For example {', '.join(f'`{example}`' for example in field.example)}"
    today = [field.use.value] if field.use is not FieldUse.READ else []
    today += [field.advice] if field.advice else []
    if today:
        text += f". Today: {': '.join(today)}"
    whole = re.sub("`[^`]*`", lambda code: code[0].replace(" ", NO_BREAK), text)
    filled = textwrap.fill(
        f"{whole}.", 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False
    )
    return filled.replace(NO_BREAK, " ") + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0
            if PAGE.read_text(encoding="utf-8") == page()
            else "docs/spec.md is out of date: python docs/spec_reference.py"
        )
    PAGE.write_text(page(), encoding="utf-8")
