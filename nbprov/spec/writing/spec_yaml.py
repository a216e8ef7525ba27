"""Write a spec as YAML that reads back as the same spec."""

from __future__ import annotations

from typing import Any

from nbprov.model.guards import Autostop, Guards
from nbprov.model.run_policies import ConfirmAbove, OrderPolicy, Race, WaitPolicy
from nbprov.model.sources import Repository
from nbprov.model.spec import (
    KEEP,
    ComputeEngine,
    ExposedPorts,
    HealthCheck,
    Hook,
    PythonEnvironment,
    Spec,
)
from nbprov.spec.interpolation.dollar_rules import DollarMeaning, dollar_meaning
from nbprov.spec.interpolation.variables import escaped
from nbprov.spec.yaml.dump import Number, dumped, duration, money, number, share

from .resources_yaml import written_resources


def to_yaml(spec: Spec) -> str:
    """Write a spec as YAML.

    Reading it gives an equal spec, apart from origins, remarks, variables, source, and the values
    of secrets.

    Secrets are written as null and a webhook's address as `true`, so the text may be shown and
    stored.

    Examples
    --------
    >>> from nbprov.spec import parse
    >>> print(to_yaml(parse("resources: {gpus: A100, infra: aws, autostop: 10}")), end="")
    resources:
      infra: aws
      accelerators: A100:1
      autostop:
        idle_minutes: 10
    """
    resources = written_resources(spec.requests)
    autostop = _autostop(spec.guards)
    if autostop is not None:
        resources["autostop"] = autostop
    if spec.recovery:
        resources["job_recovery"] = spec.recovery
    body = {**written_program(spec), **_own_fields(spec)}
    if resources or not body:
        body = {"resources": resources, **body}
    return dumped(_with_dollars(body, ()))


def _with_dollars(value: Any, trail: tuple[str, ...]) -> Any:
    """The value with each `$` doubled that would otherwise name a notebook variable."""
    if isinstance(value, dict):
        return {
            _with_dollars(key, trail): _with_dollars(one, (*trail, key))
            for key, one in value.items()
        }
    if isinstance(value, list):
        return [_with_dollars(one, trail) for one in value]
    if (
        isinstance(value, str)
        and not isinstance(value, Number)
        and "$" in value
        and dollar_meaning(trail) is DollarMeaning.VARIABLE
    ):
        return escaped(value)
    return value


def written_program(spec: Spec) -> dict[str, Any]:
    """The fields for programs, data and options that SkyPilot has as well."""
    body: dict[str, Any] = {}
    for name in ("name", "num_nodes", "setup", "run", "workdir"):
        value = getattr(spec, name)
        if value != (1 if name == "num_nodes" else ""):
            body[name] = _repository(value) if isinstance(value, Repository) else value
    if spec.envs:
        body["envs"] = dict(spec.envs)
    if spec.secrets:
        body["secrets"] = dict.fromkeys(spec.secrets)
    if spec.file_mounts:
        body["file_mounts"] = {mount.target: mount.source for mount in spec.file_mounts}
    if spec.inputs:
        body["inputs"] = {uri: Number(number(gb)) for uri, gb in spec.inputs}
    config: dict[str, Any] = {}
    if spec.docker_options:
        config["docker"] = {"run_options": list(spec.docker_options)}
    if spec.hooks:
        config["hooks"] = [_hook(hook) for hook in spec.hooks]
    if config:
        body["config"] = config
    return body


def _repository(workdir: Repository) -> dict[str, str]:
    return {"url": workdir.url, **({"ref": workdir.ref} if workdir.ref else {})}


def _own_fields(spec: Spec) -> dict[str, Any]:
    guards = spec.guards
    written: dict[str, Any] = {
        "max_lifetime": None if guards.max_lifetime is None else duration(guards.max_lifetime),
        "budget": _budget(guards),
        "prefer": None if spec.prefer is OrderPolicy.CHEAPEST else spec.prefer.value,
        "race": _race(spec.race),
        "wait": _wait(spec.wait),
        "confirm_above": _confirm(spec.confirm_above),
        "engine": _engine(spec.engine),
        "health": _health(spec.health),
        "expose": _expose(spec.expose),
        "outputs": {mount.source: mount.target or None for mount in spec.outputs} or None,
        "python": _python(spec.python),
        "on_setup_failure": None if spec.on_setup_failure == KEEP else spec.on_setup_failure,
    }
    return {key: value for key, value in written.items() if value is not None}


