"""Runs trials of mutants, and stores the results. A campaign that was stopped continues where it stopped."""

import ast
import collections
import fnmatch
import functools
import itertools
import json
import os

from theano_ng.tests.mutants import builds, sample, trial
from theano_ng.tests.mutants.reach import Server, module_of
from theano_ng.tests.mutants.records import read

BUDGET = 8.0  # limit in seconds for the total processor time of the cases of a mutant, measured on unchanged code
SHORTEST = 0.1  # seconds added to the time of each case when cases are ordered by time
# The maximum number of cases for code that runs at import. It is not known which cases depend on such code.
IMPORTED = 40
# Test modules that cover whole families of rules or of native Ops.
FAMILIES = (
    "theano_ng.tests.test_rules_on_graphs.",
    "theano_ng.tensor.tests.test_beyond_blocks.",
    "theano_ng.tensor.tests.test_interpreter_special.",
    "theano_ng.tensor.tests.test_zero_divisors.",
    "theano_ng.tests.test_odd_arrays.",
)
KERNEL_TEXTS = os.path.join("scalar", "c_code", "")  # C code that is part of libraries and of kernels
# File patterns, and the flags under which the code of these files runs. With an empty `cxx`, kernels are never
# compiled; with `tiered=off`, they are compiled at once.
CONDITIONS = (
    ("loops/blocks/* tensor/native/elementwise/blocks/* scalar/c_code/*", {"cxx": ""}),
    (
        "loops/* tensor/elemwise/kernel.py tensor/elemwise/cgen.py scan/kernel.py scan/array_source.py",
        {"tiered": "off"},
    ),
)


def conditions(path):
    """Return the flags under which the code of a file runs, as a dict."""
    for patterns, flags in CONDITIONS:
        if any(fnmatch.fnmatch(path, pattern) for pattern in patterns.split()):
            return flags
    return {}


class Results:
    """The outcomes of trials, kept in a file with a line of JSON for each trial. The last line of a mutant counts.

    Attributes
    ----------
    found : dict
        Key of a mutant -> dict with its path, function, line, kind, diff, the ``seconds`` of processor time that the
        trial took, and the ``outcome``: "caught" (with ``case`` and ``how``), "survived", or "refused" by the compiler.
        ``at first`` is the outcome of its first trial.
    """

    def __init__(self, path):
        self.path, self.found = path, {}
        if os.path.exists(path):
            with open(path) as file:
                for line in file:
                    self._add(json.loads(line))

    def keep(self, mutant, source, result):
        about = {name: getattr(mutant, name) for name in ("key", "path", "function", "line", "kind")}
        line = {**about, "diff": mutant.diff(source), **result}
        self._add(line)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")

    def _add(self, line):
        known = self.found.get(line["key"], line)
        self.found[line["key"]] = {**line, "at first": known.get("at first", known["outcome"])}

    def catches(self, path=None):
        """Return the number of mutants that each case has caught, in one file or in all files, as a Counter."""
        caught = [r["case"] for r in self.found.values() if path in (None, r["path"]) and r["outcome"] == "caught"]
        return collections.Counter(caught)


