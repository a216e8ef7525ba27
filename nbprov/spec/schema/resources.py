"""The fields under `resources`."""

from __future__ import annotations

from .field import Field, FieldUse, Section

_R = Section.RESOURCES
_BOOL = ("true", "false")
_TIERS = ("low", "medium", "high", "ultra", "best")
_STRATEGIES = ("failover", "eager_next_region", "none")

RESOURCES_FIELDS = (
    Field(
        "accelerators",
        _R,
        "GPUs of a node: `A100`, `A100:8`, `{L4, T4}` = any, `[H100, A100]` = in this order, "
        "`80GB+`",
        example=("A100:8",),
    ),
    Field(
        "infra",
        _R,
        "place: `aws`, `aws/us-east-1`, `aws/us-*`; a list = any of these; or a map of allow, "
        "deny, prefer",
        example=("aws/us-east-1",),
    ),
    Field("cpus", _R, "vCPUs of a node: `4` exactly, `4+` at least", example=("4+",)),
    Field("memory", _R, "GiB of a node: `32`, `32+`, `64GB+`, `4x` = per vCPU", example=("32+",)),
    Field(
        "use_spot",
        _R,
        "spot machines: true, false, or `prefer` = spot first",
        values=("true", "false", "prefer"),
        free=False,
    ),
    Field(
        "instance_type",
        _R,
        "the cloud's own name of a machine: `p4d.24xlarge`",
        example=("p4d.24xlarge",),
    ),
    Field("cloud", _R, "a cloud, a list of any, or a map of allow, deny, prefer", example=("aws",)),
    Field(
        "region",
        _R,
        "a region, a country or continent (`eu`), a list, or a map: "
        "`{allow: [us-*], deny: [us-west-1]}`",
        example=("us-east-1",),
    ),
    Field("zone", _R, "a zone, a list, or a map of allow, deny, prefer", example=("us-east-1a",)),
    Field("disk_size", _R, "size of the boot disk in GB (256)", example=("100",)),
    Field(
        "ports",
        _R,
        "ports reached through tunnels: `8080`, `8080-8090`, or a list",
        example=("8080",),
    ),
    Field("labels", _R, "tags of the machine: text to text", example=("{team: nlp}",)),
    Field(
        "autostop",
        _R,
        "stops or ends an idle cluster: `10` minutes, `2h`, `false`, or a map",
        values=_BOOL,
    ),
    Field(
        "max_price",
        _R,
        "the most a node may cost an hour, in USD, for every offer",
        example=("2.50",),
    ),
    Field("max_hourly_cost", _R, "the most a node may cost an hour, in USD", example=("2.50",)),
    Field("any_of", _R, "alternatives, cheapest first: a list of maps of these fields"),
    Field("ordered", _R, "alternatives, first choice first: a list of maps of these fields"),
    Field(
        "image_id",
        _R,
        "container or machine image: `docker:…`, a cloud's own id, `{region: id}`",
        example=("docker:ubuntu:22.04", "{us-east-1: ami-0123456789abcdef0}"),
    ),
    Field(
        "disk_tier",
        _R,
        "speed of the disk; `best` is the best the place has",
        values=_TIERS,
        free=False,
    ),
    Field(
        "network_tier",
        _R,
        "speed of the network between nodes",
        values=("standard", "best"),
        free=False,
    ),
    Field(
        "job_recovery",
        _R,
        "where a preempted cluster is replaced",
        values=_STRATEGIES,
        advice="a cluster that is lost is told of, and not made again by itself yet",
    ),
    Field(
        "spot_recovery",
        _R,
        "older name of job_recovery",
        values=_STRATEGIES,
        advice="a cluster that is lost is told of, and not made again by itself yet",
    ),
    Field(
        "places",
        _R,
        "rules of places that all hold: a list of `{allow: […], deny: […]}`",
        example=("[{deny: [aws/us-west-1]}]",),
    ),
    Field("accelerator_args", _R, "TPU options", example=("{runtime_version: v2-alpha-tpuv5}",)),
    Field("local_disk", _R, "fast disk inside the machine", example=("nvme:1000+",)),
    Field("priority", _R, "place in a queue; noted, nothing queues here"),
    Field("priority_class", _R, "place in a queue", FieldUse.NOTE, advice="nothing queues here"),
    Field(
        "ephemeral_storage",
        _R,
        "Kubernetes storage",
        FieldUse.ERROR,
        advice="disk_size sets the machine's disk",
    ),
    Field(
        "volumes",
        _R,
        "disks attached to the machine",
        FieldUse.ERROR,
        advice="the program would see an empty folder on the machine's own disk",
    ),
)
