"""Inference of shapes: `ShapeFeature` expresses the shapes of all variables of a graph in terms of the graph's inputs.

The shape of a variable is inferred when it is looked up for the first time, and then stored. If a variable replaces
another variable, both have the same shape. So a length that is unknown for the new variable is taken from the old
variable.
"""

import traceback

import numpy as np

from theano_ng.compile import optdb
from theano_ng.compile.ops import Shape, Shape_i, shape_i_op
from theano_ng.configdefaults import config
from theano_ng.gof import toolbox
from theano_ng.gof.graph import Constant, Variable
from theano_ng.gof.rewriting import Optimizer
from theano_ng.tensor.constant import constant
from theano_ng.tensor.dtypes import DISCRETE
from theano_ng.tensor.elemwise import functions as T
from theano_ng.tensor.elemwise.op import Elemwise
from theano_ng.tensor.exceptions import ShapeError
from theano_ng.tensor.indexing.subtensor import Subtensor
from theano_ng.tensor.opt.patterns import names, rule, terms
from theano_ng.tensor.opt.registration import register_canonicalize, register_specialize
from theano_ng.tensor.shaping.broadcasting import patternbroadcast
from theano_ng.tensor.shaping.creation import MakeVector
from theano_ng.tensor.shaping.lengths import Lengths
from theano_ng.tensor.shaping.reshaping import ScalarFromTensor, TensorFromScalar, tensor_from_scalar

_LENGTHS = {}


def _length(n):
    """Return a constant for a known length. Equal lengths share one Constant."""
    found = _LENGTHS.get(n)
    if found is None:
        found = _LENGTHS[n] = constant(np.asarray(n, dtype="int64"))
        # Expressions for several graphs share this constant. With the attribute `cached`, each FunctionGraph uses its
        # own copy. `constant` does not set this attribute for every constant.
        found.cached = True
    return found


class _Shapes(dict):
    """A dict from a variable to a tuple of 0-d int64 variables, or to None if the variable has no shape.

    A missing entry is inferred when it is looked up.
    """

    def __init__(self, feature):
        super().__init__()
        self._feature = feature

    def __missing__(self, variable):
        self._feature._infer(variable)
        return dict.__getitem__(self, variable)

    def __contains__(self, variable):
        return isinstance(variable, Variable)

    def get(self, variable, default=None):
        return self[variable] if isinstance(variable, Variable) else default


