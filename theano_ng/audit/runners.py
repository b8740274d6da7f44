"""Runs one node by one of its implementations, without a function around it: what the Op does is seen as it is."""

from theano_ng.audit.context import limited
from theano_ng.audit.driver import one_line
from theano_ng.compile.debugmode.checks import _lessbroken_deepcopy
from theano_ng.gof.graph import Constant
from theano_ng.gof.native import meets_unknown_halves
from theano_ng.gof.op import Op, has_c_implementation, has_perform
from theano_ng.gof.utils import MethodNotDefined


class Unbuildable(Exception):
    """Raised for a node that nothing can be built to run.

    Parameters
    ----------
    error : str
        One of `names.NAMES`.
    message, evidence : str
        As for `Finding`.
    method : str
        The method of the Op to look at.
    """

    def __init__(self, error, message, evidence, method):
        super().__init__(error, message, evidence, method)
        self.error, self.message, self.evidence, self.method = error, message, evidence, method


class Runner:
    """Runs a node.

    Parameters
    ----------
    built : Built
    kind : {'py', 'c'}

    Attributes
    ----------
    inputs, outputs : list of list
        Cells of the node's variables and of its outputs. What a call leaves in those of the outputs the next one finds there.
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
        """The outputs for values of the node's variables.

        Parameters
        ----------
        values : list
            In the layout to use; what Types do not accept is converted as by a call of a function.
        keep : bool
            Whether to find in the output cells what the call before left there.

        Returns
        -------
        list
            Copies: outputs may be views, or be overwritten by the next call.
        """
        for cell, variable, value in zip(self.inputs, self.built.variables, values):
            cell[0] = variable.type.filter(value)
        for cell, variable in zip(self.outputs, self.node.outputs):
            if not keep:
                cell[0] = None
            self.compute[variable][0] = False
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
                raise RuntimeError("the lazy thunk of %s keeps asking for inputs that are there" % (self.node,))
            asked.update(missing)


def make_runner(built, kind):
    """A `Runner`, or None when the Op has no such implementation for the node.

    Parameters
    ----------
    built : Built
    kind : {'py', 'c', 'any'}
        'any': Python, or C where there is none, or what `make_thunk` gives.

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
    if meets_unknown_halves(built.node) and not (hasattr(op, "native_code") and op.native_code(built.node) is not None):
        return None  # as decided, and printed, by make_c_thunk
    try:
        return _built(built, "c")
    except (NotImplementedError, MethodNotDefined):
        return None  # not for these types


def _built(built, kind):
    """A `Runner`; what the Op raises meanwhile has a name."""
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
