"""Records which tests run a line. Each test runs once on marked code, in a separate process."""

import collections
import itertools
import json
import marshal
import os
import subprocess
import sys

from theano_ng.tests.mutants import builds, marks
from theano_ng.tests.mutants.records import PACKAGE, digest, read

LONGEST = 6  # time limit in seconds; trials do not run cases that take longer
OF_REGISTRATION = 0.5  # seconds that a check of all registrations takes
OF_AUDIT = 1.5  # seconds that the audit of a rule takes approximately
WHERE = os.path.dirname(os.path.abspath(__file__))


def module_of(path):
    """Return the module name of a Python file of the package."""
    name = "theano_ng." + path[:-3].replace(os.sep, ".")
    return name.removesuffix(".__init__")


class Server:
    """A server process that runs trials; see the module `server`."""

    def __init__(self, kind, options, flags=()):
        environment = dict(os.environ)
        environment["THEANO_FLAGS"] = ",".join(filter(None, [environment.get("THEANO_FLAGS", ""), *flags]))
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [builds.ROOT, environment.get("PYTHONPATH")]))
        command = [sys.executable, "-W", "ignore", os.path.join(WHERE, "server.py"), kind]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self._send(options)
        if self.process.stdout.readline() != "ready\n":
            raise RuntimeError("the server of trials does not start; try %s" % " ".join(command))

    def _send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, **job):
        """Send a job to the server and return the answer of `trial.run`."""
        self._send({"install": None, "cases": [], **job})
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()


class Reach:
    """A record of the marks that each case passes, and of the time that it takes.

    Attributes
    ----------
    marks : Marks
    seconds : dict
        Case -> seconds of processor time. Only cases that pass on unchanged code are contained.
    imported : frozenset of int
        The marks that the import of the package passes. They do not depend on the case.
    """

    def __init__(self, found, recorded):
        self.marks, self.seconds, self._cases = found, {}, collections.defaultdict(list)
        self._passed = {}
        self.imported = frozenset(recorded.pop("imported", ()))
        for module in recorded.values():
            for case, (seconds, numbers) in module["cases"].items():
                self.seconds[case] = seconds
                for number in numbers:
                    self._cases[number].append(case)

    def cases(self, path, start):
        """Return the cases that run the code at a byte of a file, the fastest first.

        If no mark contains the byte, return the cases that run any code of the file.
        """
        number = self.marks.number(path, start)
        found = self._cases[number] if number is not None else self.cases_of_file(path)
        return sorted(found, key=lambda case: (self.seconds[case], case))

    def cases_of_file(self, path):
        """Return all cases that run any code of a file."""
        return sorted(self.passed(path))

    def passed(self, path):
        """Return the number of marks of a file that each case passes, as a Counter."""
        if path not in self._passed:
            cases = (self._cases[number] for number in self.marks.numbers(path))
            self._passed[path] = collections.Counter(itertools.chain.from_iterable(cases))
        return self._passed[path]


def recorded_modules(folder):
    """Return the test modules that have been recorded."""
    kept = os.path.join(folder, "reach.json")
    if not os.path.exists(kept):
        return set()
    with open(kept) as file:
        return set(json.load(file)) - {"layout", "imported"}


def record(paths, modules, folder, flags=(), say=print):
    """Run tests on marked code, and store the marks that they pass.

    Parameters
    ----------
    paths : list of str
        Files to mark.
    modules : list of str
        Test modules. A module is run only if it has not been recorded, or has changed after the recording. If a source
        file has changed after the recording, every recorded test that ran any code of the file counts as running the
        whole file. If ``reach.json`` does not exist, all modules are run.
    folder : str
        The folder of the results. They are stored in the file ``reach.json``.
    flags : sequence of str
        Flags for the tests.
    say : callable
        A function that is called with a line of text about each module that was run.

    Returns
    -------
    Reach
    """
    os.makedirs(folder, exist_ok=True)
    kept = os.path.join(folder, "reach.json")
    recorded = {}
    if os.path.exists(kept):
        with open(kept) as file:
            recorded = json.load(file)
    found = marks.Marks(paths, os.path.join(folder, "marks.json"))
    if recorded.get("layout", found.layout) != found.layout:
        recorded = _moved(recorded, found)
    recorded["layout"] = found.layout
    texts = {module: digest(read(module.removeprefix("theano_ng.").replace(".", os.sep) + ".py")) for module in modules}
    wanted = [module for module in modules if recorded.get(module, {}).get("text") != texts[module]]
    if wanted:
        marked = _marked(found, folder)
        with Server("loaded", {"modules": wanted, "marked": marked}, flags) as server:
            recorded["imported"] = server.ask(imported=True)["marks"]
            for module in wanted:
                recorded[module] = {"text": texts[module], "cases": _recorded(server, module)}
                with open(kept + ".new", "w") as file:
                    json.dump(recorded, file)
                os.replace(kept + ".new", kept)
                cases = recorded[module]["cases"].values()
                say("%-70s %4d cases %7.1f s" % (module, len(cases), sum(seconds for seconds, _ in cases)))
    return Reach(found, {name: recorded[name] for name in ["imported", *modules] if name in recorded})


