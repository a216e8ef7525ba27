"""Write docs/spec.md from the one table of fields, so that the page cannot drift from what is read.

`--check` only compares.
"""

from __future__ import annotations

import sys
from pathlib import Path

from nbprov.spec import Field, Where, fields

PAGE = Path(__file__).with_name("spec.md")

INTRODUCTION = """# What a `%%provision` cell may say

A cell is YAML, and a SkyPilot task file works when pasted. Scalars are read as YAML 1.2: only `true` and `false` are booleans, so that the
region `NO` stays text. All errors of a cell are shown at once, each with its line, a caret and the closest field. This page is made from
the table that the parser reads (`nbprov/spec/schema/registry.py`).

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
budget: {total: 10, warn: [50%, 80%], at_limit: down}
```

Without `autostop`, `max_lifetime` and `budget` a cluster ends after 60 idle minutes.

## Alternatives and places

```yaml
resources:
  accelerators: {A100-80GB: 8, H100: 8}
  cpus: 32+
  region: {allow: [us-*, eu], deny: [us-west-1], prefer: [us-east-2, us-east-1]}
  any_of:                             # the cheapest of these; `ordered` = the first that can be had
    - {cloud: aws, use_spot: prefer}  # spot first, then on-demand
    - {cloud: gcp, accelerators: "H100:8", cpus: null}  # null: what the outer map asks does not hold here
```

- A set (`{L4, T4}`), `any_of` and a list of places mean any of these, the cheapest first. A list of accelerators, `ordered`, `prefer` and
  `use_spot: prefer` are an order: the next is tried when the one before is exhausted, whatever it costs.
- An alternative's fields replace the outer ones; labels are merged; a region or zone narrows the outer cloud, `infra` replaces the whole place.
- `allow` and `deny` take names, patterns with `*` and `?`, countries and continents. `deny` is stronger than `allow`.
- A node must fit alone: `cpus`, `memory`, `max_price` are of each node. At most 1,000 alternatives, all lists multiplied out.

## A file from SkyPilot

Its fields mean what they mean there, older names too. What nbprov does not do is named once, with its line: a note where the program would not
see the difference (`service`, `pool`, `priority`, settings of Kubernetes), an error where it would lose data or money (buckets that are mounted,
`volumes`, `config.gcp`, `event_callback`); `--ignore FIELD` on the magic line turns such an error into a warning. Otherwise than there:

| | SkyPilot | nbprov |
|---|---|---|
| text | YAML 1.1: `NO` is false, `22:22` is 1342, `010` in `envs` is 8 | as written |
| keys written twice | the last counts | an error with both places |
| several tasks in one file | a pipeline | one task a cell; a first document with only a `name` is its header |
| no `autostop` | the machine stays | it ends after 60 idle minutes |
| `autostop: true` | after one minute | after 5 idle minutes |
| `autostop: -1` | never | an error; write `false` |
| ports | open to the internet | reached through tunnels; `expose` says otherwise |
| `max_hourly_cost` | filters types by their cheapest place | holds for every offer |
| labels of one alternative | leak into the others | stay there |
| `disk_size: 1500MB` | an error | rounded up, with a note |
| a machine image | checked at launch | needs its cloud, on AWS its region, at once |
| one alternative with other `autostop` | an error at launch | an error at once |

`nbprov.spec.to_skypilot(spec)` writes a spec as a file for SkyPilot, with a list of what is lost.

## nbprov's own

Everything beyond SkyPilot is optional. It may stand at the top level, or together in one map that can be cut out to give the file back:

```yaml
resources: {accelerators: H100:8, ports: 8080}
nbprov:
  prefer: soonest                     # among places of equal rank: cheapest (default), soonest, balanced
  race: {width: 3, hedge: 20s}        # three machines may be tried at once; the first that is ready is kept
  wait: {for: 4h, notify: true}       # watch for stock once every place was refused
  confirm_above: {jump: 20%, hourly: 50}
  health: {command: nvidia-smi -L, every: 30s, timeout: 10s, failures: 3}  # gates the machine, before setup and run
  max_lifetime: 1d
```

Durations are `90s 30m 4h 2d 1w`, decimals allowed, the unit required. Money is `5`, `2.50`, `$5`; shares are `20%`.

## Notebook variables

`$name` takes a notebook variable, after the text has been read: a value can never add structure by accident. What stands alone (`$x`,
`"${x}"`) keeps its type: text, numbers, true and false, None, lists and dicts. Inside other text (`aws/$region`) it must be text or a
number. `"${cfg.gpus[0]}"` takes attributes and entries; nothing is called. `$$` is a dollar sign.

- Not in `setup`, `run`, hooks and the health command: there `$` is the shell's. Pass values by `envs: {LR: $lr}`.
- In a value of `envs` the names of other envs, and of variables that machines have (`$HOME`, `$PATH`, `$SKYPILOT_NODE_RANK`, `$NBPROV_…`), stay as
  they are, with a note, where there is no notebook variable of that name: the program sees the text, as it does with SkyPilot.
- In `file_mounts`, `workdir`, `volumes` and `service` the spec's own `envs` come first, and unknown names stay.
- What goes under `secrets`, and a webhook's address, is never shown or stored. Everything else is stored with its value. A run that another kernel
  takes up knows no webhook: it tells of its end in the notebook.

A cell is at most 256 kB, 20,000 values with all anchors expanded, 32 levels, 500 envs and 500 secrets.
"""

HEADINGS = {
    Where.TASK: "At the top",
    Where.NBPROV: "nbprov's own, at the top or together under `nbprov:`",
    Where.RESOURCES: "Under `resources`, and in each item of `any_of` and `ordered`",
    Where.PLACE: "Under `infra`, `cloud`, `region` and `zone`",
    Where.AUTOSTOP: "Under `autostop`",
    Where.RECOVERY: "Under `job_recovery`",
    Where.BUDGET: "Under `budget`",
    Where.RACE: "Under `race`",
    Where.WAIT: "Under `wait`",
    Where.CONFIRM: "Under `confirm_above`",
    Where.HEALTH: "Under `health`",
    Where.PYTHON: "Under `python`",
    Where.MOUNT: "Under a target of `file_mounts`",
    Where.CONFIG: "Under `config`",
    Where.DOCKER: "Under `config.docker`",
    Where.HOOK: "In each entry of `config.hooks`",
}


def page() -> str:
    """The page's text."""
    parts = [INTRODUCTION]
    for where, heading in HEADINGS.items():
        parts.append(
            f"\n## {heading}\n\n| field | means | examples | today |\n|---|---|---|---|\n"
            + "".join(map(_row, fields(where)))
        )
    return "".join(parts)


def _row(field: Field) -> str:
    values = (
        f" ({', '.join(f'`{v}`' for v in field.values)})" if field.values and not field.free else ""
    )
    advice = f": {field.advice}" if field.advice else ""
    examples = " ".join(f"`{example}`" for example in field.example)
    cells = (f"`{field.name}`", f"{field.doc}{values}", examples, f"{field.use.value}{advice}")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


if __name__ == "__main__":
    if "--check" in sys.argv:
        sys.exit(
            0
            if PAGE.read_text(encoding="utf-8") == page()
            else "docs/spec.md is out of date: python docs/spec_reference.py"
        )
    PAGE.write_text(page(), encoding="utf-8")
