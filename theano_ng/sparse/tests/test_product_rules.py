"""Tests of the rule `local_usmm`: where a product may be in a sum, and products that other nodes use as well."""

import unittest

import numpy as np
import scipy.sparse as sp

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng import sparse
from theano_ng.gof import FunctionGraph
from theano_ng.sparse.opt.products import local_usmm
from theano_ng.sparse.products import Usmm


class TestSumsWithProducts(unittest.TestCase):
    def rewritten(self, inputs, outputs):
        """Return, for each sum or difference of a graph, whether the rule replaces it by Usmm."""
        fgraph = FunctionGraph(inputs, outputs, clone=True)
        found = []
        for node in fgraph.toposort():
            if node.op in (T.add, T.sub):
                made = local_usmm.transform(node)
                found.append(bool(made) and isinstance(made[0].owner.op, Usmm))
        return found

    def test_places(self):
        """The rule applies to ``z + a * product`` and to ``z - a * product``, with operands in any order.

        It does not apply to ``a * product - z``, nor to a product without a factor.
        """
        for x in (sparse.csc_dmatrix(), sparse.csr_dmatrix()):
            d, z, a = T.dmatrix(), T.dmatrix(), T.dscalar()
            inputs, product = [x, d, z, a], sparse.dot(x, d)
            for result, is_one in (
                (z + a * product, True),
                (a * product + z, True),
                (product * a + z, True),
                (z - a * product, True),
                (z - product * a, True),
                (a * product - z, False),
                (z + product, False),
                (z * product + z, False),
                (T.add(z, a * product, d), False),
            ):
                self.assertEqual(self.rewritten(inputs, [result])[0], is_one, theano.pp(result))

    def test_products_that_others_read(self):
        """The rule does not apply if a product has a client besides the sum: the product would be computed twice."""
        x, d, z, a = sparse.csc_dmatrix(), T.dmatrix(), T.dmatrix(), T.dscalar()
        product = sparse.dot(x, d)
        term = a * product
        for outputs, wanted in (
            ([z + term], [True]),
            ([z + term, term], [False]),
            ([z + term, T.exp(term)], [False]),
            ([z + term, product], [False]),
            ([z + term, T.exp(product)], [False]),
            ([z + term, z - term], [False, False]),
        ):
            self.assertEqual(self.rewritten([x, d, z, a], outputs), wanted)
            f = theano.function([x, d, z, a], outputs, mode=theano.Mode("cvm", "fast_run"), on_unused_input="ignore")
            value, rng = sp.random(4, 3, 0.5, format="csc", random_state=1), np.random.RandomState(2)
            b, c = rng.randn(3, 2), rng.randn(4, 2)
            dense = value.toarray().dot(b)
            np.testing.assert_allclose(f(value, b, c, 0.5)[0], c + 0.5 * dense)


if __name__ == "__main__":
    unittest.main()
