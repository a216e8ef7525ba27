"""Agreement to the cost of a launch: given by `--yes`, asked for, or refused."""

from __future__ import annotations

from nbprov.api import Run
from nbprov.model.errors import UsageError
from nbprov.notebook.rendering.prices import consent_text
from nbprov.notebook.terminal import say

from .handle_variable import variable_of


def launch_with_consent(run: Run) -> None:
    """Launch, and print what `--yes` agreed to."""
    if not run.launched:
        simulated = "; simulated: you pay $0" if run.plan.is_simulated else ""
        say(f"{run.name}: --yes agreed to {_highest_cost(run)}{simulated}")
    run.launch()


def ask_for_consent(run: Run) -> bool:
    """Ask the person whether to launch."""
    answer = input(f"launch {run.name}? It costs {_highest_cost(run)}. [y/N] ")
    if answer.strip().lower() in ("y", "yes"):
        return True
    say(f"{run.name}: not launched; {variable_of(run.name)}.launch() does it later")
    return False


def require_consent(run: Run) -> None:
    """Refuse a launch that costs money where nobody can be asked.

    Raises
    ------
    UsageError
        If somebody pays for a candidate, or `confirm_above` wants to ask.
    """
    beyond = run.driver.passed_over
    if beyond:
        places = f"{beyond:,} more expensive place{'s' if beyond > 1 else ''}"
        raise UsageError(
            f"{run.name} costs {_highest_cost(run)}; confirm_above requires a confirmation for"
            f" {places}, and nobody is here to give it",
            hint="%%provision --yes agrees to all that the spec's caps allow; without confirm_above"
            " only the caps decide",
            code="run.needs-consent",
        )
    if run.plan.is_simulated or not run.plan.candidates:
        return
    raise UsageError(
        f"{run.name} costs {_highest_cost(run)}, and nobody is here to press Launch",
        hint="%%provision --yes agrees to it; max_hourly_cost and budget in the spec cap it",
        code="run.needs-consent",
    )


def _highest_cost(run: Run) -> str:
    return consent_text(run.plan, run.race) or "nothing"
