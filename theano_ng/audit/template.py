"""The template of a new Op: a module with the Op and its cases for the audit, and a module with its tests."""

import keyword
import os
import re
import sys
import textwrap

OP = '''"""The operation {name}."""

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T


class {name}(theano.Op):
    """Multiply an array of floating point numbers by a number. Replace this description and the code.

    Parameters
    ----------
    factor : float
{inplace_doc}    """

    __props__ = ({props})

    def __init__(self, factor=2.0{inplace_argument}):
        self.factor = float(factor)
{inplace_init}
    def make_node(self, x):
        x = T.as_tensor_variable(x)
        if x.dtype not in ("float32", "float64"):
            raise TypeError("{name} needs an array of float32 or float64, not %s" % x.type)
        return theano.Apply(self, [x], [x.type()])

    def perform(self, node, inputs, output_storage):
        (x,) = inputs
{perform}
    def infer_shape(self, node, input_shapes):
        return input_shapes
{grad}{c_code}

def audit_cases():
    """Return pairs of an Op and example inputs, for theano_ng-audit."""
    x = np.array([[0.5, -1.25, 2.0], [3.5, -0.75, 1.0]])
    return [({name}(), [x]){inplace_case}]
'''

GRAD = """
    def grad(self, inputs, output_gradients):
        factor = np.asarray(self.factor, inputs[0].dtype)
        return [factor * output_gradients[0]]

    def R_op(self, inputs, eval_points):
        # None: the derivative in the direction of this input is not wanted.
        return eval_points if eval_points[0] is None else self.grad(inputs, eval_points)
"""

C_CODE = '''
    def c_code(self, node, name, inputs, outputs, sub):
        (x,), (y,) = inputs, outputs
        return """
        {{
            typedef %(dtype)s number;
            const number factor = (number)%(factor)r;
            PyArrayObject *from = (PyArrayObject *)PyArray_GETCONTIGUOUS(%(x)s);
            if (from == NULL) {{
                %(fail)s
            }}
            if (%(y)s == NULL || !PyArray_ISCARRAY(%(y)s) || !PyArray_SAMESHAPE(%(y)s, from)) {{
                Py_XDECREF(%(y)s);
                %(y)s = (PyArrayObject *)PyArray_SimpleNew(
                    PyArray_NDIM(from), PyArray_DIMS(from), PyArray_TYPE(from));
            }}
            if (%(y)s != NULL) {{
                const number *data = (const number *)PyArray_DATA(from);
                number *result = (number *)PyArray_DATA(%(y)s);
                for (npy_intp i = 0; i < PyArray_SIZE(from); i++)
                    result[i] = factor * data[i];
            }}
            Py_DECREF(from);
            if (%(y)s == NULL) {{
                %(fail)s
            }}
        }}
        """ % dict(x=x, y=y, factor=self.factor, dtype=node.inputs[0].type.dtype_specs()[1], fail=sub["fail"])

    def c_code_cache_version(self):
        # Change the first number whenever the code changes.
        return (1, self.factor)
'''

C_CODE_INPLACE = '''
    def c_code(self, node, name, inputs, outputs, sub):
        (x,), (y,) = inputs, outputs
        return """
        {{
            typedef %(dtype)s number;
            const number factor = (number)%(factor)r;
            PyArrayObject *result = %(inplace)d ? %(x)s : (PyArrayObject *)PyArray_NewCopy(%(x)s, NPY_CORDER);
            if (result == NULL) {{
                %(fail)s
            }}
            if (%(inplace)d)
                Py_INCREF(result);
            PyArrayIterObject *place = (PyArrayIterObject *)PyArray_IterNew((PyObject *)result);
            if (place == NULL) {{
                Py_DECREF(result);
                %(fail)s
            }}
            while (PyArray_ITER_NOTDONE(place)) {{
                *(number *)PyArray_ITER_DATA(place) *= factor;
                PyArray_ITER_NEXT(place);
            }}
            Py_DECREF(place);
            Py_XDECREF(%(y)s);
            %(y)s = result;
        }}
        """ % dict(
            x=x,
            y=y,
            factor=self.factor,
            inplace=self.inplace,
            dtype=node.inputs[0].type.dtype_specs()[1],
            fail=sub["fail"],
        )

    def c_code_cache_version(self):
        # Change the first number whenever the code changes.
        return (1, self.factor, self.inplace)
'''

