"""Tests of the rewriting rules for loops: results with and without the rules, and the loop that remains."""

import os
import subprocess
import sys
import unittest

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.compile.mode import Mode, optdb
from theano_ng.configparser import change_flags
from theano_ng.gof.optdb import EquilibriumDB, SequenceDB
from theano_ng.gof.vm import VM_Linker
from theano_ng.ifelse import IfElse
from theano_ng.scan.args import scan_args
from theano_ng.scan.builder import scan
from theano_ng.scan.op import Scan
from theano_ng.scan.opt.merge import ScanMerge
from theano_ng.scan.opt.outer_graph import length_of_buffer, rows_of
from theano_ng.scan.opt.push_out_outputs import PushOutDot1, PushOutScanOutput
from theano_ng.scan.opt.save_mem import ScanSaveMem
from theano_ng.scan.utils import until
from theano_ng.tensor.assert_op import Assert
from theano_ng.tensor.linalg.products import Dot
from theano_ng.tensor.opt.shape import ShapeOptimizer
from theano_ng.tensor.reductions.careduce import CAReduce
from theano_ng.tensor.shaping.allocation import Alloc, AllocEmpty

LINKER = VM_Linker(use_cloop=False, c_thunks=False)
STEP = Mode(LINKER, None)  # steps are not rewritten
WITH = Mode(LINKER, "fast_run").excluding("fusion")
WITHOUT = WITH.excluding("scan")


def loops(fn):
    """Return the Scan nodes of a function."""
    return [node for node in fn.maker.fgraph.toposort() if isinstance(node.op, Scan)]


def ops_of_step(node):
    """Return the classes of the Ops in a loop's step, before the step is compiled."""
    return [type(inner.op) for inner in theano.gof.graph.io_toposort(node.op.inputs, node.op.outputs)]


class Case(unittest.TestCase):
    def loop(self, fn, *args, **kwargs):
        return scan(fn, *args, mode=STEP, return_list=True, **kwargs)[0]

    def check(self, inputs, outputs, values, excluding=(), rtol=1e-9):
        """Compile a function with the loop rules, and compare its results with those of a function without the rules.

        If `excluding` is given, the second function lacks only the rules with these tags.
        """
        fn = theano.function(inputs, outputs, mode=WITH, on_unused_input="ignore")
        plain = WITH.excluding(*excluding) if excluding else WITHOUT
        expected = theano.function(inputs, outputs, mode=plain, on_unused_input="ignore")(*values)
        for found, wanted in zip(fn(*values), expected):
            self.assertEqual((found.dtype, found.shape), (wanted.dtype, wanted.shape))
            if wanted.ndim and not len(wanted):
                continue
            np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-12)
        return fn

    def setUp(self):
        self._policy = theano.config.on_opt_error
        theano.config.on_opt_error = "raise"
        self.rng = np.random.RandomState(7)

    def tearDown(self):
        theano.config.on_opt_error = self._policy

    def only_loop(self, fn):
        (node,) = loops(fn)
        return node


class Registration(unittest.TestCase):
    def positions(self, db):
        """Return the positions of the loop rules of a database, as a dict by name.

        Rules for devices are left out, since they are registered only if another module has loaded them.
        """
        return {name: position for name, position in db.__position__.items() if "scan" in name and "gpua" not in name}

    def test_names_and_positions(self):
        self.assertEqual(
            self.positions(optdb),
            {"scan_eqopt1": 0.05, "scan_eqopt2": 1.6, "scanOp_save_mem": 1.61, "scanOp_make_inplace": 75},
        )
        first, second = optdb["scan_eqopt1"], optdb["scan_eqopt2"]
        self.assertIs(type(first), EquilibriumDB)
        self.assertIs(type(second), EquilibriumDB)
        self.assertIs(type(first["all_pushout_opt"]), SequenceDB)
        self.assertEqual(
            self.positions(first["all_pushout_opt"]),
            {
                "scanOp_remove_constants_and_unused_inputs0": 1,
                "scanOp_pushout_nonseqs_ops": 2,
                "scanOp_pushout_seqs_ops": 3,
                "scan_pushout_dot1": 4,
                "scanOp_pushout_output": 5,
            },
        )
        self.assertEqual(
            sorted(second._names),
            [
                "constant_folding_for_scan2",
                "scanOp_merge",
                "scanOp_merge_inouts",
                "scanOp_remove_constants_and_unused_inputs1",
                "scanOp_remove_constants_and_unused_inputs3",
                "scanop_remove_constants_and_unused_inputs2",
            ],
        )

    def test_tags(self):
        pushing = optdb["scan_eqopt1"]["all_pushout_opt"]
        for name, cls, more in [
            (
                "scanOp_remove_constants_and_unused_inputs0",
                "TopoOptimizer",
                ["remove_constants_and_unused_inputs_scan"],
            ),
            ("scanOp_pushout_nonseqs_ops", "PushOutNonSeqScan", []),
            ("scanOp_pushout_seqs_ops", "PushOutSeqScan", []),
            ("scan_pushout_dot1", "PushOutDot1", ["more_mem"]),
            ("scanOp_pushout_output", "PushOutScanOutput", ["more_mem"]),
        ]:
            self.assertEqual(
                pushing._tags_of(pushing[name]), sorted([cls, "all_pushout_opt", "fast_run", "scan"] + more)
            )
        second = optdb["scan_eqopt2"]
        self.assertEqual(second._tags_of(second["scanOp_merge"]), ["4", "ScanMerge", "fast_run", "scan", "scan_eqopt2"])
        self.assertEqual(
            second._tags_of(second["scanOp_merge_inouts"]),
            ["6", "TopoOptimizer", "fast_run", "scan", "scan_eqopt2", "scan_merge_inouts"],
        )
        self.assertEqual(
            optdb._tags_of(optdb["scanOp_make_inplace"]), ["ScanInplaceOptimizer", "fast_run", "inplace", "scan"]
        )
        self.assertEqual(optdb._tags_of(optdb["scanOp_save_mem"]), ["ScanSaveMem", "fast_run", "scan"])

    def test_programs_without_loops_do_not_load_the_rules(self):
        # Create optimizers and no functions: a function that finds its rewritten graph in the cache needs no optimizer.
        code = (
            "import sys, theano_ng as t; t.Mode('py', 'fast_run').optimizer;"
            "assert not [m for m in sys.modules if m.startswith('theano_ng.scan.')];"
            "t.scan.__name__; t.Mode('py', 'fast_run').optimizer;"
            "assert 'theano_ng.scan.opt' in sys.modules"
        )
        subprocess.run([sys.executable, "-c", code], check=True, env=dict(os.environ))


