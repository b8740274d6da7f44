"""A mode that shows every step of a run to the user."""

from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof import link
from theano_ng.gof.vm import VM_Linker
from theano_ng.printing import debugprint

_OWN_LINKERS = (None, "c|py", "py", "c|py_nogc", "vm", "cvm", "vm_nogc", "cvm_nogc")


class MonitorMode(Mode):
    """Calls functions before and after each node runs.

    Parameters
    ----------
    pre_func, post_func : callable, optional
        Called before and after a node as ``f(i, node, fn)``: position in the program, Apply node, thunk. ``fn.inputs`` and
        ``fn.outputs`` are lists of cells: ``fn.inputs[0][0]`` is the first input's value.
    optimizer : str, Query or Optimizer
        "default": that of config.optimizer.
    linker : str, optional
        MonitorMode has its own linker; only the names of the ordinary linkers are accepted: the "py" one runs Python code, all others
        run C where there is some.

    Notes
    -----
    Intermediate values are not freed, so that functions may look at all cells. The flags optimizer_including, optimizer_excluding and
    optimizer_requiring do not apply; use the methods `including`, `excluding` and `requiring`.
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
        # the linker refers to this very object
        return type(self), (self.pre_func, self.post_func, self.provided_optimizer)

    def eval(self, i, node, fn):
        """Run one node between the user's functions.

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
        """A copy of this mode, with another optimizer when one is given; `link_kwargs` can change nothing but is accepted."""
        if isinstance(optimizer, str) and optimizer == "":
            optimizer = self.provided_optimizer
        return type(self)(self.pre_func, self.post_func, optimizer=optimizer)


def detect_nan(i, node, fn):
    """A `post_func` that prints a node when one of its outputs has a NaN.

    Values that are not numeric arrays, e.g. random states, are passed over.
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
