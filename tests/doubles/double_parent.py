"""Forks doubles and daemons: their imports and models are read once for each process of the suite.

    python tests/doubles/double_parent.py

reads a request a line, as JSON: the double's module, its arguments and its environment. It answers
with a line: the pid of the new process and what that said first (`READY URL`). Each double is a
process of its own: it sees nothing of the others, and its end is nobody's business. All doubles end
with this one, which ends with its stdin; a daemon (`local_daemon.py`) outlives it.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).parent))

MOST = 4096
"""The longest first line of a double."""


def main() -> None:
    """Fork doubles until stdin ends."""
    # Ended doubles are not waited for: nobody asks how they ended.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    lifeline, kept_open = os.pipe()
    for line in sys.stdin:
        asked = json.loads(line)
        module = importlib.import_module(asked["module"])
        module.prepare()
        # What is there now is no garbage; looking at it would copy its pages into every double.
        gc.collect()
        gc.freeze()
        assert threading.active_count() == 1, "a thread would be missing in each double"
        told, tell = os.pipe()
        pid = os.fork()
        if pid == 0:
            os.close(told)
            os.close(kept_open)
            _be_double(module, asked, tell, lifeline)
        os.close(tell)
        with os.fdopen(told, "rb") as pipe:
            said = pipe.readline(MOST).decode()
        print(json.dumps({"pid": pid, "said": said.strip()}), flush=True)


def _be_double(module: Any, asked: dict[str, Any], tell: int, lifeline: int) -> NoReturn:
    """Run a double to its end in this process, which is new and has but one thread."""
    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(asked["environment"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(tell, 1)
        os.close(tell)
        threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
        module.main(asked["arguments"])
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _end_with(lifeline: int) -> None:
    """End this process in its own way once the one that forked it is gone."""
    os.read(lifeline, 1)
    os.kill(os.getpid(), signal.SIGTERM)


if __name__ == "__main__":
    main()