class Arguments(Case):
    def test_a_node_taken_apart_and_put_together(self):
        x, v, w = T.dmatrix("x"), T.dmatrix("v"), T.dvector("w")

        def step(a, before2, before, b, w):
            return [before2 + before * a, b + w, a * 2]

        outputs = self.loop(
            step, sequences=x, outputs_info=[dict(initial=v, taps=[-2, -1]), w, None], non_sequences=[w * 2]
        )
        node = outputs[2].owner
        args = scan_args.of(node)
        self.assertEqual(args.inner_inputs, node.op.inputs)
        self.assertEqual(args.inner_outputs, node.op.outputs)
        self.assertEqual(args.outer_inputs, node.inputs)
        self.assertEqual(args.outer_outputs, node.outputs)
        self.assertEqual(dict(args.info), {**node.op.info, "strict": False})
        self.assertEqual(args.mit_sot_in_slices, [[-2, -1]])
        self.assertEqual([len(taps) for taps in args.inner_in_mit_sot], [2])
        self.assertEqual(args.outer_out_nit_sot, [outputs[2]])
        self.assertEqual(args.cond, [])
        again = scan_args(node.inputs, node.outputs, node.op.inputs, node.op.outputs, node.op.info)
        again.merge(args)
        self.assertEqual(len(again.outer_in_seqs), 2)
        self.assertEqual(len(again.inner_in_mit_sot), 2)
        self.assertEqual(len(args.inner_in_mit_sot), 1)


class Unused(Case):
    def test_constants_become_part_of_the_step(self):
        x, c = T.dmatrix("x"), T.constant(np.full(3, 2.0))
        for constant in (c, c * 3, T.tanh(c), T.zeros(3) + 1):  # a constant, and expressions that become constants
            (out,) = self.loop(lambda a, h, c: h * c + a, x, T.zeros_like(x[0]), [constant])
            fn = self.check([x], [out], [self.rng.rand(4, 3)])
            self.assertEqual(self.only_loop(fn).op.n_others, 0)

    def test_sequences_of_equal_rows_are_constants(self):
        x = T.dvector("x")
        ones = T.constant(np.ones((5, 3)))
        (out,) = self.loop(lambda a, h: h + T.tanh(h * a), ones, x)
        fn = self.check([x], [out], [self.rng.rand(3)])
        self.assertEqual(self.only_loop(fn).op.n_seqs, 0)

    def test_inputs_and_results_that_nobody_reads(self):
        x, y, h = T.dmatrix("x"), T.dmatrix("y"), T.dvector("h")
        a, b, c, d = self.loop(lambda a, b, p, q, r: [p * a + 1, q * b + p, r + q, T.tanh(r)], [x, y], [h, h, h, None])
        values = [self.rng.rand(4, 3), self.rng.rand(4, 3), self.rng.rand(3)]
        # Only b, the rows of the state q, is read. q depends on the state p but not on r, so r is removed.
        node = self.only_loop(self.check([x, y, h], [b], values))
        self.assertEqual((node.op.n_seqs, node.op.n_sit_sot, node.op.n_nit_sot), (2, 2, 0))
        node = self.only_loop(self.check([x, y, h], [a], values))
        self.assertEqual((node.op.n_seqs, node.op.n_sit_sot, node.op.n_nit_sot), (1, 1, 0))