class ShapeFeature:
    """A feature of a FunctionGraph that infers shapes.

    Attributes
    ----------
    shape_of : dict
        A dict from a variable to a tuple of 0-d int64 variables, or to None for variables that have no shape. Other
        modules read it as ``fgraph.shape_feature.shape_of``. Use `get_shape` to look up one length.
    lscalar_one : Constant
        The constant 1, which is the length of all broadcastable dimensions.
    """

    lscalar_one = constant(1, dtype="int64")

    def on_attach(self, fgraph):
        if hasattr(fgraph, "shape_feature"):
            raise toolbox.AlreadyThere("This FunctionGraph already has a ShapeFeature")
        fgraph.shape_feature = self
        self.fgraph = fgraph
        self._forget()

    def on_detach(self, fgraph):
        self._forget()
        self.fgraph = None
        del fgraph.shape_feature

    def __getstate__(self):
        # Do not pickle the shapes: they can be inferred again, and `_former` would add the original graph to the
        # pickle.
        return {"fgraph": self.fgraph}

    def unpickle(self, fgraph):
        """Initialize the feature of an unpickled graph, in which no shape is known."""
        self._forget()

    def _forget(self):
        self.shape_of = _Shapes(self)
        self._former = {}  # variable -> the variable that it replaced
        self._opaque = set()  # variables with lengths that can only be read from their values
        self._lengths = Lengths()

    def on_change_input(self, fgraph, node, i, r, new_r, reason):
        self._former.setdefault(new_r, r)

    def on_prune(self, fgraph, node, reason):
        # Forget all shapes, because a shape may be expressed by an output of the removed node. A rule that used this
        # shape would bring the node back into the graph.
        if self._opaque and not self._opaque.isdisjoint(node.outputs):
            dict.clear(self.shape_of)
            self._opaque.clear()
            self._lengths = Lengths()

    # -- inference

    def _infer(self, variable):
        shape_of = self.shape_of
        todo = [variable]
        while todo:
            current = todo[-1]
            if dict.__contains__(shape_of, current):
                todo.pop()
                continue
            node = current.owner
            if node is None:
                self.init_r(current)
                todo.pop()
                continue
            missing = [i for i in node.inputs if not dict.__contains__(shape_of, i)]
            if missing:
                todo.extend(missing)
                continue
            todo.pop()
            self._infer_node(node)

    def _infer_node(self, node):
        shapes = self._shapes_of_outputs(node)
        for variable, shape in zip(node.outputs, shapes):
            if dict.__contains__(self.shape_of, variable):
                continue
            try:
                self.set_shape(variable, shape)
            except (AssertionError, TypeError, ValueError) as failure:
                self._complain(node, failure)
                self.set_shape(variable, self.shape_tuple(variable))
            self._learn_from_former(variable)
            shape = dict.__getitem__(self.shape_of, variable)
            if shape is not None and any(self._is_own_entry(s, variable) for s in shape):
                self._opaque.add(variable)

    def _shapes_of_outputs(self, node):
        infer = self.get_node_infer_shape(node)
        input_shapes = [dict.__getitem__(self.shape_of, i) for i in node.inputs]
        try:
            shapes = infer(node, input_shapes)
        except ShapeError:
            return self.default_infer_shape(node, input_shapes)
        except NotImplementedError as failure:
            if infer == self.default_infer_shape:
                raise
            self._complain(node, failure)
            return self.default_infer_shape(node, input_shapes)
        except Exception as failure:
            self._complain(node, failure)
            return self.default_infer_shape(node, input_shapes)
        if not isinstance(shapes, (list, tuple)) or len(shapes) != len(node.outputs):
            self._complain(node, ValueError("infer_shape returned %r for %d outputs" % (shapes, len(node.outputs))))
            return self.default_infer_shape(node, input_shapes)
        return [
            s if s is not None or not hasattr(o.type, "ndim") else self.shape_tuple(o)
            for s, o in zip(shapes, node.outputs)
        ]

    @staticmethod
    def _complain(node, failure):
        message = (
            "Failed to infer_shape from Op %s.\nInput shapes: %s\nException encountered during infer_shape: %s\n"
            "Exception message: %s\nTraceback: %s"
            % (node.op, [i.type for i in node.inputs], type(failure), failure, traceback.format_exc())
        )
        if config.on_shape_error == "raise":
            raise Exception(message) from failure
        import warnings

        warnings.warn(message, stacklevel=2)

    def _is_own_entry(self, s, variable):
        return s.owner is not None and isinstance(s.owner.op, Shape_i) and s.owner.inputs[0] is variable

    def _learn_from_former(self, variable):
        """Take the unknown lengths of a variable from the variable that it replaced."""
        shape = dict.__getitem__(self.shape_of, variable)
        former = self._former.get(variable)
        if shape is None or former is None or not dict.__contains__(self.shape_of, former):
            return
        other = dict.__getitem__(self.shape_of, former)
        if other is None or len(other) != len(shape):
            return
        merged = [
            o if self._is_own_entry(s, variable) and not self._is_own_entry(o, former) and self._is_in_graph(o) else s
            for s, o in zip(shape, other)
        ]
        dict.__setitem__(self.shape_of, variable, tuple(merged))

    def _is_in_graph(self, expression):
        """Return True if a length depends only on variables that are still in the graph."""
        todo = [expression]
        while todo:
            current = todo.pop()
            if isinstance(current, Constant):
                continue
            if getattr(current, "fgraph", None) is self.fgraph:
                continue
            if current.owner is None:
                return False
            todo.extend(current.owner.inputs)
        return True

    # -- the documented interface

    def shape_ir(self, i, r):
        """Return the length of dimension `i` of `r`, known from its type or value, or read from `r` at run time."""
        if hasattr(r.type, "broadcastable") and r.type.broadcastable[i]:
            return self.lscalar_one
        if isinstance(r, Constant) and hasattr(r.data, "shape"):
            return _length(r.data.shape[i])
        return shape_i_op(i)(r)

    def shape_tuple(self, r):
        """Return all lengths of `r`, as `shape_ir` returns them. Return None if `r` has no shape."""
        if not hasattr(r.type, "ndim"):
            return None
        return tuple([self.shape_ir(i, r) for i in range(r.type.ndim)])

    def default_infer_shape(self, node, i_shapes):
        """Return the shapes of the outputs of a node whose Op has no `infer_shape`."""
        return [self.shape_tuple(r) for r in node.outputs]

    def get_node_infer_shape(self, node):
        """Return the function that infers the shapes of a node's outputs."""
        return getattr(node.op, "infer_shape", self.default_infer_shape)

    def init_r(self, r):
        """Record the shape of a variable without inference, as `shape_tuple` returns it."""
        if not dict.__contains__(self.shape_of, r):
            dict.__setitem__(self.shape_of, r, self.shape_tuple(r))

    def get_shape(self, var, idx):
        """Return the best known expression for the length of dimension `idx` of `var`."""
        return self.shape_of[var][idx]

    def unpack(self, s_i, var):
        """Convert a length, as returned by the method `infer_shape` of an Op, to a 0-d int64 variable.

        Parameters
        ----------
        s_i : int, integer array of rank 0, or variable
        var : Variable
            The variable that has this length.

        Raises
        ------
        TypeError, AssertionError
            If `s_i` is not a length.
        """
        if isinstance(s_i, Variable):
            node = s_i.owner
            if node is not None:
                # If `s_i` is the length of an output of the node that computes `var`, no simpler expression is known.
                if isinstance(node.op, Shape_i) and var.owner is not None and node.inputs[0].owner is var.owner:
                    return s_i
                known = self._known_entry(node)
                if known is not None:
                    return known
            if not hasattr(s_i.type, "broadcastable"):  # `s_i` has the type Scalar.
                s_i = tensor_from_scalar(s_i)
            if s_i.type.ndim != 0:
                raise TypeError("Shape element must be scalar, got %s for %s" % (s_i.type, var))
            if s_i.type.dtype == "int64":
                return self._lengths.first(s_i)
            if s_i.type.dtype not in DISCRETE:
                raise TypeError("Shape element must be an integer, got %s for %s" % (s_i.type, var))
            return _length(int(s_i.data)) if isinstance(s_i, Constant) else T.cast(s_i, "int64")
        if (
            isinstance(s_i, (float, np.floating))
            and int(s_i) == s_i
            or isinstance(s_i, (int, np.integer))
            or (isinstance(s_i, np.ndarray) and s_i.ndim == 0 and s_i.dtype.kind in "iu")
        ):
            if s_i < 0:
                raise AssertionError("There is a negative shape in the graph: %s for %s" % (s_i, var))
            return self.lscalar_one if s_i == 1 else _length(int(s_i))
        raise TypeError("Unsupported shape element %r of type %s for %s" % (s_i, type(s_i), var))

    def _known_entry(self, node):
        """Return the known length that ``Shape_i(x)``, ``x.shape[i]`` or ``MakeVector(...)[i]`` computes, or None."""
        if isinstance(node.op, Shape_i):
            shape = self.shape_of[node.inputs[0]]
            return None if shape is None else shape[node.op.i]
        if not isinstance(node.op, Subtensor) or len(node.op.idx_list) != 1 or node.inputs[0].owner is None:
            return None
        vector = node.inputs[0].owner
        if not isinstance(vector.op, (Shape, MakeVector)):
            return None
        index = node.op.idx_list[0]
        if not isinstance(index, (int, np.integer)):
            if len(node.inputs) != 2 or not isinstance(node.inputs[1], Constant):
                return None
            index = int(node.inputs[1].data)
        entries = self.shape_of[vector.inputs[0]] if isinstance(vector.op, Shape) else vector.inputs
        if entries is None or not -len(entries) <= index < len(entries):
            return None
        entry = entries[index]
        return entry if entry.type.dtype == "int64" else None

    def set_shape(self, r, s, override=False):
        """Assign a shape to a variable whose shape is not known yet.

        Parameters
        ----------
        r : Variable
        s : sequence of lengths, or None
            The values that `unpack` accepts as lengths. None means that the variable has no shape.
        override : bool
            Whether to replace a known shape.
        """
        if not override and dict.__contains__(self.shape_of, r):
            raise AssertionError("r already in shape_of")
        if s is None:
            dict.__setitem__(self.shape_of, r, None)
            return
        if not isinstance(s, (tuple, list)):
            raise TypeError("shapes must be tuple/list, got %r for %s" % (s, r))
        if r.type.ndim != len(s):
            raise AssertionError(
                "Something inferred a shape with %d dimensions for a variable with %d dimensions for the "
                "variable: %s" % (len(s), r.type.ndim, r)
            )
        pattern = getattr(r.type, "broadcastable", None)
        shape = [
            self.lscalar_one if pattern is not None and pattern[i] else self.unpack(s_i, r) for i, s_i in enumerate(s)
        ]
        dict.__setitem__(self.shape_of, r, tuple(shape))

    def set_shape_i(self, r, i, s_i):
        """Replace the length of one dimension of `r`."""
        shape = list(self.shape_of[r])
        shape[i] = self.unpack(s_i, r)
        dict.__setitem__(self.shape_of, r, tuple(shape))

    def update_shape(self, r, other_r):
        """Replace each length of `r` by the length of `other_r` if the latter is more specific."""
        other = self.shape_of[other_r]
        if other is None:
            return
        if not dict.__contains__(self.shape_of, r):
            self.set_shape(r, other)
            return
        mine = dict.__getitem__(self.shape_of, r)
        if mine is None:
            return
        merged = []
        for a, b in zip(mine, other):
            better = isinstance(b, Constant) and not isinstance(a, Constant)
            better = better or (self._is_own_entry(a, r) and not self._is_own_entry(b, other_r))
            merged.append(b if better else a)
        dict.__setitem__(self.shape_of, r, tuple(merged))

    def make_vector_shape(self, r):
        """Return a vector variable that contains the shape of `r`."""
        return MakeVector("int64")(*self.shape_of[r])

    def never_less(self, a, b, if_positive=False):
        """Return True if the integer `a` is known to be at least as large as the integer `b`.

        Parameters
        ----------
        a, b : Variable
            Expressions of 0-d int64 variables, for example of lengths: ``minimum(x.shape[0], 5)``.
        if_positive : bool
            If True, the comparison need hold only for positive values of `b`.
        """
        return self._lengths.never_less(self._with_known_lengths(a), self._with_known_lengths(b), if_positive)

    def _with_known_lengths(self, v):
        """Return an integer expression in which known lengths replace the nodes that compute these lengths."""
        known, todo = {}, [v]
        while todo:
            current = todo[-1]
            if current in known:
                todo.pop()
                continue
            node = current.owner
            entry = None if node is None else self._known_entry(node)
            if entry is not None or node is None or not isinstance(node.op, Elemwise) or current.type.ndim:
                known[current] = current if entry is None else entry
                continue
            missing = [i for i in node.inputs if i not in known]
            todo.extend(missing)
            if not missing:
                inputs = [known[i] for i in node.inputs]
                known[current] = current if inputs == node.inputs else node.op(*inputs)
        return known[v]

    def same_shape(self, x, y, dim_x=None, dim_y=None):
        """Return True if two shapes (or two lengths) are known to be equal.

        Parameters
        ----------
        x, y : Variable
        dim_x, dim_y : int, optional
            Compare only these dimensions.
        """
        sx, sy = self.shape_of[x], self.shape_of[y]
        if sx is None or sy is None:
            return False
        if dim_x is not None:
            sx = [sx[dim_x]]
        if dim_y is not None:
            sy = [sy[dim_y]]
        return len(sx) == len(sy) and all(same_length(a, b) for a, b in zip(sx, sy))


