"""Ports: services that a module of a lower layer uses, and that a module of a higher layer provides.

Modules import only modules of lower layers. Sometimes a module nevertheless needs a service of a higher layer: for
example, `Variable.eval` compiles a function, and an Op makes a variable from a number. The lower module then calls a
port that `gof.ports` defines. The higher module fills the port when the higher module is imported. A port may be filled
with the text ``"module:name"`` instead of a function. The named module is then imported at the first call.
"""

import importlib


class UnfilledPortError(ImportError):
    """Error: a port was called before the module that fills it was imported."""


class Port:
    """A function that is defined in a higher layer.

    Parameters
    ----------
    name : str
    filled_by : str
        The module that fills the port.
    does : str
        A description of the function. The error shows it if the port is not filled.
    """

    def __init__(self, name, filled_by, does):
        self.name = name
        self.filled_by = filled_by
        self.__doc__ = does
        self._function = None

    def fill(self, function):
        """Set the function.

        Parameters
        ----------
        function : callable or str
            The function, or its path ``"module:name"``, which is imported at the first call.

        Returns
        -------
        callable or str
            `function`, so that the method is also a decorator.
        """
        self._function = function
        return function

    @property
    def function(self):
        """The function that fills the port.

        Raises
        ------
        UnfilledPortError
            If the port is not filled. The message names the module that fills it.
        """
        function = self._function
        if function is None:
            raise UnfilledPortError(
                "port %s is not filled: import %s, which fills it. The port provides: %s"
                % (self.name, self.filled_by, self.__doc__)
            )
        if isinstance(function, str):
            module, _, name = function.partition(":")
            function = self._function = getattr(importlib.import_module(module), name)
        return function

    def __call__(self, *args, **kwargs):
        return self.function(*args, **kwargs)

    def __repr__(self):
        return "<port %s, filled by %s>" % (self.name, self.filled_by)


as_variable = Port(
    "as_variable", "theano_ng.tensor.constant", "The variable for a value, as ``as_tensor_variable(x)``."
)

constant_value = Port(
    "constant_value",
    "theano_ng.tensor.constant",
    "``constant_value(x)``: the value of a 0-d expression if it is known to be constant; otherwise None.",
)

compile_function = Port(
    "compile_function", "theano_ng.compile.function", """Compile a graph, as ``function(inputs, outputs, ...)``."""
)

format_graph = Port(
    "format_graph",
    "theano_ng.printing.debug",
    """A graph as an indented tree, as ``debugprint(variable, file=...)``.""",
)

label_graph = Port(
    "label_graph",
    "theano_ng.printing.strings",
    """A graph as a tree of letters, with a legend, as ``min_informative_str(variable)``.""",
)

infix_text = Port("infix_text", "theano_ng.printing", """An expression as a formula, as ``pprint(variable)``.""")

graph_picture = Port(
    "graph_picture",
    "theano_ng.printing",
    "``graph_picture(thing)``: a picture of a graph for notebooks, as SVG source; None if no picture can be made.",
)

graph_outline = Port(
    "graph_outline",
    "theano_ng.printing",
    "``graph_outline(thing)``: an outline of a graph for notebooks, as HTML; None for a variable that no node "
    "computes, or if Graphviz is installed, because notebooks then show the picture.",
)

cdata_op = Port(
    "cdata_op",
    "theano_ng.scalar.cdata_op",
    """``cdata_op(rtype)``: the Op from an integer address to a value of a CDataType; its ``compiled()`` is a function.""",
)

link_node_in_c = Port(
    "link_node_in_c",
    "theano_ng.gof.codegen.clinker",
    "``link_node_in_c(node, storage_map, no_recycling)``: a thunk that runs the compiled C code of a node.",
)

size_type = Port(
    "size_type", "theano_ng.tensor.compile_ops", """``size_type(ndim)``: the type of lengths (0) and of shapes (1)."""
)

shape_feature = Port(
    "shape_feature",
    "theano_ng.tensor.compile_ops",
    "``shape_feature()``: a new Feature that finds symbolic shapes with the `infer_shape` of Ops.",
)

scalar_from_tensor = Port("scalar_from_tensor", "theano_ng.tensor.shaping", """The scalar variable in a 0-d tensor.""")

sparse_from_rows = Port(
    "sparse_from_rows",
    "theano_ng.sparse.from_rows",
    "``sparse_from_rows(x, rows, positions)``: a sparse matrix with the shape of x and the given rows.",
)

shared = Port(
    "shared", "theano_ng.compile.sharedvalue", """A shared variable with a value, as ``shared(value, name, ...)``."""
)

shared_random_state = Port(
    "shared_random_state",
    "theano_ng.tensor.shared_randomstreams",
    """A shared variable with a `numpy.random.RandomState`, as ``randomstate_constructor(value, name, ...)``.""",
)

arrays_nearly_equal = Port(
    "arrays_nearly_equal",
    "theano_ng.tensor.type",
    "``arrays_nearly_equal(a, b)``: True if two arrays are equal up to rounding.",
)

search_node = Port(
    "search_node",
    "theano_ng.audit.search",
    "``search_node(node, values, seconds)``: an error of a node, which other values of its inputs show, or None.",
)

softplus = Port("softplus", "theano_ng.tensor.nnet.sigmoids", """``softplus(x)``: log(1 + exp(x)) without overflow.""")

scan = Port(
    "scan",
    "theano_ng.scan.builder",
    "``scan(fn, sequences=..., non_sequences=...)``: the loop over the rows of an expression in jacobian and hessian.",
)