class PushOut(Case):
    def test_what_does_not_change(self):
        x, w = T.dmatrix("x"), T.dmatrix("w")
        (out,) = self.loop(lambda a, h, w: h * T.exp(w).sum(axis=0) + a, x, x[0], [w])
        fn = self.check([x, w], [out], [self.rng.rand(4, 3), self.rng.rand(3, 3)])
        self.assertEqual(sorted({cls.__name__ for cls in ops_of_step(self.only_loop(fn))}), ["Elemwise"])
        self.assertEqual(len(ops_of_step(self.only_loop(fn))), 2)

    def test_shapes_of_rows(self):
        x, h = T.dmatrix("x"), T.dvector("h")
        (out,) = self.loop(lambda a, h: h / a.shape[0] + h.shape[0] + a, x, h)
        fn = self.check([x, h], [out], [self.rng.rand(4, 3), self.rng.rand(3)])
        self.assertNotIn("Shape", [cls.__name__ for cls in ops_of_step(self.only_loop(fn))])

    def test_what_may_fail_waits_for_a_step(self):
        w, h, n = T.dscalar("w"), T.dscalar("h"), T.lscalar("n")
        refuse = Assert("negative")
        (out,) = self.loop(lambda h, w: h + T.exp(refuse(w, T.ge(w, 0))), None, h, [w], n_steps=n)
        fn = self.check([w, h, n], [out], [2.0, 1.0, 3])
        self.assertNotIn(Assert, ops_of_step(self.only_loop(fn)))
        self.assertTrue(any(isinstance(node.op, IfElse) for node in fn.maker.fgraph.apply_nodes))
        self.assertEqual(fn(-1.0, 1.0, 0)[0].shape, (0,))
        with self.assertRaisesRegex(AssertionError, "negative"):
            fn(-1.0, 1.0, 1)

    def test_shapes_without_a_step(self):
        """If a loop makes no step, no Op of the step can fail, and the results still have the correct lengths."""
        w, v, i, n = T.dmatrix("w"), T.lvector("v"), T.lscalar("i"), T.lscalar("n")
        rows = {
            "number": lambda w, v, i: w[i],
            "column": lambda w, v, i: T.nnet.softmax(w)[:, i] * w[0, 0],
            "rows": lambda w, v, i: w[v],
            "inverse": lambda w, v, i: T.nlinalg.matrix_inverse(w),
            "reshape": lambda w, v, i: w.reshape((2, -1)),
        }
        for name, row in rows.items():
            with self.subTest(name):
                (out,) = self.loop(row, None, None, [w, v, i], n_steps=n)
                for steps in (0, 2):
                    for matrix in (np.eye(4), np.ones((4, 6)), np.ones((5, 4)))[: 1 if name == "inverse" else 3]:
                        values = [matrix, np.array([1, 2]), 3, steps]
                        fn = self.check([w, v, i, n], [out, out.sum(axis=0)], values)
                self.assertEqual(fn(np.eye(4), np.array([77, 2]), 77, 0)[0].shape[0], 0)
                # The rules do not remove the next loop. Without steps, its rows have the same shapes as with steps.
                a = T.dvector("a")
                (out,) = self.loop(lambda a, w, v, i, row=row: row(w, v, i) * a, a, None, [w, v, i])
                for steps in (0, 2):
                    self.check([a, w, v, i], [out], [np.ones(steps), np.eye(4), np.array([1, 2]), 3])

    def test_numbers_of_c_and_slices_stay(self):
        x, n = T.dmatrix("x"), T.lscalar("n")
        w = T.dvector("w")
        (out,) = self.loop(lambda a, h, n, w: (h + a)[: n + 1] * w[: n + 1].sum(), x, x[0], [n, w])
        self.check([x, n, w], [out], [self.rng.rand(4, 3), 2, self.rng.rand(3)])

    def test_many_ways_through_a_step(self):
        """The analysis of a step with a condition visits each node once, not each path: there are 2 ** 40 paths."""

        def step(h, flag):
            v = theano.ifelse.ifelse(flag, h, -h)
            for _ in range(40):
                v = T.minimum(v, v[::-1])
            return v

        h, flag = T.dvector("h"), T.lscalar("flag")
        (out,) = self.loop(step, None, h, [flag], n_steps=2)
        fn = theano.function([h, flag], out, mode=WITH)
        self.assertEqual(fn([3.0, 1, 2], 1).tolist(), [[2, 1, 2], [2, 1, 2]])

    def test_branches_that_are_not_taken(self):
        w, h, flag = T.dscalar("w"), T.dscalar("h"), T.lscalar("flag")
        refuse = Assert("negative")
        (out,) = self.loop(
            lambda h, w, flag: theano.ifelse.ifelse(flag, h + 1, h + refuse(w, T.ge(w, 0))),
            None,
            h,
            [w, flag],
            n_steps=3,
        )
        fn = self.check([w, h, flag], [out], [-1.0, 1.0, 1])
        with self.assertRaisesRegex(AssertionError, "negative"):
            fn(-1.0, 1.0, 0)

    def test_what_depends_on_sequences(self):
        x, y, w, v = T.dmatrix("x"), T.dmatrix("y"), T.dmatrix("w"), T.dvector("v")
        for shape, text in [
            (lambda a, b: T.tanh(a) * b[::-1] + 2, "elementwise"),
            (lambda a, b: T.dot(a, w) + T.dot(w, b), "products with matrices"),
            (lambda a, b: T.dot(a, v) + T.dot(v, b) * a, "products with vectors"),
            (lambda a, b: a * T.dot(a, b), "products of two rows"),
            (lambda a, b: (a.dimshuffle("x", 0) * w).sum(axis=0) + b, "sums"),
            (lambda a, b: a.max() + b.sum() + a, "reductions of all"),
            (lambda a, b: T.concatenate([a[1:], b[:1]]) + a[0], "parts"),
            (lambda a, b: a / a.shape[0] + b.shape[0], "lengths"),
        ]:
            with self.subTest(text):
                (out,) = self.loop(lambda a, b, h: h * 0.5 + shape(a, b), [x, y], v)
                values = [self.rng.rand(4, 3), self.rng.rand(4, 3), self.rng.rand(3, 3), self.rng.rand(3)]
                fn = self.check([x, y, w, v], [out], values)
                ops = ops_of_step(self.only_loop(fn))
                if text not in ("sums",):
                    self.assertLessEqual(len(ops), 3, ops)
                self.check([x, y, w, v], [out], [values[0][:0], values[1], *values[2:]])

    def test_reductions_of_users(self):
        """A user's subclass of CAReduce stays in the step, because it may store more attributes than its axes."""

        class Doubled(CAReduce):
            """Twice the sum along some axes."""

            __module__ = "elsewhere"
            __props__ = ("axis",)

            def __init__(self, axis):
                super().__init__(theano.scalar.add, axis)
                self.reduced = axis

            def perform(self, node, inputs, outputs):
                outputs[0][0] = np.asarray(2 * inputs[0].sum(self.reduced))

        x = T.dtensor3("x")
        for op, twice in ((Doubled((0,)), 2), (Doubled((0, 1)), 2), (T.elemwise.Sum((0,)), 1)):
            value = self.rng.rand(4, 2, 3)
            (out,) = self.loop(lambda a: op(a), x)
            fn = self.check([x], [out], [value])
            np.testing.assert_allclose(fn(value)[0], twice * value.sum(tuple(d + 1 for d in op.axis)))
            self.assertEqual(len(loops(fn)), twice - 1)

    def test_sequences_that_are_longer(self):
        """Operations outside of the loop compute only as many rows as there are steps, also if sequences are longer."""
        x, y = T.dmatrix("x"), T.dvector("y")
        values, rows = [self.rng.rand(3, 5), self.rng.rand(7)], x.shape[0]
        for sequence, steps, cut in [
            (x.sum(axis=0), rows, True),
            (x.T, rows, True),
            (x.dimshuffle(1, 0, "x"), rows, True),
            (y, rows, True),
            (x[0], rows, True),
            (x[1:], rows, True),
            (x[:rows], rows, False),
            (x[:, 0], rows, False),
            (T.exp(x), rows, False),
            (x[:, 0] + y[0], rows, False),
            (x.dimshuffle(0, "x", 1), rows, False),
            (T.dot(x, x.T), rows, False),
            (T.dot(x.T, x), x.shape[1], True),
            (T.unbroadcast(x, 1), rows, False),
        ]:
            with self.subTest(sequence=str(sequence), steps=str(steps)):
                self.assertEqual(rows_of(sequence, steps) is not sequence, cut)
                if sequence.owner is None or sequence.owner.inputs[0] is not x or not cut:
                    (out,) = self.loop(lambda a: T.tanh(a) * 2, sequence, n_steps=steps)
                    self.assertEqual(loops(self.check([x, y], [out], values)), [])

    def test_sequences_that_are_too_short(self):
        x, n = T.dmatrix("x"), T.lscalar("n")
        for sequence in (x, T.exp(x), x[::-1], x[1:]):
            (out,) = self.loop(lambda a: T.tanh(a) * 2, sequence, n_steps=n)
            fn = self.check([x, n], [out], [self.rng.rand(4, 3), 2])
            self.assertEqual(loops(fn), [])
            for steps in (5, -1):
                with self.assertRaises((AssertionError, ValueError, IndexError)):
                    fn(self.rng.rand(4, 3), steps)

    def test_parts_whose_bounds_change(self):
        x, i, y = T.dmatrix("x"), T.lvector("i"), T.dtensor3("y")
        values = [self.rng.rand(4, 3), np.array([0, 1, 2, 0]), self.rng.rand(4, 2, 3)]
        for step in (
            lambda a, k, m: a[k:].sum(),
            lambda a, k, m: a[:k].sum(),
            lambda a, k, m: a[k : k + 1].sum(),
            lambda a, k, m: a[k] * 2,
            lambda a, k, m: T.join(-1, m, m * 2),
            lambda a, k, m: T.join(0, m, a.dimshuffle("x", 0)),
            lambda a, k, m: T.join(k - k, m, m),
        ):
            outputs = self.loop(lambda a, k, m: step(a, k, m), [x, i, y])
            self.check([x, i, y], outputs, values)

    def test_traces(self):
        """The replacement of a loop, or of a part of it, has the stack traces of the user's lines."""
        x, v, n = T.dmatrix("x"), T.dvector("v"), T.lscalar("n")
        outputs = self.loop(lambda a, h: [T.exp(a) + h, T.tanh(a), h[::-1] * 2], [x], [v, None, None], n_steps=n)
        outputs += self.loop(lambda a: T.tanh(a) * 2, x, n_steps=n)
        with change_flags({"check_stack_trace": "raise", "traceback.limit": 0}):
            theano.function([x, v, n], outputs, mode=WITH.excluding("inplace"))

    def test_what_is_seen_stays(self):
        """The Op Print stays in the step, so that it prints at each step."""
        x, h, printed = T.dvector("x"), T.dscalar("h"), []
        show = theano.printing.Print("row", global_fn=lambda op, value: printed.append(float(value)))
        out, same = self.loop(lambda a, h, k: [h * show(T.exp(a)), show(k + 1)], x, [h, None], non_sequences=h)
        fn = theano.function([x, h], [out, same], mode=WITH)
        fn([0.0, 1.0, 2.0], 1.0)
        self.assertEqual(sorted(printed), sorted([2.0] * 3 + list(np.exp([0.0, 1.0, 2.0]))))

    def test_cheap_factors_stay(self):
        """Cheap factors stay in the step, where they are fused with a product.

        Terms of sums are moved out of the step, since a product of matrices may be added to such a term.
        """
        x, w, h0 = T.dmatrix("x"), T.dmatrix("w"), T.dvector("h0")
        values = [self.rng.rand(4, 3), self.rng.rand(3, 3), self.rng.rand(3)]
        for step, last in [
            (lambda a, h: h * (a * (1 - a)), None),
            (lambda a, h: h * (1 - T.sqr(T.tanh(a))), "tanh"),
            (lambda a, h: h + (a * (1 - a)), "mul"),
            (lambda a, h: T.dot(h, w) + (1 - a), "sub"),
            (lambda a, h: h * T.exp(a), "exp"),
            (lambda a, h: h * (2 * T.tanh(T.dot(a, w))), "tanh"),
        ]:
            (out,) = self.loop(step, [x], h0)
            fn = self.check([x, w, h0], [out], values)
            node = self.only_loop(fn)
            (sequence,) = node.op.outer_seqs(node.inputs)
            self.assertEqual(sequence.owner and type(sequence.owner.op.scalar_op).__name__.lower(), last)

    def test_products_of_rows_of_all_dtypes(self):
        """Sums of products of rows have the dtype of the inner product in the step, so narrow integers wrap around."""
        for dtype in ("int8", "uint8", "int16", "int32", "uint32", "int64", "float32", "float64", "complex64"):
            x, y = [T.TensorType(dtype, (False, False))(name) for name in "xy"]
            (out,) = self.loop(lambda a, b: T.dot(a, b), [x, y])
            values = [self.rng.randint(0, 100, (4, 5)).astype(dtype) for _ in range(2)]
            fn = self.check([x, y], [out], values, rtol=1e-6)
            self.assertEqual(loops(fn), [])
            want = [np.dot(a, b) for a, b in zip(*values)]
            np.testing.assert_allclose(fn(*values)[0], want, rtol=1e-6)

    def test_stacks_of_matrices(self):
        x, w, v = T.dtensor3("x"), T.dmatrix("w"), T.dvector("v")
        (out,) = self.loop(lambda a, h: h + T.dot(a, w) + T.dot(a, v).dimshuffle(0, "x") + a.T, x, w)
        values = [self.rng.rand(4, 3, 3), self.rng.rand(3, 3), self.rng.rand(3)]
        fn = self.check([x, w, v], [out], values)
        self.assertNotIn(Dot, ops_of_step(self.only_loop(fn)))

    def test_rows_of_a_table(self):
        rows, table, u, h = T.lvector("rows"), T.dmatrix("table"), T.dmatrix("u"), T.dvector("h")
        (out,) = self.loop(lambda i, h, table, u: T.tanh(T.dot(table[i], u) + h), rows, h, [table, u])
        values = [np.array([0, 3, 1]), self.rng.rand(4, 3), self.rng.rand(3, 3), self.rng.rand(3)]
        fn = self.check([rows, table, u, h], [out], values)
        self.assertEqual([cls.__name__ for cls in ops_of_step(self.only_loop(fn))], ["Elemwise", "Elemwise"])
        matrix = T.lmatrix("rows")
        h = T.dmatrix("h")
        (out,) = self.loop(lambda i, h, table, u: T.tanh(T.dot(table[i], u) + h), matrix, h, [table, u])
        values[0], values[3] = np.array([[0, 3], [1, 1], [2, 0]]), self.rng.rand(2, 3)
        fn = self.check([matrix, table, u, h], [out], values)
        self.assertEqual([cls.__name__ for cls in ops_of_step(self.only_loop(fn))], ["Elemwise", "Elemwise"])
        with self.assertRaises(IndexError):
            fn(np.array([[0, 4]]), *values[1:])

    def test_numbers_that_are_repeated_stay(self):
        """An array of zeros into which a step writes is created in the step, and does not become a sequence.

        Therefore, a sum of several such arrays can be replaced by one array with all writes.
        """
        A, h = T.dmatrix("A"), T.dvector("h")

        def step(row, state):
            inside = row * 2
            parts = [T.inc_subtensor(T.zeros_like(inside)[i:], state[i:]) for i in range(2)]
            return state + T.tanh(sum(parts))

        values = [np.arange(12.0).reshape((4, 3)) / 10, np.ones(3)]
        fn = self.check([A, h], self.loop(step, A, h)[0][-1], values)
        (node,) = loops(fn)
        self.assertFalse(any(isinstance(v.owner and v.owner.op, Alloc) for v in node.op.outer_seqs(node.inputs)))
        zeros = [n for n in theano.gof.graph.io_toposort(node.op.inputs, node.op.outputs) if isinstance(n.op, Alloc)]
        self.assertTrue(zeros and all(v.owner is None for node in zeros for v in node.inputs[1:]))

    def test_what_would_need_more_memory_stays(self):
        x, w = T.dmatrix("x"), T.dmatrix("w")
        (out,) = self.loop(lambda a, h: h + T.dot(a.dimshuffle(0, "x") * a.dimshuffle("x", 0), h), x, w)
        fn = self.check([x, w], [out], [self.rng.rand(4, 3), self.rng.rand(3, 3)])
        self.assertEqual(self.only_loop(fn).op.n_seqs, 1 + 1)  # two views of x: as columns and as rows
        self.assertEqual({v.ndim for v in self.only_loop(fn).op.inputs[:2]}, {2})

    def test_a_loop_that_is_none(self):
        x, y, n = T.dmatrix("x"), T.dvector("y"), T.lscalar("n")
        values = [self.rng.rand(4, 3), self.rng.rand(6), 2]
        for loop, refused in [
            (self.loop(lambda a, b: [T.exp(a) * b, b + 1], [x, y]), []),
            (self.loop(lambda a, b: [T.exp(a) * b, b + 1], [x, y], go_backwards=True), []),
            (self.loop(lambda a, b: [T.exp(a) * b, y], [x, y], n_steps=n), [5, -1]),
            (self.loop(lambda a, b: a * b, [dict(input=x, taps=[0, 1])]), []),
        ]:
            fn = self.check([x, y, n], loop, values)
            self.assertEqual(loops(fn), [])
            # The Assert checks a given number of steps. Otherwise the number is the length of the shortest sequence.
            asserts = any(isinstance(node.op, Assert) for node in fn.maker.fgraph.apply_nodes)
            self.assertEqual(asserts, bool(refused))
            for steps in refused:
                with self.assertRaises((AssertionError, ValueError, IndexError)):
                    fn(*values[:2], steps)
        self.check([x, y, n], loop, [values[0][:0], *values[1:]])

    def test_loops_with_a_condition(self):
        x, h = T.dvector("x"), T.dscalar("h")
        out, seen = self.loop(lambda a, h: ([h + T.exp(a), a * 2], until(h > 2)), x, [h, None])
        fn = self.check([x, h], [out, seen], [np.ones(5), 0.0])
        self.assertEqual(len(fn(np.ones(5), 0.0)[1]), 2)


