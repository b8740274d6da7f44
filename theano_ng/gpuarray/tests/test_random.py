"""Tests of random streams whose states are on a device."""

import unittest

import numpy as np

import theano_ng as theano
from theano_ng.gpuarray.tests.device import context
from theano_ng.gpuarray.type import GpuArrayType
from theano_ng.sandbox.rng_mrg import MRG_RandomStreams


class TestTarget(unittest.TestCase):
    def test_states_on_a_device(self):
        """Streams with states on a device draw the same samples as streams with states on the host.

        The samples are also equal after calls of `seed`.
        """
        name = context()
        for method in (MRG_RandomStreams.uniform, MRG_RandomStreams.normal, MRG_RandomStreams.binomial):
            placed, host = MRG_RandomStreams(7), MRG_RandomStreams(7)
            samples = method(placed, (2, 3), target=name), method(host, (2, 3))
            ((state, _),) = placed.state_updates
            self.assertEqual((type(state.type), state.type.context_name), (GpuArrayType, name))
            f, g = [theano.function([], sample) for sample in samples]
            for _ in range(2):
                for _ in range(2):
                    np.testing.assert_array_equal(f(), g())
                placed.seed(3)
                host.seed(3)


if __name__ == "__main__":
    unittest.main()
