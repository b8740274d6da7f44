"""The table of the manual: which tool finds each planted fault, under which name, and how long it takes.

::

    python -m theano_ng.tests.authors.gallery [NAME...] [--processes N] [--csv FILE]

Each fault is planted alone in a copy of the Ops of this folder. The tools are: the author's tests (`tests`), a call in
DebugMode with the examples of `audit_cases` (`debugmode`), the same with `DebugMode.search` (`search`), and the audit
(`audit`). The command also runs the tools on the unchanged Ops, where nothing may be found.
"""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

from theano_ng.tests.authors.planted_faults import FAULTS, FOLDER, MODULES, ROOT, copy_folder

#: Seconds after which a tool is stopped.
LIMIT = 300

_VALUES = (
    "BadThunkOutput PythonCDisagree InaccurateResult UninitializedOutput AddressError Crash BadInferShape BadOutputType "
    "InvalidValueError UndefinedBehaviour"
)
_DERIVATIVES = "BadGradient BadGradientType BadRop BadConnectionPattern"
#: Kind of fault -> names that describe such a fault.
FITTING = {
    "parameter": _VALUES + " " + _DERIVATIVES,
    "length": _VALUES + " " + _DERIVATIVES,
    "value": _VALUES + " " + _DERIVATIVES,
    "dtype": _VALUES + " " + _DERIVATIVES,
    "layout": _VALUES,
    "aliasing": "BadDestroyMap BadViewMap BadMap BadThunkOutput",
    "output memory": "BadThunkOutput UninitializedOutput AddressError NonDeterministic DependsOnState",
    "bounds": "AddressError Crash BadThunkOutput UninitializedOutput UndefinedBehaviour PythonCDisagree",
    "references": "ReferenceLeak ReferenceUnderflow BadReferences MemoryLeak Crash",
    "memory": "MemoryLeak",
    "state": "DependsOnState NonDeterministic MutatesOp BadThunkOutput",
    "gradient": _DERIVATIVES,
    "shape": "BadInferShape",
    "declaration": (
        "BadEquality BadHash BadPickle BadCacheVersion BadMap BadMakeNode BadOutputType InvalidValueError PythonCDisagree "
        "Crash BadThunkOutput BadDestroyMap BadConnectionPattern BadGradientType CompileError"
    ),
    "process": "Crash PythonCDisagree AddressError",
}

# Arguments: the folder of the copy, the module, the tool. The last line of the output is the name of the error, or "".
PROGRAM = """
import importlib, json, resource, sys, time
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
folder, name, tool = sys.argv[1:]
sys.path.insert(0, folder)
module = importlib.import_module("authors." + name)
from theano_ng.audit import audit
from theano_ng.audit.driver import as_case
from theano_ng.configdefaults import config

def in_debugmode():
    import theano_ng as theano
    from theano_ng.audit.targets import Target
    from theano_ng.compile.debugmode import DebugMode
    config.DebugMode.search = 0.2 if tool == "search" else 0.0
    for op, inputs in module.audit_cases():
        target = Target(as_case(op, inputs))
        built = target.base
        mode = DebugMode(optimizer=None, stability_patience=1, check_isfinite=False)
        variables = [theano.In(v, mutable=True) for v in built.variables]
        f = theano.function(variables, list(built.node.outputs), mode=mode, accept_inplace=True)
        for _ in range(2):
            f(*built.values([slot.value for slot in target.slots]))

def by_audit():
    for op, inputs in module.audit_cases():
        report = audit(as_case(op, inputs), max_examples=15)
        for finding in report.findings:
            return finding.error
    return ""

start = time.perf_counter()
found = ""
try:
    found = by_audit() if tool == "audit" else in_debugmode() or ""
except Exception as failure:
    found = type(failure).__name__
print(json.dumps([found, round(time.perf_counter() - start, 1)]))
"""

TOOLS = ("tests", "debugmode", "search", "audit")


