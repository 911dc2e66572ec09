"""Are robot libraries drawing by our weights? Asked of the libraries themselves, which the tests do without.

    python -m reproduction.robots lerobot      # LeRobot 0.6: Python 3.12; without its dependencies only its sampler is asked
    python -m reproduction.robots robomimic    # robomimic 0.3: pip install --no-deps robomimic termcolor tqdm psutil

Packages that are not installed may lie in folders that PYTHONPATH names. Each check is a row of the results; one that cannot be
made says what is missing, and one that fails ends the program.
"""

import argparse
import importlib
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import record

ROOT = Path(__file__).parents[1]
PACKAGES = ["upweight", "numpy", "torch", "lerobot", "robomimic", "datasets", "accelerate", "pyarrow", "h5py"]


def script_of(page: str) -> str:
    """The program that a page of the documentation shows."""
    (found,) = re.findall(r"^```text\n(# weighted_train\.py\n.*?)^```", (ROOT / "docs" / page).read_text(), re.M | re.S)
    return found


def run_script(text: str, folder: Path, *arguments: str) -> str:
    """Run a program in a folder, with the packages of this process; what it printed."""
    (folder / "weighted_train.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "weighted_train.py", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise SystemExit(f"the program of the page fails:\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}")
    return done.stdout + done.stderr


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("library", choices=["lerobot", "robomimic"])
    parser.add_argument("--note", help="kept with the results: what is unusual about this installation")
    arguments = parser.parse_args()
    host = importlib.import_module(f"reproduction.{arguments.library}_checks")
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for check in host.CHECKS:
            try:
                found = check(Path(folder))
            except ImportError as error:
                found = {"not_made": f"{error}"}
            results.append({"check": check.__name__, **found})
            print(results[-1], flush=True)
    note = {"note": arguments.note} if arguments.note else None
    print(f"wrote {record(f'robots_{arguments.library}', PACKAGES, results, about=note)}")


if __name__ == "__main__":
    main()