def _constant_index(node):
    """Return the constant index with which a node takes one element of a vector. Return None for other nodes."""
    if not isinstance(node.op, Subtensor) or len(node.op.idx_list) != 1 or isinstance(node.op.idx_list[0], slice):
        return None
    index = node.inputs[1:]
    return int(index[0].data) if len(index) == 1 and isinstance(index[0], Constant) else None


def _simplest(v):
    """Simplify the expression of a length, which may not have been rewritten yet.

    tensor_from_scalar(scalar_from_tensor(n))  ->  n; [n, m][0]  ->  n
    """
    while v.owner is not None:
        node, inner = v.owner, v.owner.inputs[0].owner if v.owner.inputs else None
        if inner is None:
            break
        if isinstance(node.op, TensorFromScalar) and isinstance(inner.op, ScalarFromTensor):
            v = inner.inputs[0]
            continue
        index = _constant_index(node) if isinstance(inner.op, MakeVector) else None
        if index is None or not -len(inner.inputs) <= index < len(inner.inputs) or inner.inputs[index].dtype != v.dtype:
            break
        v = inner.inputs[index]
    return v


def _dimension(v):
    """Return (x, dim) if a length is written as ``x.shape[dim]`` or ``Shape_i(dim)(x)``; otherwise return None."""
    node = v.owner
    if node is None:
        return None
    if isinstance(node.op, Shape_i):
        return node.inputs[0], node.op.i
    vector = node.inputs[0].owner if node.inputs else None
    if vector is None or not isinstance(vector.op, Shape):
        return None
    index, ndim = _constant_index(node), vector.inputs[0].ndim
    return None if index is None or not -ndim <= index < ndim else (vector.inputs[0], index % ndim)


