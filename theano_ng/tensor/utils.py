"""Helpers: hashing arrays, shapes of a graph's variables."""
import hashlib

import numpy as np

__all__ = ['hash_from_ndarray', 'shape_of_variables']


def hash_from_ndarray(data):
    """Hash an array by its content, shape, strides and dtype.

    Parameters
    ----------
    data : ndarray

    Returns
    -------
    str
        The same in every process.

    Notes
    -----
    Two arrays with the same bytes but another shape, strides or dtype have
    different hashes.
    """
    digest = hashlib.sha256()
    # Length-prefixed parts cannot run into each other.
    for part in (str(data.shape), str(data.strides), str(data.dtype)):
        digest.update(b'%d:' % len(part))
        digest.update(part.encode())
    digest.update(np.ascontiguousarray(data).tobytes())
    return digest.hexdigest()


def shape_of_variables(fgraph, input_shapes):
    """The shapes of all variables of a graph, given those of its inputs.

    Parameters
    ----------
    fgraph : FunctionGraph
        Gets a ShapeFeature, if it has none.
    input_shapes : dict
        Shape (tuple of int) of every input.

    Returns
    -------
    dict
        For every variable a tuple of 0-d arrays.

    Raises
    ------
    ValueError
        If the shape of an input is missing.

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
    from theano_ng.compile.function import function
    from theano_ng.tensor.constructors import lscalar
    from theano_ng.tensor.opt import ShapeFeature
    if not hasattr(fgraph, 'shape_feature'):
        fgraph.attach_feature(ShapeFeature())
    missing = [x for x in fgraph.inputs if x not in input_shapes]
    if missing:
        raise ValueError("input_shapes lacks the shape of %s"
                         % ', '.join(str(x) for x in missing))
    shape_of = fgraph.shape_feature.shape_of

    # The symbolic shapes are written in terms of Shape_i nodes of the inputs:
    # scalars take their place.
    dims, givens = [], []
    for x in fgraph.inputs:
        if shape_of.get(x) is None:
            continue
        own = [lscalar() for _ in shape_of[x]]
        dims.append((x, own))
        givens.extend(zip(shape_of[x], own))
    wanted = [(v, shape) for v, shape in shape_of.items() if shape is not None]
    outputs = [dim for _, shape in wanted for dim in shape]
    from theano_ng.gof.graph import Constant
    given, numeric = {}, []
    for dim, scalar in givens:
        if not isinstance(dim, Constant):
            given[dim] = scalar
    compute = function([s for _, own in dims for s in own], outputs,
                       givens=given, on_unused_input='ignore')
    for x, own in dims:
        shape = input_shapes[x]
        if len(shape) != len(own):
            raise ValueError("input_shapes gives %s the shape %s, but it has "
                             "%d dimension(s)" % (x, tuple(shape), len(own)))
        numeric.extend(shape)
    values = iter([np.asarray(n) for n in compute(*numeric)])
    return {v: tuple(next(values) for _ in shape) for v, shape in wanted}
