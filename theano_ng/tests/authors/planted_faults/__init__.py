"""Faults that authors of Ops make, each planted alone in one of the Ops of this folder, with a proof of its effect.

::

    python -m theano_ng.tests.authors.planted_faults [NAME...]

For each fault, the command copies the folder, changes one file of the copy, and runs the witness of the fault in two
processes: with the unchanged module and with the changed module. It prints a line for each fault. The exit status is 1
if a witness does not tell the two modules apart. The faults of each Op are in a module with the name of its module.
"""

import importlib
import sys

from theano_ng.tests.authors.planted_faults.record import KINDS, PlantedFault
from theano_ng.tests.authors.planted_faults.witnesses import FOLDER, ROOT, changed_text, copy_folder, outcome

__all__ = [
    "FAULTS",
    "FOLDER",
    "KINDS",
    "MODULES",
    "ROOT",
    "PlantedFault",
    "changed_text",
    "copy_folder",
    "main",
    "outcome",
]

MODULES = (
    "bent_line",
    "windowed_sum",
    "pad_vector",
    "trimmed_mean",
    "recursive_filter",
    "segment_maximum",
    "ragged_sum",
    "smooth_maximum",
    "frame_view",
    "haar_transform",
    "shrinkage",
    "sparse_softmax",
    "laplacian",
)

FAULTS = [fault for module in MODULES for fault in importlib.import_module("%s.%s" % (__name__, module)).FAULTS]


def main(names):
    """Print a line for each fault, and return the exit status.

    Parameters
    ----------
    names : list of str
        The names of faults. If it is empty, all faults are tried.
    """
    known = {fault.name: fault for fault in FAULTS}
    unknown = [name for name in names if name not in known]
    if unknown:
        print("unknown faults: %s" % ", ".join(unknown), file=sys.stderr)
        return 2
    bad = 0
    for fault in [known[name] for name in names] or FAULTS:
        before, after = outcome(fault, False), outcome(fault, True)
        proved = before == "right" and after != "right"
        bad += not proved
        verdict = "ok" if proved else "NOT PROVED (unchanged: %s)" % before
        print("%-13s %-16s %-40s %s: %s" % (fault.kind, fault.module, fault.name, verdict, after), flush=True)
    return min(bad, 1)