TESTS = '''"""Tests of {module}."""

import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.audit import audit_test
from theano_ng.tests import unittest_tools as utt

from {module} import {name}, audit_cases


class Test{name}(utt.InferShapeTester):
    def setUp(self):
        super().setUp()
        self.value = np.random.normal(size=(3, 4)).astype(theano.config.floatX)

    def test_values(self):
        x = T.matrix()
        f = theano.function([x], {name}(3)(x))
        utt.assert_allclose(3 * self.value, f(self.value))

    def test_shapes(self):
        x = T.matrix()
        self._compile_and_check([x], [{name}()(x)], [self.value], {name})
{grad_test}
    def test_refused_types(self):
        with self.assertRaisesRegex(TypeError, "float32 or float64"):
            {name}()(T.lvector())


# One test for each check of theano_ng-audit.
Audit = audit_test(audit_cases)

if __name__ == "__main__":
    unittest.main()
'''

GRAD_TEST = """
    def test_gradient(self):
        utt.verify_grad({name}(3), [self.value])
"""


#: Names that the written files use for other objects.
_USED = ("np", "T", "theano", "utt", "unittest", "audit_cases", "audit_test", "Audit")


def module_name(name):
    """Return the name of the module for a class: ``my_op`` for ``MyOp``."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def texts(name, c=False, grad=False, inplace=False):
    """Return the texts of a new Op and of its tests.

    Parameters
    ----------
    name : str
        The name of the class.
    c, grad, inplace : bool
        Whether the Op has C code, a gradient, and a variant that overwrites its input.

    Returns
    -------
    dict
        File name -> text.

    Raises
    ------
    ValueError
        If `name` cannot be the name of a class.
    """
    if not name.isidentifier() or keyword.iskeyword(name) or name in _USED:
        raise ValueError("%r cannot be the name of a class; give a name such as RowNorms" % name)
    module = module_name(name)
    if module in sys.stdlib_module_names or module in ("numpy", "scipy", "theano", "theano_ng"):
        raise ValueError(
            "%r would be in the file %s.py, which would hide the module %s; give another name" % (name, module, module)
        )
    plain = "output_storage[0][0] = np.asarray(x * x.dtype.type(self.factor))\n"
    in_place = "if self.inplace:\n    x *= x.dtype.type(self.factor)\n    output_storage[0][0] = x\nelse:\n    " + plain
    parts = dict(
        name=name,
        module=module,
        props='"factor", "inplace"' if inplace else '"factor",',
        inplace_doc="    inplace : bool\n        Whether the output overwrites the input.\n" if inplace else "",
        inplace_argument=", inplace=False" if inplace else "",
        inplace_init="        self.inplace = bool(inplace)\n        if self.inplace:\n            self.destroy_map = {0: [0]}\n"
        if inplace
        else "",
        inplace_case=", (%s(3.0, inplace=True), [x])" % name if inplace else "",
        perform=textwrap.indent(in_place if inplace else plain, " " * 8),
        grad=GRAD if grad else "",
        c_code=(C_CODE_INPLACE if inplace else C_CODE).format() if c else "",
        grad_test=GRAD_TEST.format(name=name) if grad else "",
    )
    return {parts["module"] + ".py": OP.format(**parts), "test_%s.py" % parts["module"]: TESTS.format(**parts)}


def write(name, folder=".", **options):
    """Write the files of a new Op, and return their paths. See `texts` for the other parameters.

    Raises
    ------
    FileExistsError
        If a file exists. Then nothing is written.
    """
    files = {os.path.join(folder, file): text for file, text in texts(name, **options).items()}
    for path in files:
        if os.path.exists(path):
            raise FileExistsError("%s exists; nothing was written" % path)
    for path, text in files.items():
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    return list(files)
