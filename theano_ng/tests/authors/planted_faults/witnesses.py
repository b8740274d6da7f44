"""Changed copies of the folder of the Ops, and processes that run the witness of a fault with a copy."""

import os
import shutil
import subprocess
import sys
import tempfile
import textwrap

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(FOLDER)))

# Arguments: the folder of the copy, the module, the witness.
PROGRAM = """
import importlib, resource, sys
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
folder, module, witness = sys.argv[1:]
sys.path.insert(0, folder)
import numpy as np
import theano_ng as theano
from theano_ng import tensor as T
names = {"op": importlib.import_module("authors." + module), "np": np, "theano": theano, "T": T}
exec(compile(witness, "witness", "exec"), names)
print("right" if names["right"] else "wrong")
"""


def changed_text(fault):
    """Return the text of the changed file of a fault."""
    with open(os.path.join(FOLDER, fault.file), encoding="utf-8") as file:
        text = file.read()
    if text.count(fault.old) != 1:
        raise ValueError("%s: the old text occurs %d times in %s" % (fault.name, text.count(fault.old), fault.file))
    return text.replace(fault.old, fault.new)


def copy_folder(target, fault=None):
    """Copy the Ops of this folder to a new folder, and plant a fault in the copy.

    Parameters
    ----------
    target : str
        The path of the copy, which must not exist.
    fault : PlantedFault, optional
    """
    shutil.copytree(FOLDER, target, ignore=shutil.ignore_patterns("__pycache__", "test_*", "planted_faults"))
    if fault is not None:
        with open(os.path.join(target, fault.file), "w", encoding="utf-8") as file:
            file.write(changed_text(fault))


def outcome(fault, planted, timeout=120):
    """Run the witness of a fault in a process of its own.

    Parameters
    ----------
    fault : PlantedFault
    planted : bool
        Whether to change the module.
    timeout : float
        The time limit in seconds.

    Returns
    -------
    str
        "right", or a description of the effect of the fault.
    """
    with tempfile.TemporaryDirectory() as folder:
        copy_folder(os.path.join(folder, "authors"), fault if planted else None)
        command = [sys.executable, "-W", "ignore", "-c", PROGRAM, folder, fault.module, textwrap.dedent(fault.witness)]
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")])))
        try:
            done = subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, text=True, errors="replace", timeout=timeout
            )
        except subprocess.TimeoutExpired:
            return "does not end"
    if done.returncode < 0:
        return "killed by signal %d" % -done.returncode
    if done.returncode == 0:
        return (done.stdout.split() or ["no output"])[-1]
    lines = [line for line in done.stderr.splitlines() if line and line[0] not in " \t"]
    errors = [line for line in lines if line.split(":")[0].endswith(("Error", "Exception", "BadDestroyMap"))]
    return "raises %s" % (errors or lines or ["an error"])[-1][:100].rstrip(": ")
