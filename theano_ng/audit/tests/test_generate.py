"""Tests of the inputs that the audit generates, and of the search for the smallest failing input."""

import os
import random
import signal
import sys
import time
import unittest
from unittest import mock

import numpy as np

from theano_ng import tensor as T
from theano_ng.audit import audit, generate
from theano_ng.audit.driver import as_case, select
from theano_ng.audit.problems import AuditError, Problem, Reject
from theano_ng.audit.processes import Child, in_child, wait_for_one
from theano_ng.audit.records import Case
from theano_ng.audit.targets import MAX_SIGNATURES, Slot, Target
from theano_ng.gof.graph import Apply
from theano_ng.gof.op import Op
from theano_ng.misc.doubleop import DoubleOp

MATRIX, ROW = np.arange(12.0).reshape(3, 4), np.arange(4.0).reshape(1, 4)


class Declared(Op):
    __props__ = ()
    itypes, otypes = [T.fvector, T.lscalar], [T.fvector]

    def perform(self, node, inputs, outputs):
        outputs[0][0] = inputs[0] * np.float32(inputs[1])


class Pairs(Op):
    """An Op of two matrices with equal floating point dtypes."""

    __props__ = ()
    destroy_map = {0: [0]}

    def make_node(self, x, y):
        if x.dtype != y.dtype or x.ndim != 2 or y.ndim != 2 or not x.dtype.startswith("float"):
            raise TypeError("no")
        return Apply(self, [x, y], [x.type()])