class Ends(Case):
    def rnn(self, x, h, w, v):
        return self.loop(lambda a, h: [T.tanh(T.dot(h, w) + a), T.dot(h * 2, v), h[::-1] + 1], x, [h, None, None])

    def test_results_after_the_loop(self):
        x, h, w, v = T.dmatrix("x"), T.dvector("h"), T.dmatrix("w"), T.dmatrix("v")
        values = [self.rng.rand(4, 3), self.rng.rand(3), self.rng.rand(3, 3), self.rng.rand(3, 2)]
        states, products, turned = self.rnn(x, h, w, v)
        fn = self.check([x, h, w, v], [states, products, turned], values)
        node = self.only_loop(fn)
        self.assertEqual(node.op.n_nit_sot, 0)
        self.assertEqual(sum(cls is Dot for cls in ops_of_step(node)), 1)
        self.check([x, h, w, v], [states, products, turned], [values[0][:0], *values[1:]])
        # Without the rules that move computations behind the loop, the loop computes two more results.
        without = theano.function(
            [x, h, w, v], [states, products, turned], mode=WITH.excluding("scanOp_pushout_output")
        )
        self.assertEqual(self.only_loop(without).op.n_nit_sot, 2)

    def test_several_taps(self):
        x, v, w = T.dvector("x"), T.dvector("v"), T.dscalar("w")
        out, both = self.loop(lambda a, p, q: [p * 0.5 + q * a, p * w + q], x, [dict(initial=v, taps=[-3, -1]), None])
        fn = self.check([x, v, w], [out, both], [self.rng.rand(6), self.rng.rand(3), 0.5])
        self.assertEqual(self.only_loop(fn).op.n_nit_sot, 0)

    def test_variables_that_the_loop_returns_for_it(self):
        x, h, w = T.dtensor3("x"), T.dmatrix("h"), T.dmatrix("w")

        def step(a, h, total, bias):
            new = T.tanh(T.dot(h, w) + a)
            delta = new * (1 - h)
            return [T.tanh(delta + new), total + T.dot(h.T, delta), bias + delta.sum(axis=0), T.dot(delta, w.T)]

        outputs = self.loop(step, x, [h, T.zeros_like(w), T.zeros_like(w[0]), None])
        wanted = [outputs[0], outputs[1][-1], outputs[2][-1], outputs[3]]
        values = [self.rng.rand(4, 2, 3), self.rng.rand(2, 3), self.rng.rand(3, 3)]
        fn = self.check([x, h, w], wanted, values)
        node = self.only_loop(fn)
        self.assertEqual((node.op.n_sit_sot, node.op.n_nit_sot), (1, 1))  # h and delta
        self.assertEqual(sum(cls is Dot for cls in ops_of_step(node)), 1)
        with self.assertRaises(AssertionError):
            fn(values[0][:0], *values[1:])  # without rows there is no last row

    def test_sums_of_products_of_what_is_there(self):
        x, y, u, v, m = T.dtensor3("x"), T.dtensor3("y"), T.dmatrix("u"), T.dmatrix("v"), T.dmatrix("m")
        values = [
            self.rng.rand(4, 2, 3),
            self.rng.rand(4, 2, 3),
            self.rng.rand(4, 3),
            self.rng.rand(4, 3),
            self.rng.rand(3, 3),
        ]
        for term, text in [
            (lambda a, b, p, q: T.dot(a.T, b), "matrices, the first one transposed"),
            (lambda a, b, p, q: T.dot(a.T, b) + T.outer(p, q), "an outer product beside"),
            (lambda a, b, p, q: T.outer(p, q), "outer products"),
            (lambda a, b, p, q: T.dot(a.T, T.dot(b, m)), "chains"),
            (lambda a, b, p, q: T.dot(T.dot(a.T, b), m), "products of products"),
            (lambda a, b, p, q: T.dot(m, a.T.dot(b)), "others first"),
        ]:
            with self.subTest(text):
                (out,) = self.loop(lambda a, b, p, q, s: s + term(a, b, p, q), [x, y, u, v], m)
                self.check([x, y, u, v, m], [out[-1]], values)
        (out,) = self.loop(lambda a, b, s: s + T.dot(a.T, b), [x, y], m)
        fn = self.check([x, y, m], [out[-1]], [*values[:2], values[4]])
        self.assertEqual(loops(fn), [])
        (out,) = self.loop(lambda p, b, s: s + T.dot(p, b), [u, T.dtensor3("w")], v[0])

    def test_sums_in_other_dtypes(self):
        x, start = T.dmatrix("x"), T.dvector("start")
        for first in (T.zeros_like(x[0]), T.zeros(3, "float64"), T.alloc(start[0], 3), start):
            (out,) = self.loop(lambda a, s: s + T.exp(a), x, first)
            fn = self.check([x, start], [out[-1]], [self.rng.rand(4, 3), self.rng.rand(3)])
            self.assertEqual(loops(fn), [])
        for dtype in ("float32", "int8", "int64", "complex128"):
            x, y = T.tensor3("x", dtype=dtype), T.tensor3("y", dtype=dtype)
            (out,) = self.loop(lambda a, b, s: s + T.dot(a, b), [x, y], T.zeros_like(x[0]))
            values = [self.rng.randint(-9, 9, size=(5, 3, 3)).astype(dtype) for _ in range(2)]
            fn = self.check([x, y], [out[-1]], values, rtol=1e-5)
            self.assertEqual(loops(fn), [])

    def test_terms_of_other_types_than_the_state(self):
        """Terms of narrower dtypes, or with dimensions that broadcast, are added in the dtype of the state."""
        big = np.full((200, 3), 100, "int8")
        for dtype, state in (("int8", "int64"), ("float32", "float64"), ("int16", "float32")):
            x, first = T.matrix("x", dtype=dtype), T.vector("first", dtype=state)
            values = [big if dtype == "int8" else (self.rng.rand(200, 3) * 100).astype(dtype), np.ones(3, state)]
            for step in (lambda a, s: s + a, lambda a, s: s + a[0]):
                (out,) = self.loop(step, x, first)
                self.check([x, first], [out[-1]], values, rtol=1e-12)
            y = T.tensor3("y", dtype=dtype)
            (out,) = self.loop(lambda a, b, s: s + T.dot(b, a), [x, y], first)
            self.check([x, y, first], [out[-1]], [values[0], np.ones((200, 3, 3), dtype), values[1]], rtol=1e-12)
        x, m, s = T.dmatrix("x"), T.TensorType("float64", (False, True, False))("m"), T.dvector("s")
        (out,) = self.loop(lambda a, b, s: s + T.dot(b, a), [x, m], s)
        self.check([x, m, s], [out[-1]], [self.rng.rand(4, 3), self.rng.rand(4, 1, 3), np.ones(3)])

    def test_sums_of_products_of_vectors(self):
        """A sum of inner products over all steps is computed without a loop, for equal and different dtypes."""
        for dtypes in (("float64", "float64"), ("float32", "float64"), ("float64", "float32"), ("int8", "float64")):
            a, b = [T.matrix(name, dtype=dtype) for name, dtype in zip("ab", dtypes)]
            values = [self.rng.randint(-9, 9, size=(4, 3)).astype(dtype) for dtype in dtypes]
            (out,) = self.loop(lambda p, q, s: s + T.dot(p, q), [a, b], T.constant(0.5, dtype="float64"))
            fn = self.check([a, b], [out[-1]], values)
            self.assertEqual(loops(fn), [])

    def test_products_alone(self):
        """Products that no state adds up are moved out of the loop by PushOutScanOutput, not by PushOutDot1."""
        x, h, w, v = T.dmatrix("x"), T.dvector("h"), T.dmatrix("w"), T.dmatrix("v")
        outputs = self.rnn(x, h, w, v)
        for rule, results in ((PushOutDot1(), 2), (PushOutScanOutput(), 0)):
            fgraph = theano.gof.FunctionGraph([x, h, w, v], list(outputs), clone=True)
            rule.optimize(fgraph)
            (node,) = [node for node in fgraph.apply_nodes if isinstance(node.op, Scan)]
            self.assertEqual(node.op.n_nit_sot, results)

    def test_sums_in_buffers_without_all_rows(self):
        """A state that keeps only its last row is not treated as a state with a row for each step."""
        x, y, m = T.dtensor3("x"), T.dtensor3("y"), T.dmatrix("m")
        (out,) = self.loop(lambda a, b, s: s + T.dot(a, b), [x, y], m)
        fgraph = theano.gof.FunctionGraph([x, y, m], [out[-1]], clone=True)
        ShapeOptimizer().optimize(fgraph)
        ScanSaveMem().optimize(fgraph)
        (node,) = [node for node in fgraph.apply_nodes if isinstance(node.op, Scan)]
        before = str(fgraph)
        PushOutDot1().optimize(fgraph)
        self.assertEqual(str(fgraph), before)

    def test_states_whose_rows_are_read_stay(self):
        x, y, m = T.dtensor3("x"), T.dtensor3("y"), T.dmatrix("m")
        values = [self.rng.rand(4, 2, 3), self.rng.rand(4, 2, 3), self.rng.rand(3, 3)]
        (out,) = self.loop(lambda a, b, s: s + T.dot(a.T, b), [x, y], m)
        for read in (out, out[-2], out[-2:], out[1], out[::-1]):
            fn = self.check([x, y, m], [read], values)
            self.assertEqual(len(loops(fn)), 1)


