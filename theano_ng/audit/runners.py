"""Runners. A runner executes one implementation of a node directly, without a compiled function."""

from theano_ng.audit.problems import one_line
from theano_ng.audit.processes import limited, step
from theano_ng.compile.debugmode.checks import _lessbroken_deepcopy
from theano_ng.gof.graph import Constant
from theano_ng.gof.native import reads_raw_float16
from theano_ng.gof.op import Op, has_c_implementation, has_perform
from theano_ng.gof.utils import MethodNotDefined


class Unbuildable(Exception):
    """The exception for a node for which no runner can be built.

    Parameters
    ----------
    error : str
        One of `names.NAMES`.
    message, evidence : str
        The attributes of the `Finding`.
    method : str
        The method of the Op that is probably wrong.
    """

    def __init__(self, error, message, evidence, method):
        super().__init__(error, message, evidence, method)
        self.error, self.message, self.evidence, self.method = error, message, evidence, method


class Runner:
    """A function that runs one implementation of a node.

    Parameters
    ----------
    built : Built
    kind : {'py', 'c', 'thunk'}
        The implementation: `perform`, the C code, or the thunk of an Op that overrides `make_thunk`.

    Attributes
    ----------
    inputs, outputs : list of list
        Storage cells of the node's variables and of its outputs. The output cells keep their values until the next
        call.
    """

    def __init__(self, built, kind):
        self.built, self.node, self.kind = built, built.node, kind
        node = built.node
        storage = {v: [_lessbroken_deepcopy(v.data)] if isinstance(v, Constant) else [None] for v in node.inputs}
        storage.update((v, [None]) for v in node.outputs)
        compute = {v: [v.owner is None or v not in node.outputs] for v in storage}
        op = node.op
        if kind == "thunk":
            self.thunk = op.make_thunk(node, storage, compute, [])
        else:
            op.prepare_node(node, storage_map=storage, compute_map=compute, impl=kind)
            make = op.make_c_thunk if kind == "c" else op.make_py_thunk
            self.thunk = make(node, storage, compute, [])
        self.storage, self.compute = storage, compute
        self.inputs = [storage[v] for v in built.variables]
        self.outputs = [storage[v] for v in node.outputs]

    def __call__(self, values, keep=False):
        """Compute the outputs for values of the node's variables.

        Parameters
        ----------
        values : list
            The values, in the layouts to use. A value that its Type does not accept is converted, as in the call of a
            function.
        keep : bool
            If True, the output cells hold the outputs of the previous call when the thunk runs.

        Returns
        -------
        list
            Copies of the outputs, because outputs may be views, and the next call may overwrite them.
        """
        for cell, variable, value in zip(self.inputs, self.built.variables, values):
            cell[0] = variable.type.filter(value)
        for cell, variable in zip(self.outputs, self.node.outputs):
            if not keep:
                cell[0] = None
            self.compute[variable][0] = False
        step()
        try:
            limited(self._run)
            return [_lessbroken_deepcopy(cell[0]) for cell in self.outputs]
        finally:
            for cell in self.inputs:
                cell[0] = None

    def _run(self):
        asked = set()
        while True:
            missing = self.thunk()
            if not getattr(self.thunk, "lazy", False) or not missing:
                return
            if set(missing) <= asked:
                raise RuntimeError(
                    "the lazy thunk of %s keeps asking for inputs that are already computed" % (self.node,)
                )
            asked.update(missing)


def make_runner(built, kind):
    """Return a `Runner`, or None if the Op lacks this implementation for the node.

    Parameters
    ----------
    built : Built
    kind : {'py', 'c', 'any'}
        'any' means the Python implementation, or C code if the Op has no `perform`. If the Op overrides `make_thunk`,
        'any' means the thunk that this method makes.

    Raises
    ------
    Unbuildable
    """
    op = built.op
    if kind == "any":
        if type(op).make_thunk is not Op.make_thunk or "make_thunk" in vars(op):
            return _built(built, "thunk")
        return make_runner(built, "py") or make_runner(built, "c")
    if kind == "py":
        return _built(built, "py") if has_perform(op) else None
    if not has_c_implementation(op):
        return None
    if reads_raw_float16(built.node) and not (hasattr(op, "native_code") and op.native_code(built.node) is not None):
        return None  # make_c_thunk would refuse these nodes, too, but would print a message
    try:
        return _built(built, "c")
    except (NotImplementedError, MethodNotDefined):
        return None  # the implementation does not support these types


def _built(built, kind):
    """Return a `Runner`. Convert an exception of the Op to `Unbuildable` with the name of the error."""
    try:
        return Runner(built, kind)
    except (NotImplementedError, MethodNotDefined):
        raise
    except Exception as failure:
        op, reason = built.op, one_line(failure)
        if kind != "c":
            method = "make_thunk" if kind == "thunk" else "prepare_node"
            raise Unbuildable(
                "BadThunkOutput", "no thunk can be made for %s: %s" % (built, reason), str(failure), method
            ) from failure
        try:
            op.c_code_cache_version_apply(built.node)
        except Exception as cause:
            if type(cause) is type(failure):
                raise Unbuildable(
                    "BadCacheVersion", "c_code_cache_version raises %s" % reason, str(failure), "c_code_cache_version"
                ) from failure
        raise Unbuildable(
            "CompileError", "the C code cannot be built for %s: %s" % (built, reason), str(failure), "c_code"
        ) from failure