def draw(target, stage, seed=0):
    """Return all examples of a stage."""
    import hypothesis

    found = []
    settings = hypothesis.settings(
        max_examples=stage.examples,
        database=None,
        deadline=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    try:
        hypothesis.find(
            generate.strategy(target, stage),
            lambda e: found.append(e) or False,
            settings=settings,
            random=random.Random(seed),
        )
    except hypothesis.errors.NoSuchExample:
        pass
    return found


class TestTypes(unittest.TestCase):
    def test_slots(self):
        constant = T.constant(3)
        self.assertEqual(Slot(ROW, 0).type, T.drow)
        self.assertEqual(Slot(2, 0).type, T.lscalar)
        self.assertEqual(Slot(T.fmatrix, 0).shape, (3, 3))
        self.assertEqual(Slot(T.fmatrix("x"), 0).type, T.fmatrix)
        self.assertIs(Slot(constant, 0).fixed, constant)
        given = Slot((T.dmatrix, ROW), 0)
        self.assertEqual((given.type, given.shape), (T.dmatrix, (1, 4)))

    def test_value_without_type(self):
        with self.assertRaisesRegex(ValueError, "give a pair"):
            Slot(__import__("theano_ng").gof.generic, 2)

    def test_signatures(self):
        target = Target(Case(T.add, [MATRIX, ROW]))
        self.assertEqual(
            [str(t) for t in target.built[0].types], ["TensorType(float64, matrix)", "TensorType(float64, row)"]
        )
        self.assertEqual(len(target.built), MAX_SIGNATURES)
        self.assertEqual(len({b.types for b in target.built}), MAX_SIGNATURES)
        self.assertEqual([b.index for b in target.built], list(range(MAX_SIGNATURES)))
        kinds = {t.dtype for b in target.built for t in b.types}
        self.assertLessEqual({"float64", "float32", "int64"}, kinds)
        self.assertIn((0, 0), {tuple(t.ndim for t in b.types) for b in target.built})
        self.assertIn((False, False), {b.types[1].broadcastable for b in target.built})

    def test_make_node_decides(self):
        target = Target(Case(Pairs(), [MATRIX, MATRIX]))
        self.assertEqual(
            {tuple(t.dtype for t in b.types) for b in target.built}, {("float%d" % bits,) * 2 for bits in (16, 32, 64)}
        )
        self.assertEqual({t.ndim for b in target.built for t in b.types}, {2})

    def test_declared_types_need_no_examples(self):
        target = Target(as_case(Declared))
        self.assertEqual([b.types for b in target.built], [(T.fvector, T.lscalar)])

    def test_what_may_vary(self):
        target = Target(Case(T.add, [MATRIX, ROW], vary=("rank",)))
        self.assertEqual({t.dtype for b in target.built for t in b.types}, {"float64"})

    def test_refused_examples(self):
        with self.assertRaisesRegex(ValueError, "refuses the example inputs"):
            Target(Case(Pairs(), [MATRIX, 2]))

    def test_inputs_that_the_callable_computes(self):
        target = Target(Case(lambda x: T.exp(x * 2), [MATRIX]))
        self.assertEqual(str(target.op), "Elemwise{exp,no_inplace}")
        np.testing.assert_array_equal(target.base.values([MATRIX])[0], 2 * MATRIX)


class TestArrays(unittest.TestCase):
    def test_layouts_hold_the_same_elements(self):
        for shape in ((), (3,), (2, 3), (0, 3), (1, 1, 2)):
            for dtype in ("float64", "int8", "complex64", "bool"):
                a = np.arange(int(np.prod(shape))).reshape(shape).astype(dtype)
                for name, layout in generate.LAYOUTS.items():
                    b = layout(a)
                    self.assertEqual((b.shape, b.dtype.newbyteorder("=")), (a.shape, a.dtype), name)
                    np.testing.assert_array_equal(b, a, name)

    def test_layouts_are_what_they_say(self):
        a = np.ones((3, 4))
        made = {name: layout(a) for name, layout in generate.LAYOUTS.items()}
        self.assertTrue(made["fortran"].flags.f_contiguous)
        self.assertEqual(made["reversed"].strides, (-32, -8))
        self.assertFalse(made["misaligned"].flags.aligned)
        self.assertFalse(made["read-only"].flags.writeable)
        self.assertEqual(made["repeated"].strides, (0, 0))
        self.assertFalse(made["swapped"].dtype.isnative)
        self.assertEqual(made["offset"].strides, (48, 8))
        self.assertIsInstance(made["memmap"], np.memmap)

    def test_contents(self):
        rng = np.random.RandomState(0)
        for dtype in ("float64", "float16", "int8", "uint64", "int64", "complex128", "bool"):
            for kind in generate.CONTENTS:
                a = generate.fill((20, 2), dtype, kind, None, rng)
                self.assertEqual((a.shape, str(a.dtype)), ((20, 2), dtype))
        info = np.iinfo("int32")
        extreme = generate.fill((200,), "int32", "extreme", None, rng)
        self.assertEqual((extreme.min(), extreme.max()), (info.min, info.max))
        self.assertTrue(np.isnan(generate.fill((50,), "float32", "nonfinite", None, rng)).any())
        indices = generate.fill((50,), "int64", "small", np.array([7, 2]), rng)
        self.assertEqual(set(indices.tolist()), {2, 7})
        np.testing.assert_array_equal(generate.fill((5,), "int64", "given", np.array([7, 2]), rng), [7, 2, 7, 2, 7])


class TestStages(unittest.TestCase):
    def examples(self, case, **limits):
        target = Target(case)
        return [e for stage in generate.stages(target, 20, **limits) for e in draw(target, stage)]

    def test_everything_is_met(self):
        found = self.examples(Case(T.add, [MATRIX, MATRIX]))
        self.assertLessEqual(set(generate.LAYOUTS), {way for e in found for way in e.layouts})
        self.assertEqual({e.built.index for e in found}, set(range(MAX_SIGNATURES)))
        self.assertEqual({e.alias for e in found}, {"none", "same", "overlap"})
        base = [e for e in found if e.built.index == 0]
        self.assertTrue(any(e.values[0].size == 0 for e in base))
        self.assertTrue(any(e.values[0].shape == (1, 1) for e in base))
        self.assertTrue(any(np.isnan(e.values[0]).any() for e in base))
        self.assertTrue(any(e.values[0].shape != e.values[1].shape for e in base))

    def test_the_example_itself_comes_first(self):
        found = self.examples(Case(T.add, [MATRIX, ROW]))
        np.testing.assert_array_equal(found[0].values[0], MATRIX)
        np.testing.assert_array_equal(found[0].values[1], ROW)

    def test_same_again(self):
        case = Case(T.add, [MATRIX, ROW])
        self.assertEqual([e.key() for e in self.examples(case)], [e.key() for e in self.examples(case)])

    def test_what_is_overwritten_is_writable_and_its_own(self):
        for e in self.examples(Case(Pairs(), [MATRIX, MATRIX])):
            self.assertTrue(e.values[0].flags.writeable)
            self.assertEqual(e.alias, "none")

    def test_overlapping(self):
        target = Target(Case(T.add, [MATRIX, MATRIX]))
        example = draw(target, generate.Stage(target.base, 1, aliases=("overlap",)))[0]
        self.assertTrue(np.shares_memory(*example.values))
        self.assertIsNot(example.values[0], example.values[1])


class TestSearch(unittest.TestCase):
    def search(self, attempt, case=None):
        target = Target(case or Case(DoubleOp(), [MATRIX]))
        search = generate.Search(attempt, 0, lambda: 100)
        return search.run(target, generate.stages(target, 30)), search

    def test_smallest_example(self):
        def attempt(example):
            x = example.values[0]
            if x.ndim == 2 and x.shape[0] > 1 and x.strides and x.strides[-1] < 0:
                raise Problem("BadThunkOutput", "negative strides")

        found, _ = self.search(attempt)
        ((problem, example),) = found
        self.assertEqual(problem.error, "BadThunkOutput")
        self.assertEqual((example.built.index, example.layouts), (0, ("reversed",)))

    def test_lengths_of_the_examples_shrink(self):
        def attempt(example):
            if example.values[0].size:
                raise Problem("BadRop", "any element will do")

        found, _ = self.search(attempt)  # the given example, which the first stage tries unchanged, already fails
        ((_, example),) = found
        self.assertEqual(example.values[0].shape, (1, 1))

    def test_each_name_once(self):
        def attempt(example):
            x = example.values[0]
            if x.size == 0:
                raise Problem("BadInferShape", "empty")
            if x.dtype == "float32":
                raise Problem("BadGradient", "single")

        found, _ = self.search(attempt)
        self.assertEqual(
            {p.error: (e.values[0].size, str(e.values[0].dtype)) for p, e in found},
            {"BadInferShape": (0, "float64"), "BadGradient": (1, "float32")},
        )

    def test_failures_that_come_and_go(self):
        rng = random.Random(1)

        def attempt(example):
            if rng.random() < 0.3:
                raise Problem("NonDeterministic", "now")

        found, _ = self.search(attempt)
        self.assertEqual([p.error for p, _ in found], ["NonDeterministic"])

    def test_rejected_examples_do_not_count(self):
        def attempt(example):
            if example.values[0].ndim != 1:
                raise Reject()

        found, search = self.search(attempt)
        self.assertEqual(found, [])
        self.assertTrue(0 < search.accepted < search.tried)


class TestDriver(unittest.TestCase):
    def test_without_hypothesis(self):
        needs = self.assertRaisesRegex(ImportError, r"pip install 'theano_ng\[audit\]'")
        with mock.patch.dict(sys.modules, {"hypothesis": None}), needs:
            generate.require_hypothesis()

    def test_unknown_check(self):
        with self.assertRaisesRegex(ValueError, "no check 'gradients'; the checks are: make_node, props"):
            select(["gradients"])
        self.assertEqual([check.name for check in select("grad,maps")], ["maps", "grad"])
        names = [check.name for check in select(sanitize=False, leaks=False)]
        self.assertNotIn("sanitizer", names)
        self.assertNotIn("memory", names)

    @unittest.skipUnless(hasattr(os, "fork"), "processes are not forked on this system")
    def test_processes(self):
        self.assertEqual(in_child(lambda: (1, "a"))[:2], ("ended", (1, "a")))
        self.assertEqual(in_child(lambda: os.kill(os.getpid(), signal.SIGSEGV))[:2], ("signal SIGSEGV", None))
        self.assertEqual(in_child(lambda: os._exit(3))[:2], ("exit code 3", None))
        self.assertEqual(in_child(signal.pause, 0.2)[:4], ("it was still running after 0 s", None, False, True))
        with self.assertRaisesRegex(AuditError, "ZeroDivisionError"):
            in_child(lambda: 1 // 0)


@unittest.skipUnless(hasattr(os, "fork"), "processes are not forked on this system")
class TestProcesses(unittest.TestCase):
    def test_several_at_once(self):
        first = Child(lambda: time.sleep(0.3) or "slow")
        second = Child(lambda: "fast")
        third = Child(signal.pause, 0.6)
        order, children = [], [first, second, third]
        while children:
            child, answer = wait_for_one(children)
            children.remove(child)
            order.append(answer[:2])
        self.assertEqual(order, [("ended", "fast"), ("ended", "slow"), ("it was still running after 1 s", None)])

    def test_large_answers(self):
        self.assertEqual(len(in_child(lambda: b"x" * (1 << 20))[1]), 1 << 20)

    def test_verdicts_keep_their_order(self):
        names = ["make_node", "props", "pickle", "maps", "types", "perform", "grad"]
        events = []
        reports = [
            audit(
                DoubleOp(),
                T.dmatrix,
                checks=names,
                max_examples=3,
                processes=processes,
                progress=lambda *event: events.append(event),
            )
            for processes in (1, 3)
        ]
        one, three = [[(v.check, v.status, v.examples, v.findings) for v in report.verdicts] for report in reports]
        self.assertEqual(one, three)
        self.assertEqual([name for name, *_ in one], names)
        ends = [event for event in events if event[4] is not None]
        self.assertEqual([event[2] for event in ends], [*range(1, 8), *range(1, 8)])


if __name__ == "__main__":
    unittest.main()