class Merge(Case):
    def test_loops_over_the_same_steps(self):
        x, h = T.dmatrix("x"), T.dvector("h")
        (a,) = self.loop(lambda a, h: T.tanh(h + a), x, h)
        (b,) = self.loop(lambda a, h: T.sqr(h) + a, x, h)
        (c,) = self.loop(lambda a, h: T.sqrt(h) + a, a, h)
        fn = self.check([x, h], [a, b, c], [self.rng.rand(4, 3), self.rng.rand(3)])
        # The third loop needs a result of the first loop.
        self.assertEqual(sorted(node.op.n_sit_sot for node in loops(fn)), [1, 2])
        self.assertEqual([node.op.n_seqs for node in loops(fn)], [1, 1])

    def test_copies_of_a_loop(self):
        """Copies of a loop, whose steps have the same variables, are merged."""
        x, y, h = T.dmatrix("x"), T.dmatrix("y"), T.dvector("h")
        a, _ = theano.scan(lambda row, state: T.tanh(row + state) * 2, sequences=x, outputs_info=h, n_steps=3)
        values = [self.rng.rand(3, 2), self.rng.rand(3, 2), self.rng.rand(2)]
        fn = self.check([x, y, h], [a, theano.clone(a, replace={x: y})], values)
        self.assertEqual([node.op.n_sit_sot for node in loops(fn)], [2])

    def test_layers_of_loops(self):
        x, h = T.dmatrix("x"), T.dvector("h")
        n = x.shape[0]
        outputs = [x, x]
        for _ in range(3):
            outputs = [
                self.loop(lambda a, h: T.tanh(h + a), outputs[0], h, n_steps=n)[0],
                self.loop(lambda a, h: T.sin(h) - a, outputs[1], h, n_steps=n)[0],
            ]
        fn = self.check([x, h], outputs, [self.rng.rand(3, 3), self.rng.rand(3)])
        self.assertEqual([node.op.n_sit_sot for node in loops(fn)], [2, 2, 2])

    def test_crossed_dependencies(self):
        x, h = T.dmatrix("x"), T.dvector("h")
        n = x.shape[0]
        (a,) = self.loop(lambda a, h: T.tanh(h + a), x, h, n_steps=n)
        (b,) = self.loop(lambda a, h: T.sqr(h) - a, x * 2, h, n_steps=3)
        (c,) = self.loop(lambda a, h: T.sqrt(h) + a, b, h, n_steps=n)
        (d,) = self.loop(lambda a, h: T.cos(h) + a, a, h, n_steps=3)
        fn = self.check([x, h], [c, d], [self.rng.rand(3, 3), self.rng.rand(3)])
        self.assertEqual(len(loops(fn)), 4)

    def test_conditions(self):
        x, h = T.dvector("x"), T.dscalar("h")
        (a,) = self.loop(lambda a, h: (h + a, until(a > 2)), x, h)
        (b,) = self.loop(lambda a, h: (h * a, until(a > 2)), x, h)
        (c,) = self.loop(lambda a, h: (h * a, until(a > 3)), x, h)
        (d,) = self.loop(lambda a, h: (h * a, until(h > 2)), x, h)
        (e,) = self.loop(lambda a, h: (h + a * 2, until(h > 2)), x, h)
        fn = self.check([x, h], [a, b], [np.arange(6.0), 1.0])
        self.assertEqual(len(loops(fn)), 1)
        self.assertEqual(len(fn(np.arange(6.0), 1.0)[0]), 4)
        for other in (c, d):
            fn = self.check([x, h], [a, other], [np.arange(6.0), 1.0])
            self.assertEqual(len(loops(fn)), 2)
        self.assertEqual(len(loops(self.check([x, h], [d, e], [np.arange(6.0), 1.0]))), 2)

    def test_other_options(self):
        x, h = T.dvector("x"), T.dscalar("h")
        (a,) = self.loop(lambda a, h: h + a, x, h)
        (b,) = self.loop(lambda a, h: h * a, x, h, truncate_gradient=3)
        fn = self.check([x, h], [a, b], [np.arange(6.0), 1.0])
        self.assertEqual(len(loops(fn)), 2)

    def test_equal_states_and_results(self):
        x, h, g = T.dvector("x"), T.dscalar("h"), T.dscalar("g")

        def step(a, p, q, r, s):
            return [p + q * a, q + p * a, r + s, s * r, T.exp(p) * r, T.exp(q) * r]

        outputs = self.loop(step, x, [h, h, h, g, None, None])
        mode = WITH.excluding("scanOp_pushout_output", "scanOp_save_mem")
        fn = theano.function([x, h, g], outputs, mode=mode)
        wanted = theano.function([x, h, g], outputs, mode=WITHOUT)(self.rng.rand(5), 0.5, 0.25)
        self.rng.seed(7)
        for found, value in zip(fn(self.rng.rand(5), 0.5, 0.25), wanted):
            self.assertEqual(found.shape, value.shape)
        node = self.only_loop(fn)
        # The states p and q stay equal and are merged, as are the results that read them. r begins with the same value,
        # but is computed differently, so it stays.
        self.assertEqual((node.op.n_sit_sot, node.op.n_nit_sot), (3, 1))

    def test_a_chain_of_states_that_differ_at_its_end(self):
        x, h = T.dvector("x"), T.dscalar("h")

        def step(a, *states):
            half = len(states) // 2
            one, other = states[:half], states[half:]
            return [*one[1:], one[0] + a, *other[1:], other[0] * a]

        outputs = self.loop(step, x, [h] * 16)
        fn = self.check([x, h], outputs, [self.rng.rand(5), 0.5])
        self.assertEqual(self.only_loop(fn).op.n_sit_sot, 16)

    def test_which_loops_belong_together(self):
        x, n = T.dmatrix("x"), T.lscalar("n")
        (one,), (two,) = self.loop(T.exp, x, n_steps=n), self.loop(T.tanh, x, n_steps=n)
        (after,) = self.loop(T.cos, one, n_steps=n)
        (shorter,) = self.loop(T.sin, x, n_steps=2)
        one_node, two_node, after_node, shorter_node = [v.owner for v in (one, two, after, shorter)]
        merger = ScanMerge()
        self.assertTrue(merger.belongs_to_set(two_node, [one_node]))
        self.assertTrue(merger.belongs_to_set(after_node, [two_node]))
        self.assertFalse(merger.belongs_to_set(after_node, [two_node, one_node]))
        self.assertFalse(merger.belongs_to_set(one_node, [two_node, after_node]))
        self.assertFalse(merger.belongs_to_set(shorter_node, [one_node]))
        pairs = merger.merge([one_node, two_node])
        self.assertEqual([old for old, _ in pairs], [one, two])
        self.assertEqual(len({new.owner for _, new in pairs}), 1)
        value = self.rng.rand(3, 2)
        f = theano.function([x, n], [new for _, new in pairs], mode=Mode("py", None))
        for result, expected in zip(f(value, 3), (np.exp(value), np.tanh(value))):
            np.testing.assert_allclose(result, expected)

    def test_levels_are_found_in_one_walk(self):
        x = T.dvector("x")
        out = x
        for _ in range(20):
            (out,) = self.loop(lambda a, h: T.tanh(a + h), out, x[0])
        fgraph = theano.gof.FunctionGraph([x], [out])
        ScanMerge().optimize(fgraph)
        self.assertEqual(sum(isinstance(node.op, Scan) for node in fgraph.apply_nodes), 20)


