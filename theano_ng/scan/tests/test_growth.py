"""Tests of the growth of the work of compiling loops. The work is counted in function calls, not in seconds."""

import gc
import unittest
from unittest import mock

import numpy as np

import theano_ng
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode
from theano_ng.configdefaults import config
from theano_ng.gof import optdb
from theano_ng.scan.op import Scan
from theano_ng.tensor.tests.test_opt_growth import calls_of

MODE = Mode("cvm", "fast_run")


def nested(depth, x):
    """Return the last row of nested loops."""
    if not depth:
        return T.tanh(x)
    rows, _ = theano_ng.scan(lambda s: nested(depth - 1, s) * 0.5, outputs_info=x, n_steps=2, mode=MODE)
    return rows[-1]


def one_after_another(length, x):
    """Return the last row of a chain of loops: each loop runs over the rows of the previous loop."""
    rows = theano_ng.scan(lambda s: T.tanh(s), outputs_info=x, n_steps=3, mode=MODE)[0]
    for _ in range(length - 1):
        rows = theano_ng.scan(lambda v, s: T.tanh(v) * s.sum(), sequences=rows, outputs_info=x, mode=MODE)[0]
    return rows[-1]


def maps_one_after_another(length, x):
    """Return the rows of a chain of loops without states, which rules replace by elementwise operations."""
    rows = x
    for _ in range(length):
        rows = theano_ng.scan(lambda v: T.tanh(v) * 2, sequences=rows, n_steps=x.shape[0], mode=MODE)[0]
    return rows


def repeated(n_steps, x):
    """Return the last row of one loop with a constant number of steps."""
    return theano_ng.scan(lambda s: T.tanh(s) * s.sum(), outputs_info=x, n_steps=n_steps, mode=MODE)[0][-1]


def steps_inside(fgraph):
    """Return the inner graphs of all loops, also of nested loops."""
    found = []
    for node in fgraph.toposort():
        if isinstance(node.op, Scan):
            found += [node.op.inner_graph, *steps_inside(node.op.inner_graph.maker().fgraph)]
    return found


class TestGrowth(unittest.TestCase):
    def setUp(self):
        # Hide a user's rules, which other tests of this process may have registered. Such rules make the identity of
        # steps unknown, so that equal steps would be compiled several times.
        for context in (mock.patch.object(optdb, "_foreign", False), config.change_flags(tiered="off")):
            context.__enter__()
            self.addCleanup(context.__exit__, None, None, None)

    def work(self, make, size, gradient):
        """Return the number of function calls for differentiation and compilation.

        The cache of rewritten graphs is not used, since the number would depend on its contents.
        """
        x = T.dvector("x")
        y = make(size, x)

        def compile_all():
            theano_ng.function([x], T.grad(y.sum(), x) if gradient else y, mode=MODE)

        gc.collect()  # otherwise, equal steps of earlier functions would be reused instead of rewritten
        with config.change_flags(cache_graphs=False):
            return calls_of(compile_all)

    def check(self, make, gradient, few, many, loops_of):
        self.work(make, 1, gradient)  # the first run also imports modules and fills caches, so its calls do not count
        little, much = self.work(make, few, gradient), self.work(make, many, gradient)
        self.assertLess(much / little, 1.2 * loops_of(many) / loops_of(few), (make.__name__, gradient, little, much))

    def test_nested_loops(self):
        """The work of compiling nested loops grows linearly with the depth, because each step is compiled once."""
        self.check(nested, False, 3, 9, lambda depth: depth)

    def test_gradients_of_nested_loops(self):
        """The work of compiling the gradient of nested loops grows linearly with the depth.

        The backward step of a loop contains a copy of each forward loop that is inside the loop. Equal steps at
        different levels are compiled once.
        """
        self.check(nested, True, 4, 16, lambda depth: depth)

    def test_steps_of_nested_loops_are_rewritten_once(self):
        """The gradient of `depth` nested loops has depth * (depth + 3) / 2 loops.

        At most 2 * depth steps are rewritten: one forward and one backward step for each level.
        """
        for depth in (2, 6):
            x = T.dvector("x")
            function = theano_ng.function([x], T.grad(nested(depth, x).sum(), x), mode=MODE)
            steps = steps_inside(function.maker.fgraph)
            self.assertEqual(len(steps), depth * (depth + 3) // 2)
            self.assertLessEqual(len({id(step.maker()) for step in steps}), 2 * depth)

    def test_what_equal_steps_do_not_share(self):
        """Equal steps share no maker if their source lines, modes or flags differ."""

        def first(x):
            return theano_ng.scan(lambda v, s: s * 2 // v, sequences=x, outputs_info=np.int64(3))[0]

        def second(x):
            return theano_ng.scan(lambda v, s: s * 2 // v, sequences=x, outputs_info=np.int64(3))[0]

        x = T.lvector("x")

        def maker(make):
            (step,) = steps_inside(theano_ng.function([x], make(x)).maker.fgraph)
            return step.maker()

        flags = [{"mode": "FAST_RUN"}] * 2 + [
            {"mode": "FAST_COMPILE"},
            {"mode": "FAST_RUN", "exception_verbosity": "high"},
        ]
        makers = []
        for make, changed in [(first, changed) for changed in flags] + [(second, flags[0])]:
            with config.change_flags(changed):
                makers.append(maker(make))
        self.assertIs(makers[1], makers[0])
        self.assertEqual(len(set(makers[1:])), len(makers) - 1)
        for make, line in ((first, first.__code__.co_firstlineno), (second, second.__code__.co_firstlineno)):
            function = theano_ng.function([x], make(x))
            with self.assertRaises(ZeroDivisionError) as caught:
                function([1, 0])
            self.assertIn('test_growth.py", line %d' % (line + 1), str(caught.exception))

    def test_loops_one_after_another(self):
        self.check(one_after_another, False, 3, 9, lambda length: length)
        self.check(one_after_another, True, 2, 6, lambda length: length)
        self.check(maps_one_after_another, False, 10, 40, lambda length: length)

    def test_numbers_of_steps(self):
        for gradient in (False, True):
            self.check(repeated, gradient, 100, 10000, lambda n_steps: 1)