def same_length(a, b):
    """Return True if two lengths are known to be equal.

    Parameters
    ----------
    a, b : 0-d integer variables

    Returns
    -------
    bool
        True for identical variables, for equal constants, and for small expressions that apply the same Ops to such
        variables and constants.
    """
    todo, seen = [(a, b)], set()
    while todo:
        a, b = (_simplest(v) for v in todo.pop())
        if a is b or (a, b) in seen:
            continue
        dimension = _dimension(a)
        if dimension is not None and dimension == _dimension(b):
            continue
        if isinstance(a, Constant) or isinstance(b, Constant):
            if not (isinstance(a, Constant) and isinstance(b, Constant) and np.array_equal(a.data, b.data)):
                return False
            continue
        seen.add((a, b))
        # Give up on longer expressions: they are rarely equal, and the comparison costs more than it can save.
        if len(seen) > 32 or a.owner is None or b.owner is None or a.owner.op != b.owner.op:
            return False
        if len(a.owner.inputs) != len(b.owner.inputs) or a.owner.outputs.index(a) != b.owner.outputs.index(b):
            return False
        todo.extend(zip(a.owner.inputs, b.owner.inputs))
    return True


def lengths(v, fgraph):
    """Return the shape of `v` as a tuple of the best known expressions. Return None if `v` has no shape."""
    feature = getattr(fgraph, "shape_feature", None)
    return tuple([v.shape[i] for i in range(v.ndim)]) if feature is None else feature.shape_of[v]