class Memory(Case):
    def rows(self, node, values):
        """Return the numbers of rows of a loop's buffers and results."""
        args = scan_args.of(node)
        wanted = list(map(length_of_buffer, args.outer_in_mit_sot + args.outer_in_sit_sot)) + args.outer_in_nit_sot
        inputs = [v for v in theano.gof.graph.inputs(wanted) if not isinstance(v, theano.gof.Constant)]
        cloned, outputs = theano.gof.graph.clone(inputs, wanted)
        fn = theano.function(cloned, outputs, mode=Mode("py", None), on_unused_input="ignore", accept_inplace=True)
        return [int(n) for n in fn(*[values[v.name] for v in inputs])]

    def kept(self, read, taps=(-1,), prealloc=True, steps=6, n_steps=None, result=False):
        x, h = T.dvector("x"), T.dvector("h") if len(taps) > 1 else T.dscalar("h")
        info = None if result else dict(initial=h, taps=list(taps))
        lead = -min(taps)
        if result:
            # No rule sorts the rows of all steps at once, so the sort stays in the loop.
            state, out = self.loop(lambda a, h: [h + a, T.sort(T.stack([h, a]))[0]], x, [h, None], n_steps=n_steps)
        else:
            (out,) = self.loop(lambda a, *h: T.tanh(sum(h) + a), x, [info], n_steps=n_steps)
        first = 0.5 if len(taps) == 1 else np.linspace(0.1, 0.5, lead)
        values = {"x": np.linspace(0, 1, steps), "h": first}
        with change_flags({"scan.allow_output_prealloc": prealloc}):
            fn = self.check([x, h], [read(out)], [values["x"], values["h"]])
        return self.rows(self.only_loop(fn), values)[-1]

    def test_states(self):
        for read, rows in [
            (lambda out: out[-1], 2),
            (lambda out: out[-1:], 2),
            (lambda out: out[-2], 3),
            (lambda out: out[-3:], 4),
            (lambda out: out[-3:-1], 4),
            (lambda out: out[:-3:-1], 3),
            (lambda out: out[-1] + out[-2], 3),
            (lambda out: out[-1] * out[-1:].shape[0], 2),
            (lambda out: out[T.cast(out.shape[0] - 1, "int64") :], 7),
            (lambda out: out, 7),
            (lambda out: out[1:], 7),
            (lambda out: out[-1] + out.sum(), 7),
            (lambda out: out[::2], 7),
            (lambda out: out[:-1], 7),
            # the next expressions read only the first rows, so the loop makes fewer steps
            (lambda out: out[0], 2),
            (lambda out: out[2], 4),
            (lambda out: out[:2], 3),
            (lambda out: out[:3:2], 4),
            (lambda out: out[0] + out[-1], 7),
        ]:
            self.assertEqual(self.kept(read), rows)

    def test_lengths_of_rows_need_none(self):
        x, h = T.dmatrix("x"), T.dvector("h")
        (out,) = self.loop(lambda a, h: T.tanh(h + a), x, h)
        values = {"x": self.rng.rand(6, 3), "h": self.rng.rand(3)}
        for read, rows in (
            (lambda out: out[-1] + out.shape[1], 2),
            (lambda out: out[1:][-1] + out[1:].shape[1], 3),
            (lambda out: out[1:][-1] + out[1:].shape[0], 3),
            (lambda out: out[-1] + out[2:].sum(), 7),
        ):
            fn = self.check([x, h], [read(out)], list(values.values()))
            with self.subTest(read(out)):
                self.assertEqual(self.rows(self.only_loop(fn), values)[-1], rows)

    def test_without_memory_for_results(self):
        self.assertEqual(self.kept(lambda out: out[-1], taps=(-3, -1), prealloc=False), 4)
        self.assertEqual(self.kept(lambda out: out[-1], taps=(-3, -1)), 4)

    def test_several_taps(self):
        for read, rows in [
            (lambda out: out[-1], 4),
            (lambda out: out[-3:], 6),
            (lambda out: out, 9),
            (lambda out: out[1], 5),
        ]:
            self.assertEqual(self.kept(read, taps=(-3, -1)), rows)

    def test_results(self):
        for read, rows in [
            (lambda out: out[-1], 1),
            (lambda out: out[-2:], 2),
            (lambda out: out, 6),
            (lambda out: out[2], 3),
            (lambda out: out[:2], 2),
        ]:
            self.assertEqual(self.kept(read, result=True), rows)

    def test_a_known_number_of_steps(self):
        self.assertEqual(self.kept(lambda out: out[-1], n_steps=5), 2)
        self.assertEqual(self.kept(lambda out: out[4], n_steps=5), 2)
        # For out[3], four steps are enough. out[3] is then the last row, so two rows of memory are enough.
        self.assertEqual(self.kept(lambda out: out[3], n_steps=5), 2)
        self.assertEqual(self.kept(lambda out: out[1], n_steps=5), 2)
        self.assertEqual(self.kept(lambda out: out[:2], n_steps=5), 3)
        self.assertEqual(self.kept(lambda out: out[-4:], n_steps=3), 4)
        for read, n_steps, rows in [
            (lambda out: out[-1], 5, 1),
            (lambda out: out[4], 5, 1),
            (lambda out: out[-2:], 5, 2),
            (lambda out: out[-4:], 5, 4),
            (lambda out: out[-5:], 5, 5),
            (lambda out: out[-4:], 3, 3),
            (lambda out: out, 5, 5),
        ]:
            self.assertEqual(self.kept(read, n_steps=n_steps, result=True), rows)

    def test_fewer_steps_than_rows(self):
        x, h = T.dvector("x"), T.dscalar("h")
        (out,) = self.loop(lambda a, h: T.tanh(h + a), x, h)
        for steps in (1, 2, 5):
            self.check([x, h], [out[-3:], out[:4]], [np.arange(steps * 1.0), 0.5])
            self.check([x, h], [out[-3:]], [np.arange(steps * 1.0), 0.5])
            self.check([x, h], [out[:4]], [np.arange(steps * 1.0), 0.5])

    def test_reading_a_row_that_is_not_there(self):
        x, h = T.dvector("x"), T.dscalar("h")
        (out,) = self.loop(lambda a, h: T.tanh(h + a), x, h)
        for read in (out[-1], out[0], out[2], out[-3]):
            fn = theano.function([x, h], read, mode=WITH)
            with self.assertRaises(IndexError):
                fn(np.zeros(0), 0.5)
        fn = theano.function([x, h], out[-3], mode=WITH)
        with self.assertRaises(IndexError):
            fn(np.zeros(2), 0.5)
        self.assertEqual(fn(np.zeros(3), 0.5), np.tanh(0.5))

    def test_conditions(self):
        x, h = T.dvector("x"), T.dscalar("h")
        (out,) = self.loop(lambda a, h: (h + a, until(h > 2)), x, h)
        values = [np.ones(9), 0.0]
        for read, rows in [(out[-1], 2), (out[-2:], 3), (out[1], 10), (out, 10)]:
            fn = self.check([x, h], [read], values)
            self.assertEqual(self.rows(self.only_loop(fn), {"x": values[0], "h": 0.0}), [rows])
        # The loop may end before the known number of steps.
        (out,) = self.loop(lambda a, h: (h + a, until(h > 2)), x, h, n_steps=5)
        for read in (out[2], out[0], out[-1], out[-2:], out[3:]):
            self.check([x, h], [read], [np.ones(9), 0.0])

    def test_what_one_output_needs_of_others(self):
        x, h = T.dvector("x"), T.dscalar("h")
        a, b = self.loop(lambda a, p, q: [p * a, q * p], x, [h, h])
        fn = self.check([x, h], [a[-1], b[-2:]], [self.rng.rand(5), 0.5])
        self.assertEqual(self.rows(self.only_loop(fn), {"x": np.zeros(5), "h": 0.5}), [2, 3])
        fn = self.check([x, h], [a[1], b[:3]], [self.rng.rand(5), 0.5])
        self.assertEqual(self.rows(self.only_loop(fn), {"x": np.zeros(5), "h": 0.5}), [4, 4])
        fn = self.check([x, h], [a[1], b[-1]], [self.rng.rand(5), 0.5])
        self.assertEqual(self.rows(self.only_loop(fn), {"x": np.zeros(5), "h": 0.5}), [6, 2])


