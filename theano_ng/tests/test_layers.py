"""Tests that the import statements of modules name only modules of the same layer (floor) or of lower layers.

Imports inside functions count, too. A lower layer gets functions of a higher layer through a port (`gof/ports.py`), a
registration or a class attribute. Imports under ``if TYPE_CHECKING`` do not count, because they are never executed:
only type checkers and editors read them.
"""

import ast
import os
import unittest

import theano_ng
from theano_ng.moved import MOVED

ROOT = os.path.dirname(os.path.abspath(theano_ng.__file__))

# The floors from the lowest to the highest. A module belongs to the floor that names it, or that names the nearest
# package around it.
FLOORS = (
    (
        "ground",
        "version lazy moved digests extras commands status_line compat misc.ordered_set misc.frozendict misc.strutil misc.windows misc.cpucount"
        " misc.may_share_memory",
    ),
    ("flags", "_flag_block configparser configdefaults misc.safe_asarray"),
    (
        "texts and graphs",
        "gof.utils gof.ports gof.provenance gof.places gof.unify gof.c_interface gof.traversal gof._toposort gof.pickling"
        " gof.graph gof.stack_traces gof.clients gof.sched gof._lock gof._files gof.progress gof.deferred gof.forks",
    ),
    (
        "types and graphs that change",
        "gof.type gof.null_type gof.params_type gof.derivative gof.toolbox gof.fg gof.unpicklable",
    ),
    ("compilers and caches", "gof._native gof.codegen.modulecode gof.compiler gof.callcache gpuarray.device"),
    ("Ops", "gof.native_params gof.native gof.op gof.differentiate"),
    ("rewriting", "gof._destroyhandler gof.destroy gof.rewriting gof.optdb"),
    ("linkers and machines", "gof.program gof.link_errors gof.link gof.codegen gof._cvm gof.lazylinker_c gof.vm"),
    ("gof", "gof"),
    ("printing", "printing"),
    ("scalars", "scalar"),
    ("loop programs", "loops"),
    ("C code without Python", "tensor.native"),
    ("functions", "compile misc.pkl_utils"),
    ("beside functions", "scalar.sharedvar updates raise_op"),
    (
        "types of tensors",
        "tensor.dtypes tensor.exceptions tensor.hashing tensor.type tensor.var tensor.constant tensor.type_other"
        " tensor.constructors tensor.sharedvar tensor.transfer tensor.compile_ops",
    ),
    ("elementwise", "tensor.elemwise tensor.assert_op tensor.shaping.broadcasting"),
    (
        "shapes, indices, reductions, products",
        "tensor.shaping tensor.indexing tensor.reductions tensor.linalg.products tensor.linalg.batches"
        " tensor.blas tensor.sort tensor.counting tensor.extra_ops tensor.constant_rules",
    ),
    (
        "functions of tensors, methods of variables",
        "tensor.basic tensor.methods tensor.equality tensor.saturating tensor.logarithms tensor.shortcuts",
    ),
    (
        "linear algebra, transforms, files, random streams",
        "tensor.linalg tensor.nlinalg tensor.slinalg tensor.fft tensor.fourier tensor.io"
        " tensor.random_shapes tensor.raw_random tensor.shared_randomstreams",
    ),
    ("rules of tensors", "tensor.opt tensor.utils tensor.opt_uncanonicalize tensor.blas.c_variants"),
    ("tensors", "tensor"),
    ("networks", "tensor.nnet tensor.signal"),
    ("chapters", "typed_list sandbox ifelse breakpoint gradient_ops gradient_check gradient scan sparse"),
    (
        "arrays on devices",
        "gpuarray.pygpu gpuarray.contexts gpuarray.type gpuarray.fp16_help gpuarray.kernels gpuarray.native",
    ),
    ("Ops on devices", "gpuarray"),
    ("rules of devices", "gpuarray.opt"),
    ("the package", " "),
    ("tools", "audit d3viz legacy misc tests"),
)


def _floors():
    return {prefix: i for i, (_, prefixes) in enumerate(FLOORS) for prefix in prefixes.split()}


class Import:
    """One name that a module imports.

    Attributes
    ----------
    source, target : str
        Modules, without the name of the package; "" is the package itself.
    line : int
    late : bool
        Whether the import is inside a function.
    """

    def __init__(self, source, target, line, late):
        self.source, self.target, self.line, self.late = source, target, line, late

    def __str__(self):
        return "%s:%d imports %s" % (self.source or "__init__", self.line, self.target or "the package")


def modules():
    """Return a dict from module name to path of its source file. Tests and compiled modules are included."""
    found = {}
    for folder, folders, files in os.walk(ROOT):
        folders[:] = sorted(name for name in folders if name != "__pycache__")
        package = os.path.relpath(folder, ROOT).replace(os.sep, ".")
        for name in sorted(files):
            stem, kind = os.path.splitext(name)
            if kind == ".c" and package.rpartition(".")[0] == "tensor.native":
                found["tensor.native." + stem] = os.path.join(folder, name)  # see native_extensions in setup.py
            elif kind in (".py", ".pyx"):
                parts = ([] if package == "." else [package]) + ([] if stem == "__init__" else [stem])
                found[".".join(parts)] = os.path.join(folder, name)
    return found


