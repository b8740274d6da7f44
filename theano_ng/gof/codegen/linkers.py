"""Linkers that run compiled nodes one by one, and a linker that compares the results of C code and of `perform`.

`clinker` compiles the nodes.
"""

from theano_ng.gof.link import (
    Linker,
    LocalLinker,
    PerformLinker,
    make_eager_program,
    program_containers,
    raise_with_op,
    streamlined,
)
from theano_ng.gof.utils import MethodNotDefined


class OpWiseCLinker(LocalLinker):
    """The class of the linkers 'c|py' and 'c|py_nogc'.

    If the Op of a node has C code, this code computes the node. Otherwise, the Op's `perform` computes it.

    Parameters
    ----------
    fallback_on_perform : bool
        Whether `perform` computes a node without C code. If False, such a node is an error.
    allow_gc : bool, optional
        Whether to free intermediate values as soon as possible. None: `config.allow_gc`.
    nice_errors : bool
        Whether error messages describe the node.
    schedule : callable, optional
        ``schedule(fgraph)`` returns the nodes in order.
    """

    def __init__(self, fallback_on_perform=True, allow_gc=None, nice_errors=True, schedule=None):
        self.fgraph = None
        self.allow_gc = allow_gc
        self.fallback_on_perform = fallback_on_perform
        self.nice_errors = nice_errors
        if schedule is not None:
            self.schedule = schedule

    def accept(self, fgraph, no_recycling=None, profile=None):
        return self._bound_to(fgraph, no_recycling)

    def make_all(self, profiler=None, input_storage=None, output_storage=None, storage_map=None):
        """Return ``(function, input containers, output containers, thunks, nodes)``.

        Parameters
        ----------
        profiler : callable, optional
            ``profiler(function, thunks, order)`` returns the function to use in place of `function`.
        input_storage, output_storage : list of cells, optional
        storage_map : dict, optional
        """
        # This method works without a compiler: code that ships with the package, or that is interpreted, needs no
        # compiler.
        impl = None if self.fallback_on_perform else "c"
        program = make_eager_program(self, impl, input_storage, output_storage, storage_map)
        f, thunks, order = streamlined(program, self.nice_errors), list(program.thunks), list(program.nodes)
        if profiler is not None:
            f = profiler(f, thunks, order)
        return (f, *program_containers(program), thunks, order)


def _default_checker(x, y):
    """Compare the values of a Python cell and a C cell. NaN equals NaN. Lists are compared element by element.

    Raises
    ------
    Exception
        If the values differ.
    """
    import numpy

    def equal(one, other):
        if isinstance(one, list) and isinstance(other, list):
            return len(one) == len(other) and all(equal(a, b) for a, b in zip(one, other))
        numbers = all(getattr(getattr(v, "dtype", None), "kind", "") in ("f", "c") for v in (one, other))
        return numpy.array_equal(one, other, equal_nan=numbers)

    if not equal(x[0], y[0]):
        raise Exception("Output mismatch.", {"performlinker": x[0], "clinker": y[0]})


class DualLinker(Linker):
    """A linker that runs a graph twice, node by node, in Python and in C, and compares the values.

    Parameters
    ----------
    checker : callable
        ``checker(python_cell, c_cell)`` raises an error if the values differ. The node, the output and both values are
        added to the error.
    schedule : callable, optional
        ``schedule(fgraph)`` returns the nodes in order.
    """

    def __init__(self, checker=_default_checker, schedule=None):
        self.fgraph = None
        self.checker = checker
        if schedule is not None:
            self.schedule = schedule

    def accept(self, fgraph, no_recycling=None, profile=None):
        """Bind the linker to a graph, see `Linker.accept`."""
        return self._bound_to(fgraph, no_recycling)

    def make_thunk(self, **kwargs):
        """Return ``(thunk, input containers, output containers)``. The thunk runs the thunks of both linkers.

        The C thunks get copies of the inputs. The output containers hold the results of the Python thunks.

        Parameters
        ----------
        **kwargs
            The arguments of `LocalLinker.make_thunk`. They are passed to the Python linker.
        """
        from copy import deepcopy

        schedule = self.__dict__.get("schedule")
        no_recycling = self.no_recycling
        _, inputs, outputs, py_thunks, order = (
            PerformLinker(schedule=schedule, allow_gc=False)
            .accept(self.fgraph, no_recycling=no_recycling)
            .make_all(**kwargs)
        )
        _, c_inputs, _, c_thunks, _ = (
            OpWiseCLinker(schedule=schedule, allow_gc=False).accept(self.fgraph, no_recycling=no_recycling).make_all()
        )
        checker = self.checker

        def f():
            for ours, theirs in zip(inputs, c_inputs):
                theirs.storage[0] = deepcopy(ours.storage[0])
            for py_thunk, c_thunk, node in zip(py_thunks, c_thunks, order):
                thunk = py_thunk
                try:
                    thunk()
                    thunk = c_thunk
                    thunk()
                    for i, cells in enumerate(zip(py_thunk.outputs, c_thunk.outputs)):
                        try:
                            checker(*cells)
                        except Exception as failure:
                            told = any(isinstance(arg, dict) and "clinker" in arg for arg in failure.args)
                            values = () if told else ({"performlinker": cells[0][0], "clinker": cells[1][0]},)
                            failure.args = (*failure.args, *values, "output %d of %s" % (i, node))
                            raise
                except Exception:
                    raise_with_op(node, thunk)

        return f, inputs, outputs


class HideC:
    """A mixin that hides the C code that an Op inherits, so that the Op runs in Python.

    It must be the first base class.
    """

    def _hidden(*args):
        raise MethodNotDefined()

    c_code = c_code_cleanup = _hidden
    c_headers = c_header_dirs = c_libraries = c_lib_dirs = _hidden
    c_support_code = c_support_code_apply = c_support_code_struct = _hidden
    c_compile_args = c_no_compile_args = _hidden
    c_init_code = c_init_code_apply = c_init_code_struct = c_cleanup_code_struct = _hidden

    def native_code(self, node):
        """Return None, so that native code that ships with the package is not used either."""
        return None

    def c_code_cache_version(self):
        """Return ``()``, so that later processes do not reuse a module that contains the Op."""
        return ()

    def c_code_cache_version_apply(self, node):
        """Return the result of `c_code_cache_version`."""
        return self.c_code_cache_version()
