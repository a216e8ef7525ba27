"""An attempt to leave the box of a machine from inside it, and what must have come of it."""

from __future__ import annotations

LOCKS = """\
grep -hE '^(Cap|NoNew)' /proc/self/status
for file in /proc/sys/kernel/core_pattern /proc/sysrq-trigger /sys/kernel/uevent_helper /etc/passwd
do test -w $file && echo "may write $file"; done
cd "$NBPROV_MACHINE" && mv tmp away && ln -s TREASURE tmp && rm -f log/console.log &&
ln -s TREASURE/file log/console.log && mkfifo poweroff && echo done
"""
"""A script for a machine; TREASURE is a folder of the user's."""


def check_locks(output: str) -> None:
    """Check what the script said: it has no capability, may write nothing, and ran to its end."""
    said = output.split()
    locks = dict(zip(said[::2], said[1::2], strict=False))
    assert {int(locks[f"Cap{kind}:"], 16) for kind in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {0}
    assert locks["NoNewPrivs:"] == "1"
    assert "may" not in said
    assert said[-1] == "done"
