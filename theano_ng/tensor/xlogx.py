"""x log(x) and x log(y) that are 0 where x is 0."""
import numpy as np

import theano_ng.scalar as scal
from theano_ng.tensor.elemwise import Elemwise

__all__ = ['XlogX', 'scalar_xlogx', 'xlogx', 'XlogY0', 'scalar_xlogy0',
           'xlogy0']


class XlogX(scal.UnaryScalarOp):
    """``x * log(x)``, and 0 at x = 0."""

    @staticmethod
    def st_impl(x):
        if x == 0.0:
            return 0.0
        with np.errstate(all='ignore'):
            return x * np.log(x)

    def impl(self, x):
        return XlogX.st_impl(x)

    def grad(self, inputs, grads):
        x, = inputs
        gz, = grads
        return [gz * (1 + scal.log(x))]

    def c_code(self, node, name, inputs, outputs, sub):
        x, = inputs
        z, = outputs
        if node.inputs[0].type not in (scal.float32, scal.float64):
            from theano_ng.gof.utils import MethodNotDefined
            raise MethodNotDefined('c_code', type(self), 'only for floats')
        return "%(z)s = %(x)s == 0.0 ? 0.0 : %(x)s * log(%(x)s);" % locals()

    def c_code_cache_version(self):
        return (1,)


scalar_xlogx = XlogX(scal.upgrade_to_float, name='scalar_xlogx')
xlogx = Elemwise(scalar_xlogx, name='xlogx')


class XlogY0(scal.BinaryScalarOp):
    """``x * log(y)``, and 0 at x = 0."""

    @staticmethod
    def st_impl(x, y):
        if x == 0.0:
            return 0.0
        with np.errstate(all='ignore'):
            return x * np.log(y)

    def impl(self, x, y):
        return XlogY0.st_impl(x, y)

    def grad(self, inputs, grads):
        x, y = inputs
        gz, = grads
        return [gz * scal.log(y), gz * x / y]

    def c_code(self, node, name, inputs, outputs, sub):
        x, y = inputs
        z, = outputs
        if node.inputs[0].type not in (scal.float32, scal.float64):
            from theano_ng.gof.utils import MethodNotDefined
            raise MethodNotDefined('c_code', type(self), 'only for floats')
        return "%(z)s = %(x)s == 0.0 ? 0.0 : %(x)s * log(%(y)s);" % locals()

    def c_code_cache_version(self):
        return (1,)


scalar_xlogy0 = XlogY0(scal.upgrade_to_float, name='scalar_xlogy0')
xlogy0 = Elemwise(scalar_xlogy0, name='xlogy0')