class Campaign:
    """A campaign. It tries each mutant on the cases that run the changed code.

    Parameters
    ----------
    reach : Reach
    modules : list of str
        Test modules that are imported before the first trial.
    folder : str
        The folder for changed source files and libraries.
    results : Results
        The known results. Cases that have caught mutants of a file are tried first on other mutants of this file.
    budget : float
        The limit for the total time of the cases of a mutant, in seconds.
    """

    def __init__(self, reach, modules, folder, results, budget=BUDGET):
        self.reach, self.modules, self.folder, self.results, self.budget = reach, modules, folder, results, budget
        self._servers, self._sound, self._spent = {}, {}, 0.0
        self._builder = None
        os.makedirs(folder, exist_ok=True)

    def close(self):
        for server in self._servers.values():
            server.close()

    def _ask(self, install, cases):
        kind = "bare" if install["how"] == "import" else "loaded"
        if kind not in self._servers:
            targets = [module_of(path) for path in self.reach.marks.first if path.endswith(".py")]
            self._servers[kind] = Server(kind, {"modules": self.modules, "targets": targets})
        answer = self._servers[kind].ask(install=install, cases=cases)
        self._spent += answer["spent"]
        return answer

    # -- one mutant

    def attempt(self, mutant, source):
        """Try a mutant on its cases.

        Returns
        -------
        dict
            ``outcome``, the ``seconds`` of processor time of the trial, and the case that caught the mutant.
        """
        self._spent = 0.0
        before = os.times()
        result = self._outcome(mutant, source)
        after = os.times()
        compiled = after.children_user - before.children_user + after.children_system - before.children_system
        return {**result, "seconds": round(self._spent + compiled, 2)}

    def _outcome(self, mutant, source):
        installs = self._installs(mutant, source)
        if installs is None:
            return {"outcome": "refused"}
        cases = self._cases(mutant)
        if not cases:
            return {"outcome": "survived", "how": "no test runs it"}
        for install, original in installs:
            result = self._judged(install, original, cases)
            if result["outcome"] != "cannot be patched":
                return {**result, "of": len(cases)}
        raise RuntimeError("%s can neither be patched nor imported" % mutant.path)

    def _cases(self, mutant):
        """Return (case, seconds) of the cases that run a mutant, up to the budget, the most relevant cases first."""
        imported = self._is_imported(mutant)
        found = self._cases_of_statement(mutant) if imported else self._cases_of_place(mutant)
        cases, spent = [], 0.0
        for case in found[:IMPORTED] if imported else self._ordered(mutant, found):
            spent += self.reach.seconds[case]
            if cases and spent > self.budget:
                break
            cases.append((case, self.reach.seconds[case]))
        return cases

    def _cases_of_place(self, mutant):
        """Return the cases that run the changed code.

        For macros in a header without marks, return the cases of the files that include the header. For C code that is
        part of kernels, add the cases that compile kernels.
        """
        path = mutant.path
        found = self.reach.cases(path, mutant.start)
        if not found and path.endswith(".h") and not self.reach.marks.spans[path]:
            others = [p for p in self.reach.marks.first if not p.endswith(".py") and path in builds.includes(p)]
            found = sorted({case for other in others for case in self.reach.cases_of_file(other)})
        if path.startswith(KERNEL_TEXTS):
            found = list(dict.fromkeys([*found, *filter(trial.compiles_kernels, self.reach.seconds)]))
        return found

    def _is_imported(self, mutant):
        """Return True if the changed code runs at import, so that its module must be imported again."""
        if not mutant.path.endswith(".py"):
            return False
        return not mutant.function or self.reach.marks.number(mutant.path, mutant.start) in self.reach.imported

    def _ordered(self, mutant, cases):
        """Return the cases in the order of the trial. Cases are taken alternately from two orders.

        The first order begins with the cases that have caught most mutants of the file per second. The following groups
        are the example and the audit of the rule, other examples, tests with the name of the file, tests of whole
        families, tests of the package of the file, and all other cases. Within a group, cases that have caught more
        mutants of other files per second come first. Ties are ordered by time, the fastest case first. The second order
        begins with the cases that run little other code of the file.
        """
        of_file, of_all = self.results.catches(mutant.path), self.results.catches()
        passed = self.reach.passed(mutant.path)
        rule = mutant.function.partition(".")[0]
        name = "_" + os.path.basename(mutant.path).partition(".")[0] + "."
        package = ".%s." % mutant.path.partition(os.sep)[0]
        kinds = [
            lambda case: case in ("example " + rule, "oracle " + rule),
            lambda case: case.startswith("example "),
            lambda case: name in case,
            lambda case: any(family in case for family in FAMILIES),
            lambda case: package in case or case.startswith("oracle "),
            lambda case: True,
        ]

        def place(case):
            seconds = self.reach.seconds[case]
            kind = next(i for i, is_kind in enumerate(kinds) if is_kind(case))
            return -of_file[case] / (seconds + SHORTEST), kind, -of_all[case] / (seconds + SHORTEST), seconds, case

        def breadth(case):
            seconds = self.reach.seconds[case]
            return passed[case] * (seconds + SHORTEST), seconds, case

        turns = zip(sorted(cases, key=place), sorted(cases, key=breadth))
        return list(dict.fromkeys(itertools.chain.from_iterable(turns)))

    def _cases_of_statement(self, mutant):
        """Return cases for code that a module runs at import.

        The cases have this order:

        1. checks of the registration of rules;
        2. cases that run the changed function, or examples of the rules that the changed statement creates, and tests
           that contain the names of these rules;
        3. cases that run any code of the file. If there are none, all cases follow.
        """
        statement = _statement(mutant)
        if mutant.function:
            near = self._ordered(mutant, self.reach.cases(mutant.path, mutant.start))
        elif isinstance(statement, ast.FunctionDef):
            start = (
                sum(map(len, read(mutant.path).splitlines(True)[: statement.body[-1].lineno - 1]))
                + statement.body[-1].col_offset
            )
            near = self._ordered(mutant, self.reach.cases(mutant.path, start))
        else:
            names = _names(statement)
            near = ["example " + name for name in names if "example " + name in self.reach.seconds]
            near += self._mentioning(names)
        rest = self.reach.cases_of_file(mutant.path) or self.reach.seconds
        general = [case for case in self.reach.seconds if case.startswith("own ")]
        return list(dict.fromkeys([*general, *near, *self._ordered(mutant, rest)]))

    def _mentioning(self, names):
        """Return tests of modules that contain one of the names. Tests that contain most names come first."""
        found = {}
        for module in self.modules:
            counts = {test: sum(name in text for name in names) for test, text in _tests_of(module).items()}
            if any(counts.values()):
                found.update(
                    (case, counts.get(case.rpartition(".")[2], 0)) for case in self.reach.seconds if module in case
                )
        return sorted(found, key=lambda case: (-found[case], self.reach.seconds[case], case))

    def _judged(self, install, original, cases):
        """Return the outcome of a trial.

        A failing case counts only if it also fails alone, and passes with the original code.
        """
        while True:
            result = self._ask(install, cases)
            if result["outcome"] in ("survived", "cannot be patched"):
                return {"outcome": result["outcome"]}
            case, how = result.get("case"), result.get("how") or result["outcome"]
            if case is None and install["how"] == "code":
                raise RuntimeError("the changed code of %s could not be installed: %s" % (install["module"], how))
            if case is None:
                return {"outcome": "caught", "case": "import", "how": how}
            chosen = next(c for c in cases if c[0] == case)
            alone = chosen == cases[0] or self._ask(install, [chosen])["outcome"] not in (
                "survived",
                "cannot be patched",
            )
            if alone and self._is_sound(original, chosen):
                return {"outcome": "caught", "case": case, "how": how}
            cases = [c for c in cases if c is not chosen]
            if not cases:
                return {"outcome": "survived", "how": "no test runs it"}

    def _is_sound(self, original, case):
        """Return True if a case passes with the original code.

        The original code is installed in the same way as the changed code.
        """
        key = json.dumps(
            [{k: v for k, v in original.items() if k != "path" or original["how"] == "module"}, case[0]], sort_keys=True
        )
        if key not in self._sound:
            self._sound[key] = self._ask(original, [case])["outcome"] in ("survived", "cannot be patched")
        return self._sound[key]

    # -- ways to install changed code

    def _installs(self, mutant, source):
        """Return ways to install code, as pairs (changed code, original code), the fastest way first.

        Return None if the compiler refuses the code.
        """
        flags = conditions(mutant.path)
        return (self._python if mutant.path.endswith(".py") else self._library)(mutant, source, flags)

    def _python(self, mutant, source, flags):
        module = module_of(mutant.path)
        paths = []
        for name, text in (("changed.py", mutant.apply(source)), ("original.py", source)):
            paths.append(os.path.join(self.folder, name))
            with open(paths[-1], "wb") as file:
                file.write(text)
        ways = ("import",) if self._is_imported(mutant) else ("code", "import")
        return [[{"how": way, "module": module, "path": path, "flags": flags} for path in paths] for way in ways]

    def _library(self, mutant, source, flags):
        self._builder = self._builder or builds.Builder(self.folder)
        module = self._module(mutant)
        changed, original = (os.path.join(self.folder, word + module + ".so") for word in ("changed.", "original."))
        if not os.path.exists(original) and not self._builder.build(module, original):
            raise RuntimeError("%s does not compile: build the package first" % module)
        self._builder.replace(mutant.path, mutant.apply(source))
        try:
            if not self._builder.build(module, changed):
                return None
        finally:
            self._builder.restore(mutant.path)
        pair = [{"how": "module", "module": module, "path": path, "flags": flags} for path in (changed, original)]
        if mutant.path.startswith(KERNEL_TEXTS):
            text = os.path.join(self.folder, "changed." + os.path.basename(mutant.path))
            with open(text, "wb") as file:
                file.write(mutant.apply(source))
            pair[0]["support"] = {os.path.basename(mutant.path): text}
        return [pair]

    def _module(self, mutant):
        """Return the extension to build with the changed C file: the file's own, or the one that most cases use."""
        modules = builds.modules_of(mutant.path, self._builder)
        own = "theano_ng." + mutant.path[:-2].replace(os.sep, ".")
        return own if own in modules else self._nearest(mutant, modules)

    def _nearest(self, mutant, modules):
        cases = [case for case, _ in self._cases(mutant)]

        def uses(module):
            path = module.removeprefix("theano_ng.").replace(".", os.sep) + ".c"
            return path in self.reach.marks.first and len(set(self.reach.cases_of_file(path)) & set(cases))

        return max(modules, key=uses)


