"""The op `Assert` and the rules that remove assertions."""

import numpy as np

from theano_ng.compile.mode import local_useless, optdb
from theano_ng.gof.graph import Apply, Variable
from theano_ng.gof.op import Op
from theano_ng.gof.opt import copy_stack_trace, local_optimizer, register_assert_op
from theano_ng.tensor import basic as T
from theano_ng.tensor.opt.common import constant_value
from theano_ng.tensor.opt.registration import register_specialize


@register_assert_op
class Assert(Op):
    """Returns the first parameter if all conditions are true, otherwise raises AssertionError.

    Parameters
    ----------
    msg : str
        Message of the error.

    Notes
    -----
    A debugging feature. It can be removed from the graph by optimizations, and can hide some possible optimizations from the
    optimizer. It is removed when the condition is known to be true. The output must be used in the function that computes the
    graph, but it does not have to be returned.

    Examples
    --------
    >>> import theano_ng
    >>> T = theano_ng.tensor
    >>> x = T.vector('x')
    >>> assert_op = T.opt.Assert()
    >>> func = theano_ng.function([x], assert_op(x, x.size < 2))
    """

    _f16_ok = True
    __props__ = ("msg",)
    view_map = {0: [0]}
    check_input = False

    def __init__(self, msg="Theano Assert failed!"):
        self.msg = msg

    def make_node(self, value, *conds):
        if not isinstance(value, Variable):
            value = T.as_tensor_variable(value)
        conds = [T.as_tensor_variable(c) for c in conds]
        for c in conds:
            if c.type.ndim != 0:
                raise TypeError("Assert takes 0-d conditions, got %s of type %s; use T.all(condition)" % (c, c.type))
        return Apply(self, [value] + conds, [value.type()])

    def perform(self, node, inputs, out_):
        out, = out_
        for cond in inputs[1:]:
            if not np.all(cond):
                raise AssertionError(self.msg)
        out[0] = inputs[0]

    def grad(self, input, output_gradients):
        # gradient sits beside the tensor layer.
        from theano_ng.gradient import DisconnectedType
        return output_gradients + [DisconnectedType()() for _ in input[1:]]

    def R_op(self, inputs, eval_points):
        return [eval_points[0]]

    def connection_pattern(self, node):
        return [[1]] + [[0]] * (len(node.inputs) - 1)

    def c_code(self, node, name, inames, onames, sub):
        value, conds = inames[0], inames[1:]
        out, = onames
        fail = sub["fail"]
        msg = "".join("\\%03o" % b for b in str(self.msg).encode("utf-8"))
        check = []
        for i, cond in enumerate(conds):
            ctype = node.inputs[i + 1].type.dtype_specs()[1]
            check.append("""
                if (*((%(ctype)s *)PyArray_DATA(%(cond)s)) == 0) {
                    PyErr_SetString(PyExc_AssertionError, "%(msg)s");
                    %(fail)s
                }
            """ % {"ctype": ctype, "cond": cond, "msg": msg, "fail": fail})
        return """
            %(check)s
            Py_XDECREF(%(out)s);
            %(out)s = %(value)s;
            Py_INCREF(%(value)s);
        """ % {"check": "\n".join(check), "out": out, "value": value}

    def c_code_cache_version(self):
        return (4,)

    def infer_shape(self, node, input_shapes):
        return [input_shapes[0]]


assert_ = Assert()
# Unittest.assert_ is a name of old, so both names are there.
assert_op = assert_


@register_specialize
@local_optimizer([Assert])
def local_remove_useless_assert(node):
    """Remove conditions that are known to be true.

    Assert(x, True, c, c)  ->  Assert(x, c);  Assert(x, True)  ->  x          [specialize, fast_run]
    """
    if not isinstance(node.op, Assert):
        return False
    conds = []
    for c in node.inputs[1:]:
        value = constant_value(c)
        if value is not None and value != 0:
            continue
        if not any(c is kept for kept in conds):
            conds.append(c)
    if not conds:
        return [node.inputs[0]]
    if len(conds) == len(node.inputs) - 1:
        return False
    ret = node.op(node.inputs[0], *conds)
    copy_stack_trace(node.outputs[0], ret)
    return [ret]


@local_optimizer([Assert])
def local_remove_all_assert(node):
    """Remove all assertions, for those who are sure that they hold.

    Assert(x, c)  ->  x          [useless, canonicalize, stabilize, specialize; only with tag unsafe]

    Used with ``optimizer_including=local_remove_all_assert`` or in mode 'unsafe'.
    """
    if not isinstance(node.op, Assert):
        return False
    return [node.inputs[0]]


# Without the name of the database as tag: asking for all of canonicalize must not include it.
for _db in (optdb["canonicalize"], optdb["stabilize"], optdb["specialize"], local_useless):
    _db.register("local_remove_all_assert", local_remove_all_assert, "unsafe", use_db_name_as_tag=False)
del _db