class InPlace(Case):
    def test_buffers_of_their_own(self):
        x, h = T.dvector("x"), T.dscalar("h")
        a, b = self.loop(lambda a, p, q: [p * a, q + p], x, [h, h])
        fn = self.check([x, h], [a, b], [self.rng.rand(5), 0.5])
        node = self.only_loop(fn)
        self.assertEqual(dict(node.op.destroy_map), {0: [2], 1: [3]})
        # The initial rows are equal, so merging gives both states one buffer. The in-place rule makes two buffers.
        self.assertEqual(sum(isinstance(n.op, AllocEmpty) for n in fn.maker.fgraph.apply_nodes), 2)
        self.assertIn("inplace", str(node.op))

    def test_buffers_that_belong_to_others(self):
        x, buffer = T.dvector("x"), theano.shared(np.array([0.5, 0, 0, 0]), "buffer")
        a, h = T.dscalars("a", "h")
        info = dict(
            n_seqs=1, n_mit_mot=0, n_mit_mot_outs=0, n_mit_sot=0, n_sit_sot=2, n_shared_outs=0, n_nit_sot=0,
            tap_array=[[-1], [-1]], mit_mot_out_slices=[], as_while=False, name="own", mode=STEP,
        )  # fmt: skip
        g = T.dscalar("g")
        op = Scan([a, h, g], [h + a, g * a], info)
        fresh = T.set_subtensor(AllocEmpty("float64")(x.shape[0] + 1)[:1], [0.25])
        out, other = op(x.shape[0], x, buffer, fresh)
        fn = theano.function([x], [out, other], mode=WITH)
        np.testing.assert_array_equal(fn([1, 2, 3])[0], [0.5, 1.5, 3.5, 6.5])
        np.testing.assert_array_equal(buffer.get_value(), [0.5, 0, 0, 0])
        self.assertEqual(list(self.only_loop(fn).op.destroy_map), [1])
        np.testing.assert_array_equal(fn([1, 2, 3])[1], [0.25, 0.25, 0.5, 1.5])

    def test_on_request_only(self):
        x, h = T.dvector("x"), T.dscalar("h")
        (out,) = self.loop(lambda a, h: h * a, x, h)
        fn = theano.function([x, h], out, mode=WITH.excluding("inplace"))
        self.assertEqual(self.only_loop(fn).op.destroy_map, {})


if __name__ == "__main__":
    unittest.main()
