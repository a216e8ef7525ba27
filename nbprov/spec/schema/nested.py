"""The fields of the smaller maps inside a spec."""

from __future__ import annotations

from .field import Field, FieldUse, Section

_BOOL = ("true", "false")

NESTED_FIELDS = (
    Field(
        "tier",
        Section.ITEM,
        "place in the order of preference, from 0; equal tiers compete by price",
    ),
    Field(
        "allow",
        Section.PLACE,
        "names or patterns (`us-*`) of which any will do; none: every place",
        example=("[us-*]",),
    ),
    Field(
        "deny",
        Section.PLACE,
        "names or patterns that are not meant; stronger than allow",
        example=("[us-west-1]",),
    ),
    Field(
        "prefer",
        Section.PLACE,
        "the first choices in their order, before all others",
        example=("[us-east-2]",),
    ),
    Field(
        "strategy",
        Section.RECOVERY,
        "same region first, or the next one",
        values=("failover", "eager_next_region", "none"),
        free=False,
    ),
    Field(
        "max_restarts_on_errors", Section.RECOVERY, "restarts of a failed program", FieldUse.NOTE
    ),
    Field(
        "recover_on_exit_codes",
        Section.RECOVERY,
        "exit codes after which a program is restarted",
        FieldUse.NOTE,
    ),
    Field(
        "idle_minutes",
        Section.AUTOSTOP,
        "minutes without a cell, a job, an ssh session, GPU or CPU use",
    ),
    Field(
        "down",
        Section.AUTOSTOP,
        "true ends the cluster, false stops it and keeps the disk",
        values=_BOOL,
        free=False,
    ),
    Field(
        "wait_for",
        Section.AUTOSTOP,
        "what counts as not idle",
        values=("jobs_and_ssh", "jobs", "none"),
        free=False,
    ),
    Field("hook", Section.AUTOSTOP, "a command run on the machine before it stops"),
    Field("hook_timeout", Section.AUTOSTOP, "seconds the hook may take (3600)"),
    Field(
        "down_after",
        Section.AUTOSTOP,
        "a second clock, which ends a stopped machine: `1d`",
        example=("1d",),
    ),
    Field("total", Section.BUDGET, "the most this spec may ever cost, in USD", example=("10",)),
    Field(
        "warn",
        Section.BUDGET,
        "shares of the budget at which to warn",
        example=("[50%, 80%, 95%]",),
    ),
    Field(
        "at_limit", Section.BUDGET, "what happens at the limit", values=("down", "stop"), free=False
    ),
    Field("width", Section.RACE, "how many machines may be tried at once (2)", example=("3",)),
    Field(
        "hedge",
        Section.RACE,
        "how long a place may take to be ready before the next is tried beside it; auto: only to"
        " answer, within its cloud's usual time",
        values=("auto",),
        example=("20s", "auto"),
    ),
    Field(
        "for",
        Section.WAIT,
        "how long to watch for stock once every place was refused",
        example=("4h",),
    ),
    Field(
        "notify",
        Section.WAIT,
        "tell you when the wait ends; or a webhook URL to post it to",
        values=_BOOL,
        example=("true",),
    ),
    Field(
        "jump",
        Section.CONFIRM,
        "by how much a place may be dearer than the first one",
        example=("20%",),
    ),
    Field("hourly", Section.CONFIRM, "USD an hour for the whole cluster", example=("5",)),
    Field("total", Section.CONFIRM, "USD for the whole cluster", example=("50",)),
    Field(
        "command",
        Section.HEALTH,
        "a command that succeeds on a healthy machine",
        example=("nvidia-smi -L",),
    ),
    Field(
        "http",
        Section.HEALTH,
        "port and path that answer with success",
        advice="it is not asked yet",
        example=('":8000/ok"',),
    ),
    Field(
        "every",
        Section.HEALTH,
        "time between two checks (30s)",
        advice="until the machine is ready, not yet after that",
        example=("30s",),
    ),
    Field("timeout", Section.HEALTH, "how long one check may take (10s)", example=("10s",)),
    Field(
        "failures",
        Section.HEALTH,
        "how many in a row make a machine unhealthy (3)",
        advice="until the machine is ready, not yet after that",
        example=("3",),
    ),
    Field(
        "on_fail",
        Section.HEALTH,
        "what is done with a machine that fails later",
        values=("report", "replace", "down"),
        free=False,
        advice=(
            "a machine that fails before it is ready is replaced; later failures are not looked "
            "for yet"
        ),
    ),
    Field(
        "version", Section.PYTHON, "of Python; `3.12.4` is that very release", example=('"3.12"',)
    ),
    Field(
        "requirements",
        Section.PYTHON,
        "packages as a list, or a local requirements.txt or pyproject.toml",
        example=('[numpy, "pandas>=2"]', "requirements.txt"),
    ),
    Field(
        "lock",
        Section.PYTHON,
        "a uv.lock here, or of the git repository that workdir is, or the folder it is in; "
        "instead of requirements",
        example=("uv.lock",),
    ),
    Field("source", Section.MOUNT, "local file or folder, a list of them, or a URI"),
    Field(
        "mode",
        Section.MOUNT,
        "how it gets there: COPY",
        values=("COPY", "MOUNT", "MOUNT_CACHED"),
        free=False,
    ),
    Field("store", Section.MOUNT, "kind of bucket"),
    Field("name", Section.MOUNT, "name of a bucket"),
    Field("persistent", Section.MOUNT, "whether the bucket stays", values=_BOOL, free=False),
    Field("type", Section.MOUNT, "how the bucket is used: `DATASET_RO`"),
    Field("config", Section.MOUNT, "options of the mount"),
    *(
        Field(name, Section.CONFIG, "settings of a platform nbprov does not drive", FieldUse.NOTE)
        for name in ("kubernetes", "ssh", "slurm", "active_workspace")
    ),
    Field("docker", Section.CONFIG, "options of the container"),
    Field(
        "hooks",
        Section.CONFIG,
        "commands at stop, down or preemption",
        advice="only autostop.hook is run yet",
    ),
    *(
        Field(
            name,
            Section.CONFIG,
            "where and how this cloud's machines live",
            FieldUse.ERROR,
            advice="it changes where or how the machine lives",
        )
        for name in (
            "aws",
            "azure",
            "gcp",
            "lambda",
            "nebius",
            "nvidia_gpus",
            "oci",
            "runpod",
            "vast",
        )
    ),
    Field(
        "run_options",
        Section.DOCKER,
        "options of `docker run`",
        advice="no container is started with them yet",
        example=('["--ipc=host"]',),
    ),
    Field("run", Section.HOOK, "the command", example=("./save.sh",)),
    Field(
        "events",
        Section.HOOK,
        "when it is run",
        values=("stop", "down", "preemption"),
        free=False,
        example=("[stop, down]",),
    ),
    Field("timeout", Section.HOOK, "seconds it may take (3600)", example=("60",)),
)