def _statement(mutant):
    """Return the top-level statement that contains a mutant."""
    return next(s for s in ast.parse(read(mutant.path)).body if _first_line(s) <= mutant.line <= s.end_lineno)


def _first_line(statement):
    return min([statement.lineno, *(d.lineno for d in getattr(statement, "decorator_list", ()))])


def _names(statement):
    """Return the names and strings of a statement that may be names of rules."""
    nodes = list(ast.walk(statement))
    found = {
        n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str) and n.value.isidentifier()
    }
    found |= {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return sorted(name for name in found if "_" in name)


@functools.cache
def _tests_of(module):
    """Return a dict from the name of each test method of a module to its source code."""
    text = read(module.removeprefix("theano_ng.").replace(".", os.sep) + ".py").decode()
    nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.name.startswith("test")]
    lines = text.splitlines()
    return {node.name: "\n".join(lines[node.lineno - 1 : node.end_lineno]) for node in nodes}


def run(campaign, results, paths, count, seed, say, again=(), only=None, first=None):
    """Try a sample of mutants.

    Parameters
    ----------
    campaign : Campaign
    results : Results
    paths : list of str
    count : int
    seed : int
    say : callable
        A function that is called with each mutant that was tried and its result.
    again : collection of str
        Mutants with these outcomes are tried again.
    only : collection of str, optional
        If given, only the mutants of these files are tried.
    first : int, optional
        The maximum number of mutants, in the order of `sample.turns`.

    Returns
    -------
    list of str
        The keys of the mutants that were tried.
    """
    drawn = {path: sample.Drawn(path, seed) for path in paths}
    shares = sample.quotas({path: len(d.mutants) for path, d in drawn.items()}, count)
    chosen = {path: shares[path] for path in paths if only is None or path in only}
    keys, queues = [], {path: iter(drawn[path].mutants) for path in chosen}
    for path in sample.turns(chosen, seed)[:first]:
        mutant = _next(campaign, results, drawn[path], queues[path], say, again)
        if mutant is not None:
            keys.append(mutant.key)
    return keys


def _next(campaign, results, drawn, queue, say, again):
    """Try the next mutants of a file until one compiles, and return it. Return None if no mutant is left."""
    for mutant in queue:
        known = results.found.get(mutant.key)
        if known is None and not drawn.is_another_program(mutant):
            continue
        if known is None or known["outcome"] in again:
            results.keep(mutant, drawn.source, campaign.attempt(mutant, drawn.source))
            known = results.found[mutant.key]
            say(mutant, known)
        if known["outcome"] != "refused":
            return mutant
    return None