class ShapeOptimizer(Optimizer):
    """An optimizer that only attaches a `ShapeFeature` to the graph."""

    def apply(self, fgraph):
        """Do nothing: `add_requirements` attaches the feature."""

    def add_requirements(self, fgraph):
        fgraph.attach_feature(ShapeFeature())


class UnShapeOptimizer(Optimizer):
    """An optimizer that removes the `ShapeFeature` from the graph."""

    def apply(self, fgraph):
        for feature in [f for f in fgraph._features if isinstance(f, ShapeFeature)]:
            fgraph.remove_feature(feature)


optdb.register("ShapeOpt", ShapeOptimizer(), 0.1, "fast_run", "fast_compile")
optdb.register("UnShapeOpt", UnShapeOptimizer(), 10)

(x,) = names("x")
shape, length = terms(Shape, Shape_i)


@register_specialize
@register_canonicalize
@rule(shape(x))
def local_shape_to_shape_i(x, node, out):
    """Replace a shape by a vector of lengths that do not depend on the values of the tensor.

    shape(sqr(A))  ->  MakeVector('int64')(Shape_i(0)(A), Shape_i(1)(A))          [canonicalize, specialize, fast_run]
    """
    feature = getattr(node.fgraph, "shape_feature", None)
    if feature is None or feature.shape_of[x] is None:
        return None
    # MakeVector of one length is broadcastable. The output of Shape is not.
    return patternbroadcast(feature.make_vector_shape(x), out.broadcastable)


@register_specialize
@register_canonicalize
@rule(length(x))
def local_track_shape_i(x, op, node, out):
    """Replace a length by a better expression, once one is known.

    Shape_i(0)(sqr(A))  ->  Shape_i(0)(A)          [canonicalize, specialize, fast_run]
    """
    feature = getattr(node.fgraph, "shape_feature", None)
    if feature is None or feature.shape_of[x] is None:
        return None
    best = feature.shape_of[x][op.i]
    return None if best is out or feature._is_own_entry(best, x) else best