def outcome(module, tool, fault=None):
    """Run a tool on a module.

    Parameters
    ----------
    module : str
    tool : str
        One of `TOOLS`.
    fault : PlantedFault, optional

    Returns
    -------
    (str, float)
        The name of the error that was found, or "", and the seconds. If the process died, the name is "Crash"; if it did
        not end in time, it is "Timeout".
    """
    with tempfile.TemporaryDirectory() as folder:
        copy_folder(os.path.join(folder, "authors"), fault)
        environment = dict(os.environ, PYTHONPATH=os.pathsep.join(filter(None, [ROOT, os.environ.get("PYTHONPATH")])))
        if tool == "tests":
            command = ["-m", "unittest", "-f", _copied_tests(folder, module)]
        else:
            command = ["-c", PROGRAM, folder, module, tool]
        try:
            done = subprocess.run(
                [sys.executable, "-W", "ignore", *command],
                cwd=folder,
                env=environment,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=LIMIT,
            )
        except subprocess.TimeoutExpired:
            return "Timeout", float(LIMIT)
    if done.returncode < 0:
        return "Crash", 0.0
    if tool == "tests":
        return ("failed" if done.returncode else ""), 0.0
    return tuple(json.loads(done.stdout.splitlines()[-1]))


def _copied_tests(folder, module):
    """Copy the author's tests of a module, so that they import the changed module. Return the name of the copy."""
    with open(os.path.join(FOLDER, "test_%s.py" % module), encoding="utf-8") as file:
        text = file.read()
    text = text.replace("theano_ng.tests.authors.%s " % module, "authors.%s " % module)
    text = text.replace("from theano_ng.tests.authors import %s" % module, "from authors import %s" % module)
    with open(os.path.join(folder, "test_copy.py"), "w", encoding="utf-8") as file:
        file.write(text)
    return "test_copy"


def row_of(fault):
    """Return the row of a fault: kind, module, name, and for each tool the name of the error; fits; seconds."""
    found = {tool: outcome(fault.module, tool, fault) for tool in TOOLS}
    name, seconds = found["audit"]
    fits = "yes" if name in FITTING[fault.kind].split() else "no"
    return [fault.kind, fault.module, fault.name, *[found[tool][0] for tool in TOOLS], fits, "%.1f" % seconds]


def main(argv=None):
    """Run the command. The exit status is 1 if a tool finds an error in an unchanged Op."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="names of faults (all)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--csv", metavar="FILE", help="write the table")
    arguments = parser.parse_args(argv)
    chosen = [fault for fault in FAULTS if not arguments.names or fault.name in arguments.names]
    false_alarms, rows = [], []
    with ThreadPoolExecutor(arguments.processes) as pool:
        unchanged = [(module, tool) for module in MODULES for tool in TOOLS] if not arguments.names else []
        for (module, tool), (name, _) in zip(unchanged, pool.map(lambda pair: outcome(*pair), unchanged)):
            if name:
                false_alarms.append("%s: %s says %s about the unchanged Op" % (module, tool, name))
                print(false_alarms[-1], flush=True)
        for row in pool.map(row_of, chosen):
            rows.append(row)
            print("%-13s %-16s %-38s %-9s %-20s %-20s %-20s %-3s %6s" % tuple(row), flush=True)
    if arguments.csv:
        with open(arguments.csv, "w", newline="", encoding="utf-8") as file:
            table = csv.writer(file, lineterminator="\n")
            table.writerow(["kind", "Op", "fault", *TOOLS, "fits", "seconds"])
            table.writerows(rows)
    print(summary(rows))
    return bool(false_alarms)


def summary(rows):
    """Return a line with the numbers of faults that each tool found."""
    counts = ["%s %d" % (tool, sum(bool(row[3 + i]) for row in rows)) for i, tool in enumerate(TOOLS)]
    fits = sum(row[-2] == "yes" for row in rows)
    return "%d faults; found by %s; %d by the audit under a fitting name" % (len(rows), ", ".join(counts), fits)


if __name__ == "__main__":
    sys.exit(main())