def imports_of(name, path, known):
    """Return the imports of one module from this package.

    Modules that do not exist, or no longer exist, are targets, too.
    """
    with open(path, encoding="utf-8") as f:
        tree = ast.parse(f.read(), path)
    found = []

    def add(node, target, attribute, late):
        if target.startswith("."):
            target = "theano_ng." + target  # no such module exists, so a test reports the relative import
        if target != "theano_ng" and not target.startswith("theano_ng."):
            return
        target = target[len("theano_ng.") :]
        if attribute and ".".join(filter(None, (target, attribute))) in known:
            target = ".".join(filter(None, (target, attribute)))
        found.append(Import(name, target, node.lineno, late))

    todo = [(tree, False)]
    while todo:
        parent, late = todo.pop()
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    add(node, alias.name, None, late)
            elif isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    add(node, "." * node.level + (node.module or ""), alias.name, late)
            elif isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                node = ast.Module(node.orelse, [])
            todo.append((node, late or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda))))
    return found


def is_test(name):
    return "tests" in name.split(".")


def all_imports():
    """Return the imports of all modules except tests."""
    known = modules()
    return [
        one
        for name, path in known.items()
        if path.endswith(".py") and not is_test(name)
        for one in imports_of(name, path, known)
    ]


def floor_of(name, floors):
    """Return the number of a module's floor, or None if no floor contains the module."""
    while name and name not in floors:
        name = name.rpartition(".")[0]
    return floors.get(name, len(FLOORS) - 2 if not name else None)


def circles(imports):
    """Return the sets of modules that import each other directly or indirectly.

    These are the strongly connected components (Tarjan 1972), computed without recursion.
    """
    graph = {}
    for one in imports:
        graph.setdefault(one.source, {})[one.target] = None
        graph.setdefault(one.target, {})
    number, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in graph:
        if root in number:
            continue
        work = [(root, iter(graph[root]))]
        number[root] = low[root] = len(number)
        stack.append(root)
        on_stack.add(root)
        while work:
            here, rest = work[-1]
            for there in rest:
                if there not in number:
                    number[there] = low[there] = len(number)
                    stack.append(there)
                    on_stack.add(there)
                    work.append((there, iter(graph[there])))
                    break
                if there in on_stack:
                    low[here] = min(low[here], number[there])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[here])
                if low[here] == number[here]:
                    at = stack.index(here)
                    found.append(set(stack[at:]))
                    on_stack.difference_update(stack[at:])
                    del stack[at:]
    return [one for one in found if len(one) > 1]


# "importer > imported" -> the reason why this import is inside a function, not at the top of the module.
LATE = {
    " > tests.runner": "test() alone needs the test runner",
    "compile.function > misc.pkl_utils": "function_dump alone needs zipfile",
    "legacy.port > legacy.porting": "it is made of LibCST, which need not be installed",
    "tensor.reductions.careduce > tensor.native.reduce": "an extension module that is loaded when something is reduced",
}


class TestLayers(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.imports = all_imports()

    def test_modules_are_imported_from_their_homes(self):
        # The package imports no module by an old name of its table of moved modules, and has no relative imports.
        known = modules()
        self.assertEqual(
            ["%s (%s)" % (one, MOVED.get(one.target, "not there")) for one in self.imports if one.target not in known],
            [],
        )

    def test_every_module_has_a_floor(self):
        floors = _floors()
        known = modules()
        self.assertEqual([name for name in known if floor_of(name, floors) is None], [])
        self.assertEqual([prefix for prefix in floors if prefix not in known and prefix + ".__init__" not in known], [])

    def test_no_arrow_points_upwards(self):
        floors = _floors()
        upwards = []
        for one in self.imports:
            here, there = floor_of(one.source, floors), floor_of(one.target, floors)
            if there > here and not is_test(one.target):
                upwards.append("%s (%s), which is above it (%s)" % (one, FLOORS[there][0], FLOORS[here][0]))
        self.assertEqual(upwards, [])

    def test_no_circles(self):
        self.assertEqual([sorted(one) for one in circles(self.imports)], [])

    def test_imports_inside_functions_are_few_and_have_a_reason(self):
        late = {}
        for one in self.imports:
            if one.late and one.source.split(".")[0] not in ("audit", "misc"):
                late.setdefault("%s > %s" % (one.source, one.target), str(one))
        self.assertEqual(sorted(text for key, text in late.items() if key not in LATE), [])
        self.assertEqual(sorted(set(LATE) - set(late)), [], "these are gone: take them off the list")

    def test_circles_are_found(self):
        arrows = [Import(a, b, 1, False) for a, b in ("ab", "bc", "ca", "cd", "de", "ed", "ef")]
        self.assertEqual(sorted(sorted(one) for one in circles(arrows)), [["a", "b", "c"], ["d", "e"]])


if __name__ == "__main__":
    unittest.main()
