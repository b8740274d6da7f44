"""In-place elementwise operations write the values of the ordinary operations into their first argument."""

import unittest
from unittest import mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.tensor import inplace
from theano_ng.tensor.elemwise.perform import array_function_for

RNG = np.random.RandomState(8)


class TestInplace(unittest.TestCase):
    def test_agrees_with_the_ordinary_operation(self):
        # Arguments in (0.1, 0.9) are in the domain of all functions except arccosh.
        values = [RNG.rand(3, 4) * 0.8 + 0.1, RNG.rand(3, 4) * 0.8 + 0.1]
        integers = [RNG.randint(1, 9, (3, 4)), RNG.randint(1, 9, (3, 4))]
        names = [
            name[: -len("_inplace")] for name in dir(inplace) if name.endswith("_inplace") and not name.startswith("_")
        ]
        assert len(names) > 65
        for name in names:
            if name in ("transpose", "fill"):
                continue
            op = getattr(inplace, name + "_inplace")
            plain = getattr(T, name)
            assert str(op) == name + "_inplace"
            assert op.inplace_pattern == {0: 0}
            assert op.nfunc_spec == plain.nfunc_spec, name
            bitwise = name in ("and_", "or_", "xor", "invert")
            make = T.lmatrix if bitwise else T.dmatrix
            args = [a + 1 if name == "arccosh" else a for a in (integers if bitwise else values)]
            variables = [make() for _ in range(plain.scalar_op.nin if plain.scalar_op.nin > 0 else 2)]
            args = args[: len(variables)]
            node = op(*variables).owner
            assert node.outputs[0].type == variables[0].type, name
            given = [a.copy() for a in args]
            cells = [[None]]
            node.op.perform(node, given, cells)
            wanted = [[None]]
            ordinary = plain(*variables).owner
            ordinary.op.perform(ordinary, args, wanted)
            np.testing.assert_allclose(cells[0][0], wanted[0][0], err_msg=name)
            assert cells[0][0] is given[0], name

    def test_functions_on_arrays(self):
        """If an operation with one output has a NumPy or SciPy function, Python code calls it on whole arrays.

        For more than two operands of a sum or product, the code calls the binary function several times.
        """
        found = 0
        for op in vars(T).values():
            if not isinstance(op, T.Elemwise) or not op.nfunc_spec or hasattr(op.scalar_op, "on_arrays"):
                continue
            _, nin, nout = op.nfunc_spec
            function = array_function_for(op.nfunc_spec, mock.Mock(inputs=[None] * nin, outputs=[None]), op.scalar_op)
            assert (function is not None) == (nout == 1), op
            found += function is not None
            several = mock.Mock(inputs=[None] * (nin + 1), outputs=[None])
            folds = array_function_for(op.nfunc_spec, several, op.scalar_op) is not None
            assert folds == (nin == 2 and op.scalar_op.nin < 0), op
        assert found > 40

    def test_compiled(self):
        x, y = T.dvectors("xy")
        f = theano.function(
            [theano.In(x, mutable=True), y], inplace.add_inplace(x, y), mode=Mode("cvm", None), accept_inplace=True
        )
        a = np.arange(3.0)
        assert f(a, [1, 1, 1]).tolist() == [1, 2, 3]
        assert a.tolist() == [1, 2, 3]

    def test_undefined(self):
        """Operations that are undefined for bools or complex numbers are undefined in place too."""
        x, y = T.TensorType("bool", (False,))("x"), T.TensorType("bool", (False,))("y")
        for name, args in (("neg", [x]), ("sgn", [x]), ("sub", [x, y])):
            for op in (getattr(T, name), getattr(inplace, name + "_inplace")):
                with self.assertRaisesRegex(TypeError, "bool (in|out)put (is )?not supported"):
                    op(*args)
        assert inplace.sub_inplace(T.bvector(), x).dtype == "int8"
        for name in ("deg2rad", "rad2deg"):
            for op in (getattr(T, name), getattr(inplace, name + "_inplace")):
                self.assertRaisesRegex(TypeError, "complex argument not supported", op, T.zvector())

    def test_transpose(self):
        x = T.dmatrix()
        value = np.arange(6.0).reshape(2, 3)
        result = theano.function([theano.In(x, borrow=True)], theano.Out(inplace.transpose_inplace(x), borrow=True))(
            value
        )
        np.testing.assert_array_equal(result, value.T)


if __name__ == "__main__":
    unittest.main()
