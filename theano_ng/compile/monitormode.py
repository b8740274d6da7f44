"""MonitorMode: a mode that calls the user's functions around every node."""

from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof import link
from theano_ng.gof.vm import VM_Linker
from theano_ng.printing import debugprint

_OWN_LINKERS = (None, "c|py", "py", "c|py_nogc", "vm", "cvm", "vm_nogc", "cvm_nogc")


class MonitorMode(Mode):
    """A mode whose functions call the user's functions before and after each node runs.

    Parameters
    ----------
    pre_func, post_func : callable, optional
        Functions that are called before and after each node as ``f(i, node, fn)``: `i` is the node's position in the
        order of execution, and `fn` is its thunk. ``fn.inputs`` and ``fn.outputs`` are lists of cells:
        ``fn.inputs[0][0]`` is the value of the first input.
    optimizer : str, Query or Optimizer
        "default" stands for the optimizer of config.optimizer.
    linker : str, optional
        The name of an ordinary linker. MonitorMode always uses its own linker. The name only selects the code that
        this linker runs: for "py", Python code; for all other names, C code where C code exists.

    Notes
    -----
    Intermediate values are not freed, so that the user's functions can read all cells. The flags optimizer_including,
    optimizer_excluding and optimizer_requiring have no effect; use the methods `including`, `excluding` and
    `requiring`.
    """

    def __init__(self, pre_func=None, post_func=None, optimizer="default", linker=None):
        self.pre_func = pre_func
        self.post_func = post_func
        if isinstance(linker, str) or linker is None:
            if linker not in _OWN_LINKERS:
                raise Exception("MonitorMode can only use its own linker! You should not provide one.", linker)
            c_thunks = False if linker == "py" else None
            linker = link.WrapLinkerMany([VM_Linker(allow_gc=False, lazy=False, c_thunks=c_thunks)], [self.eval])
        elif not isinstance(linker, link.WrapLinker):
            raise Exception("MonitorMode can only use its own linker! You should not provide one.", linker)
        if isinstance(optimizer, str) and optimizer == "default":
            optimizer = config.optimizer
        super().__init__(linker, optimizer=optimizer)

    def __reduce__(self):
        # Do not copy the linker, because it refers to this mode. The constructor makes a separate linker for the copy.
        return type(self), (self.pre_func, self.post_func, self.provided_optimizer)

    def eval(self, i, node, fn):
        """Run one node. Call the user's functions before and after it.

        Parameters
        ----------
        i : int
        node : Apply
        fn : callable
            The node's thunk.
        """
        if self.pre_func is not None:
            self.pre_func(i, node, fn)
        fn()
        if self.post_func is not None:
            self.post_func(i, node, fn)

    def clone(self, link_kwargs=None, optimizer="", **kwargs):
        """Return a copy of this mode, with another optimizer if one is given. `link_kwargs` is accepted but ignored."""
        if isinstance(optimizer, str) and optimizer == "":
            optimizer = self.provided_optimizer
        return type(self)(self.pre_func, self.post_func, optimizer=optimizer)


def detect_nan(i, node, fn):
    """Print a node if one of its outputs contains a NaN. The function can be the `post_func` of a MonitorMode.

    Values that are not numeric arrays, such as random states, are skipped.
    """
    import numpy

    for cell in fn.outputs:
        value = cell[0]
        if isinstance(value, (numpy.random.RandomState, numpy.random.Generator)) or value is None:
            continue
        array = numpy.asarray(value)
        if array.dtype.kind in "fc" and numpy.isnan(array).any():
            print("*** NaN detected ***")
            debugprint(node)
            print("Inputs : %s" % [c[0] for c in fn.inputs])
            print("Outputs: %s" % [c[0] for c in fn.outputs])
            break