def _moved(recorded, found):
    """Convert recorded mark numbers after some of the marked files have changed."""
    where, first = {}, 0
    for path, known, count in recorded.pop("layout"):
        new = list(found.numbers(path)) if path in found.first else []
        same = new and found.digests[path] == known
        for i in range(count):
            where[first + i] = new[i : i + 1] if same else new
        first += count

    def moved(numbers):
        return sorted({new for number in numbers for new in where[number]})

    result = {"imported": moved(recorded.pop("imported", ()))}
    for module, tests in recorded.items():
        cases = {case: (seconds, moved(numbers)) for case, (seconds, numbers) in tests["cases"].items()}
        result[module] = {"text": tests["text"], "cases": cases}
    return result


def _recorded(server, module):
    """Return a dict from case to (seconds, marks), for the cases of a module that pass in at most `LONGEST` seconds.

    The audit of a rule is not run here. The marks of the example of the rule are recorded for the audit: the audit runs
    at least the same code, and recording the example takes a fortieth of the time.
    """
    found = {}
    for case in server.ask(list=module).get("cases", ()):
        if case.startswith("own "):  # do not run it: this check passes only if no test has registered rules
            found[case] = OF_REGISTRATION, []
            continue
        known = found.get(case.replace("oracle ", "example "))
        if known is not None:
            found[case] = OF_AUDIT, known[1]
            continue
        answer = server.ask(cases=[(case, 0)], marks=True, most=LONGEST)
        if answer["outcome"] == "survived":
            found[case] = round(answer["seconds"], 3), answer["marks"]
    return found


def _marked(found, folder):
    """Write marked code and libraries. Return the argument ``marked`` of `trial.prepare`."""
    there = os.path.join(folder, "marked")
    made = os.path.join(there, "made.json")
    os.makedirs(there, exist_ok=True)
    if os.path.exists(made):
        with open(made) as file:
            kept = json.load(file)
        if kept["layout"] == found.layout:
            return kept
    marked = {"name": marks.PYTHON_NAME, "count": found.count, "layout": found.layout}
    marked.update(modules=_marked_modules(found, there), libraries=_marked_libraries(found, there))
    with open(made, "w") as file:
        json.dump(marked, file)
    return marked


def _marked_modules(found, there):
    modules = {}
    for path in found.first:
        if path.endswith(".py"):
            module = module_of(path)
            modules[module] = os.path.join(there, module)
            with open(modules[module], "wb") as file:
                marshal.dump(compile(found.marked(path), os.path.join(PACKAGE, path), "exec", dont_inherit=True), file)
    return modules


def _marked_libraries(found, there):
    texts = [path for path in found.first if not path.endswith(".py")]
    if not texts:
        return {}
    builder, libraries = builds.Builder(there), {}
    header = os.path.join(there, "marks.h")
    with open(header, "w") as file:
        file.write(marks.C_HEADER % (marks.C_NAME, found.count))
    for path in texts:
        builder.replace(path, found.marked(path))
    for module in sorted({module for path in texts for module in builds.modules_of(path, builder)}):
        libraries[module] = os.path.join(there, module.rpartition(".")[2] + ".so")
        if not builder.build(module, libraries[module], ["-include", header]):
            raise RuntimeError("the extension %s does not compile after marks are inserted" % module)
    return libraries