def _autostop(guards: Guards) -> dict[str, Any] | bool | None:
    autostop = guards.autostop
    if guards.is_default:
        return None
    if autostop is None:
        return None if guards.max_lifetime is not None or guards.budget is not None else False
    return written_autostop(autostop)


def written_autostop(autostop: Autostop) -> dict[str, Any]:
    """The map of `autostop`, without usual values."""
    default = Autostop(autostop.idle)
    written: dict[str, Any] = {"idle_minutes": Number(number(autostop.idle / 60))}
    if autostop.down:
        written["down"] = True
    if autostop.wait_for != default.wait_for:
        written["wait_for"] = autostop.wait_for
    if autostop.hook:
        written["hook"] = autostop.hook
    if autostop.hook_timeout != default.hook_timeout:
        written["hook_timeout"] = Number(number(autostop.hook_timeout))
    if autostop.down_after is not None:
        written["down_after"] = duration(autostop.down_after)
    return written


def _budget(guards: Guards) -> Any:
    if guards.budget is None:
        return None
    total = money(guards.budget)
    written: dict[str, Any] = {"total": total}
    if guards.warn:
        written["warn"] = [share(one) for one in guards.warn]
    if guards.at_limit != "down":
        written["at_limit"] = guards.at_limit
    return written if len(written) > 1 else total


def _race(race: Race) -> Any:
    if race == Race():
        return None
    width = Number(str(race.width))
    return width if race.hedge is None else {"width": width, "hedge": duration(race.hedge)}


def _wait(wait: WaitPolicy) -> Any:
    if not wait.notify and not wait.webhook:
        return duration(wait.seconds) if wait.seconds else None
    return {**({"for": duration(wait.seconds)} if wait.seconds else {}), "notify": True}


def _confirm(confirm: ConfirmAbove) -> Any:
    written = {
        "jump": None if confirm.jump is None else share(confirm.jump),
        "hourly": None if confirm.hourly is None else money(confirm.hourly),
        "total": None if confirm.total is None else money(confirm.total),
    }
    return {key: value for key, value in written.items() if value is not None} or None


def _engine(engine: ComputeEngine | None) -> Any:
    if engine is None:
        return None
    options = {
        name: Number(value) if value.isdecimal() else value for name, value in engine.options
    }
    return {engine.kind: options} if options else engine.kind


def _health(health: HealthCheck) -> Any:
    default = HealthCheck()
    if health == default:
        return None
    if not health.on:
        return False
    written: dict[str, Any] = {
        "command": health.command,
        "http": health.http,
        "every": duration(health.every) if health.every != default.every else None,
        "timeout": duration(health.timeout) if health.timeout != default.timeout else None,
        "failures": health.failures if health.failures != default.failures else None,
        "on_fail": health.on_fail if health.on_fail != default.on_fail else None,
    }
    return {key: value for key, value in written.items() if value}


def _expose(expose: ExposedPorts) -> Any:
    if expose.everything:
        return "public"
    return {
        f"{low}-{high}" if high > low else Number(str(low)): "public" for low, high in expose.public
    } or None


def _python(python: PythonEnvironment | None) -> Any:
    if python is None:
        return None
    written = {
        "version": python.version,
        "requirements": python.file or list(python.requirements),
        "lock": python.lock,
    }
    return {key: value for key, value in written.items() if value}


def _hook(hook: Hook) -> dict[str, Any]:
    default = Hook(hook.run)
    written: dict[str, Any] = {"run": hook.run}
    if hook.events != default.events:
        written["events"] = list(hook.events)
    if hook.timeout != default.timeout:
        written["timeout"] = Number(number(hook.timeout))
    return written
