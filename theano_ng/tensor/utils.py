"""Helper functions: hashes of arrays, and shapes of the variables of a graph."""

import numpy as np

from theano_ng.compile.function import function
from theano_ng.gof.fg import MissingInputError
from theano_ng.gof.graph import Constant
from theano_ng.tensor.constructors import lscalar
from theano_ng.tensor.hashing import hash_from_ndarray
from theano_ng.tensor.opt.shape import ShapeFeature

__all__ = ["hash_from_ndarray", "shape_of_variables"]


def shape_of_variables(fgraph, input_shapes):
    """Return the shapes of all variables of a graph, given the shapes of its inputs.

    Parameters
    ----------
    fgraph : FunctionGraph
        The graph. If it has no ShapeFeature, a ShapeFeature is attached.
    input_shapes : dict
        A dict from each input to its shape, a tuple of int.

    Returns
    -------
    dict
        A dict from each variable to its shape, a tuple of 0-d arrays.

    Raises
    ------
    ValueError
        If the shape of an input is missing or has another rank, or if a shape depends on values.

    Examples
    --------
    >>> import theano_ng as theano
    >>> x = theano.tensor.matrix('x')
    >>> y = x[512:]
    >>> fgraph = theano.FunctionGraph([x], [y], clone=False)
    >>> d = shape_of_variables(fgraph, {x: (1024, 1024)})
    >>> d[y]
    (array(512), array(1024))
    """
    if not hasattr(fgraph, "shape_feature"):
        fgraph.attach_feature(ShapeFeature())
    missing = [x for x in fgraph.inputs if x not in input_shapes]
    if missing:
        raise ValueError("input_shapes lacks the shape of %s" % ", ".join(str(x) for x in missing))
    shape_of = fgraph.shape_feature.shape_of

    # The symbolic shapes are functions of the lengths of the inputs. Replace these lengths by scalar variables, so that
    # a compiled function can compute the shapes from numbers.
    scalars, numbers, givens = [], [], {}
    for x in fgraph.inputs:
        shape = shape_of[x]
        if shape is None:
            continue
        if len(input_shapes[x]) != len(shape):
            raise ValueError(
                "input_shapes gives %s the shape %s, but it has "
                "%d dimension(s)" % (x, tuple(input_shapes[x]), len(shape))
            )
        for dim, number in zip(shape, input_shapes[x]):
            # If `dim` is a constant, the dimension is broadcastable and has length 1, so no scalar is needed.
            if not isinstance(dim, Constant):
                givens[dim] = lscalar()
                scalars.append(givens[dim])
                numbers.append(number)
    shapes = {v: shape_of[v] for v in fgraph.variables}
    known = {v: shape for v, shape in shapes.items() if shape is not None}
    try:
        compute = function(
            scalars, [dim for shape in known.values() for dim in shape], givens=givens, on_unused_input="ignore"
        )
    except MissingInputError as err:
        raise ValueError(
            "A shape in this graph depends on the values of the inputs, not only on their shapes: %s" % err
        ) from err
    values = iter([np.asarray(n) for n in compute(*numbers)])
    return {v: tuple(next(values) for _ in shape) for v, shape in known.items()}
