"""Tests of the rewriting rules for devices: registration, examples in docstrings, and whole rewritten graphs."""

import importlib
import logging
import os
import subprocess
import sys
import unittest
import unittest.mock

import numpy as np

import theano_ng as theano
import theano_ng.tensor as T
from theano_ng.audit.rewrites.devices import namespace
from theano_ng.audit.rewrites.examples import examples
from theano_ng.compile.mode import get_mode, optdb
from theano_ng.configdefaults import config
from theano_ng.gof import optdb as databases
from theano_ng.gof.fg import FunctionGraph
from theano_ng.gof.graph import Constant
from theano_ng.gof.graph import inputs as inputs_of
from theano_ng.gof.rewriting import EquilibriumOptimizer
from theano_ng.gof.traversal import equal_computations
from theano_ng.gpuarray import opt as rules
from theano_ng.gpuarray.tests.device import context

# Documented registrations: database, name, position, tags.
FACTS = """
optdb gpuarray_opt 48.5 gpuarray
optdb gpua_elemwise_fusion 49 fast_run fusion gpuarray local_elemwise_fusion
optdb gpua_row_fusion 49.05 fast_run fusion gpuarray
optdb gpua_multi_output_fusion 49.1 fast_run fusion gpuarray
optdb gpua_store_in_slices 49.15 fast_run fusion gpuarray
optdb gpua_product_elemwise 49.07 fast_run fusion gpuarray
optdb gpua_dnn_conv_elemwise 49.07 cudnn fast_run fusion gpuarray
optdb local_dnna_conv_elemwise_inplace 70 cudnn fast_run gpuarray inplace
optdb local_inplace_gpua_product_elemwise 60 fast_run gpuarray inplace
optdb local_gpua_dot22_in_row 60 fast_run gpuarray inplace
optdb gpua_numbers_by_value 76 fast_run gpuarray
optdb gpua_random_make_inplace_mrg 99 fast_run gpuarray inplace
optdb gpua_assert_no_cpu_op 49.2 assert_no_cpu_op
optdb local_gpua_alloc_empty_to_zeros 49.3 alloc_empty_to_zeros
optdb local_advincsub1_gpua_inplace 60 fast_run gpuarray inplace
optdb gpua_inplace_opt 75 fast_run gpuarray inplace inplace_elemwise_optimizer
optdb gpua_scanOp_make_inplace 75 fast_run gpuarray inplace scan
gpuarray_opt NoCuDNNRaise 0 cudnn
gpuarray_local_optimizations local_cudnn_maxandargmax - cudnn
gpuarray_local_optimizations local_dnn_argmax - cudnn
gpuarray_local_optimizations local_dnn_reduction - cudnn
gpuarray_local_optimizations local_dnn_conv_alpha_merge - cudnn fast_run gpuarray
gpuarray_local_optimizations local_dnn_conv_output_merge - cudnn fast_run gpuarray
gpuarray_local_optimizations local_dnn_convi_alpha_merge - cudnn fast_run gpuarray
gpuarray_local_optimizations local_dnn_convi_output_merge - cudnn fast_run gpuarray
gpuarray_local_optimizations local_dnn_convw_alpha_merge - cudnn fast_run gpuarray
gpuarray_local_optimizations local_dnn_convw_output_merge - cudnn fast_run gpuarray
gpuarray_local_optimizations local_gpua_logsoftmax_to_dnn - cudnn
gpuarray_local_optimizations local_gpua_softmax_dnn_grad - cudnn
gpuarray_local_optimizations local_log_softmax_dnn - cudnn stabilize
gpuarray_local_optimizations local_softmax_dnn - cudnn
pool_db local_gpua_pool_dnn_alternative 0 cudnn
pool_db local_gpua_pool_dnn_grad_stride 0 cudnn
pool_db local_gpua_avg_pool_dnn_grad_stride 0 cudnn
abstract_batch_norm_db local_abstract_batch_norm_train_cudnn 0 batchnorm_dnn cudnn
abstract_batch_norm_db local_abstract_batch_norm_train_grad_cudnn 0 batchnorm_dnn cudnn
abstract_batch_norm_db local_abstract_batch_norm_inference_cudnn 0 batchnorm_dnn cudnn
optdb local_dnn_dropout_inplace 60 fast_run gpuarray inplace
optdb local_dnn_rnn_gradient_inplace 60 fast_run gpuarray inplace
optdb local_batch_norm_inplace_output 60 fast_run gpuarray inplace
optdb local_batch_norm_inplace_running_mean 60 fast_run gpuarray inplace
optdb local_batch_norm_inplace_running_var 60 fast_run gpuarray inplace
optdb local_batch_norm_inference_inplace 60 fast_run gpuarray inplace
gpuarray_opt gpuarray_graph_optimization -0.5 fast_compile fast_run gpuarray
gpuarray_opt InputToGpuArrayOptimizer 0 fast_compile fast_run merge
gpuarray_opt gpuarray_local_optimizations 1 fast_compile fast_run gpuarray gpuarray_local_optimiziations
gpuarray_opt gpuarray_cut_transfers 2 fast_compile fast_run gpuarray
gpuarray_opt gpuarray_keep_movement_on_host 3 fast_compile fast_run gpuarray
gpuarray_opt gpuarray_keep_numbers_on_host 4 fast_compile fast_run gpuarray
canonicalize local_cut_gpua_host_gpua - fast_compile fast_run gpuarray
gpuarray_cut_transfers cut_gpua_constant_transfers - fast_compile fast_run gpuarray
gpuarray_cut_transfers local_cut_gpua_host_gpua - cut_gpua_host_transfers fast_compile fast_run gpuarray
gpuarray_local_optimizations cut_gpua_constant_transfers - fast_run gpua_constant_folding gpuarray
gpuarray_local_optimizations local_gpu_contiguous_gpu_contiguous - fast_run gpuarray
gpuarray_local_optimizations local_gpua_gemm_alpha_merge - fast_run gpuarray
gpuarray_local_optimizations local_gpua_gemm_output_merge - fast_run gpuarray
gpuarray_local_optimizations local_gpua_gemmbatch_alpha_merge - fast_run gpuarray
gpuarray_local_optimizations local_gpua_gemmbatch_output_merge - fast_run gpuarray
optdb InplaceGpuaBlasOpt 70.0 fast_run gpuarray inplace
gpuarray_local_optimizations local_gpu_elemwise_careduce - fast_run gpuarray low_memory
gpuarray_local_optimizations abstract_batch_norm_db - fast_compile fast_run gpuarray
gpuarray_local_optimizations gpuarray_batchnorm_opts - fast_compile fast_run gpuarray
abstract_batch_norm_db local_abstract_batch_norm_train 2 fast_compile fast_run gpuarray
abstract_batch_norm_db local_abstract_batch_norm_train_grad 3 fast_compile fast_run gpuarray
abstract_batch_norm_db local_abstract_batch_norm_inference 4 fast_compile fast_run gpuarray
gpuarray_local_optimizations local_gpu_ctc - ctc fast_compile fast_run gpuarray
canonicalize local_gpu_ctc_no_grad - fast_compile fast_run
optdb local_inplace_sparseblockgemv 60 fast_run gpuarray inplace
optdb local_inplace_sparseblockouter 60 fast_run gpuarray inplace
gpuarray_local_optimizations local_gpua_scan_to_gpua - fast_compile fast_run gpuarray scan
gpuarray_local_optimizations local_gpualloc_memset_0 - fast_run gpuarray
gpuarray_local_optimizations local_remove_all_assert - unsafe
gpuarray_local_optimizations local_conv_gpu_conv - fast_run gpuarray
gpuarray_local_optimizations local_gpua_abstractconv - conv_dnn cudnn fast_compile fast_run gpuarray
gpuarray_local_optimizations local_gpu_downsample_factor_max_grad_grad - fast_run gpuarray
gpuarray_local_optimizations local_gpu_max_pool_rop - fast_run gpuarray
gpuarray_abstractconv_opts conv_metaopt 0 conv_meta
gpuarray_abstractconv_opts local_abstractconv_dnn 0 20 conv_dnn cudnn fast_compile fast_run gpuarray
gpuarray_abstractconv_opts local_abstractconv_gw_dnn 1 20 conv_dnn cudnn fast_compile fast_run gpuarray
gpuarray_abstractconv_opts local_abstractconv_gi_dnn 2 20 conv_dnn cudnn fast_compile fast_run gpuarray
optdb local_dnna_conv_inplace 70.0 cudnn fast_run gpuarray inplace
gpuarray_abstractconv_opts local_abstractconv_gemm 3 30 conv_gemm fast_compile fast_run gpuarray
gpuarray_abstractconv_opts local_abstractconv3d_gemm 4 30 conv_gemm fast_compile fast_run gpuarray
gpuarray_abstractconv_opts local_abstractconv_gradweights_gemm 5 30 conv_gemm fast_compile fast_run gpuarray
gpuarray_abstractconv_opts local_abstractconv3d_gradweights_gemm 6 30 conv_gemm fast_compile fast_run gpuarray
gpuarray_abstractconv_opts local_abstractconv_gradinputs 7 30 conv_gemm fast_compile fast_run gpuarray
gpuarray_abstractconv_opts local_abstractconv3d_gradinputs 8 30 conv_gemm fast_compile fast_run gpuarray
pool_db local_gpu_pool 1 fast_compile fast_run gpuarray
pool_db local_gpu_max_pool_grad 1 fast_compile fast_run gpuarray
pool_db local_gpu_average_pool_grad 1 fast_compile fast_run gpuarray
"""
# Rules in gpuarray_local_optimizations with the tags fast_compile, fast_run and gpuarray.
LOCAL = (
    "local_gpu_alloc_diag local_gpu_extract_diag local_gpu_maxandargmax local_gpu_pdbbreakpoint_op local_gpua_advanced_boolean_subtensor"
    " local_gpua_advanced_incsubtensor1 local_gpua_advanced_subtensor local_gpua_advanced_subtensor1 local_gpua_alloc2 local_gpua_alloc_empty"
    " local_gpua_assert local_gpua_careduce local_gpua_contiguous local_gpua_cumop local_gpua_dimshuffle local_gpua_elemwise local_gpua_eye"
    " local_gpua_flatten local_gpua_inc_subtensor local_gpua_join local_gpua_join_1 local_gpua_lazy_ifelse local_gpua_print_op"
    " local_gpua_rebroadcast local_gpua_reshape local_gpua_shape local_gpua_specifyShape local_gpua_split local_gpua_subtensor local_gpua_tri"
    " local_gpuaalloc local_track_shape_i local_gpua_dot22 local_gpua_dot22scalar local_gpua_gemm local_gpua_gemmbatch"
    " local_gpua_gemv local_gpua_ger local_gpua_softmax local_gpua_softmaxwithbias local_gpua_crossentropysoftmax1hotwithbiasdx"
    " local_gpua_crossentropysoftmaxargmax1hotwithbias local_gpua_mrg local_gpua_error_convop gpuarray_abstractconv_opts pool_db"
    " local_gpua_multinomial local_gpua_multinomial_wor local_gpua_sort local_gpua_argsort local_gpua_topkop"
    " local_gpu_crossentropycategorical1hot local_gpu_crossentropycategorical1hotgrad"
    " local_gpua_images2neibs local_gpua_sparseblockgemv local_gpua_sparseblockouter"
).split()

# Groups of rules in gpuarray_local_optimizations
GROUPS = ("gpuarray_abstractconv_opts", "pool_db")

# Rule without an example that can be executed here -> the reason.
NOT_EXECUTED = {
    "local_gpua_scan_to_gpua": "the step is another graph; see test_opt_loops",
    "local_track_shape_i": "needs a variable of a shape feature; belongs to the host, too",
    "local_remove_all_assert": "belongs to the host, too",
    "local_gpua_labels": "needs two outputs of one node; see test_nnet",
    "conv_metaopt": "measures other rules; see test_opt_conv",
    **dict.fromkeys(
        (
            "local_cudnn_maxandargmax local_dnn_argmax local_dnn_reduction local_gpua_logsoftmax_to_dnn "
            "local_gpua_softmax_dnn_grad local_log_softmax_dnn local_softmax_dnn "
            "local_gpua_pool_dnn_alternative local_gpua_pool_dnn_grad_stride local_gpua_avg_pool_dnn_grad_stride "
            "local_abstract_batch_norm_train_cudnn local_abstract_batch_norm_train_grad_cudnn "
            "local_abstract_batch_norm_inference_cudnn local_batch_norm_inplace_output "
            "local_batch_norm_inplace_running_mean local_batch_norm_inplace_running_var "
            "local_batch_norm_inference_inplace local_dnn_dropout_inplace local_dnn_rnn_gradient_inplace"
        ).split(),
        "needs cuDNN; see test_dnn",
    ),
    **dict.fromkeys(
        "local_gpu_solve local_gpu_magma_matrix_inverse local_gpu_magma_svd local_gpu_magma_qr local_gpu_magma_qr_incomplete "
        "local_gpu_magma_eigh".split(),
        "needs a CUDA device; see test_linalg",
    ),
    **dict.fromkeys(
        (
            "local_abstractconv_cudnn local_abstractconv_gi_cudnn local_abstractconv_gw_cudnn local_dnn_conv_alpha_merge "
            "local_dnn_conv_output_merge local_dnn_convi_alpha_merge local_dnn_convi_output_merge "
            "local_dnn_convw_alpha_merge local_dnn_convw_output_merge"
        ).split(),
        "needs cuDNN; see test_dnn_conv",
    ),
}


def databases_of_devices():
    databases.load()
    cut = optdb["gpuarray_opt"]
    return (
        {"optdb": optdb, "canonicalize": optdb["canonicalize"], "gpuarray_opt": cut}
        | {name: cut[name] for name in ("gpuarray_local_optimizations", "gpuarray_cut_transfers")}
        | {name: cut["gpuarray_local_optimizations"][name] for name in GROUPS}
        | {"abstract_batch_norm_db": rules.abstract_batch_norm_db}
    )


class TestRegistration(unittest.TestCase):
    def test_facts(self):
        found = databases_of_devices()
        rows = [line.split() for line in FACTS.strip().splitlines()]
        rows += [["gpuarray_local_optimizations", name, "-", "fast_compile", "fast_run", "gpuarray"] for name in LOCAL]
        for db, name, position, *tags in rows:
            with self.subTest(db=db, name=name):
                rule = found[db][name]
                own = {db, type(rule).__name__, name}
                self.assertEqual(set(found[db]._tags_of(rule)) - own, set(tags) - own)
                if position != "-":
                    self.assertEqual(found[db].__position__[name], float(position))

    def test_classic_names(self):
        """The modules have the names under which other programs import rules and Ops."""
        kept_on_host = "local_track_shape_i local_gpua_mrg local_gpua_multinomial local_gpua_multinomial_wor".split()
        elsewhere = "local_gpua_cumop local_gpua_sort local_gpua_argsort local_gpua_topkop".split()
        names = {name for name in LOCAL if name.startswith("local_")} - {*kept_on_host, *elsewhere}
        self.assertEqual([name for name in sorted(names) if not hasattr(rules, name)], [])
        gpuarray = theano.gpuarray
        for module, name in (
            (gpuarray, "GpuFromHost"),
            (gpuarray, "gpuarray_shared_constructor"),
            (gpuarray.blas, "local_inplace_gpuagemm"),
            (gpuarray.basic_ops, "bool_t"),
            (gpuarray.sort, "local_gpua_topkop"),
            (gpuarray.pool, "gpu_context_type"),
            (gpuarray.rng_mrg, "local_gpua_mrg"),
            (gpuarray.multinomial, "local_gpua_multinomial_wor"),
            (gpuarray.extra_ops, "local_gpua_cumop"),
        ):
            self.assertTrue(hasattr(module, name), (module, name))

    def test_modes_of_authors(self):
        """Tests of Ops for devices by other authors use these modes."""
        context()
        modes = importlib.import_module("theano_ng.gpuarray.tests.config")
        x = T.matrix()
        for mode, there in ((modes.mode_with_gpu, True), (modes.mode_without_gpu, False)):
            f = theano.function([x], T.exp(x).sum(), mode=mode)
            names = {type(n.op).__name__ for n in f.maker.fgraph.toposort()}
            self.assertEqual("GpuFromHost" in names, there)
            self.assertAlmostEqual(float(f(np.zeros((2, 2), x.dtype))), 4, 5)

    def test_only_with_a_device(self):
        """A program that uses no device imports no module of gpuarray."""
        code = (
            "import sys, theano_ng, theano_ng.tensor as T; x = T.vector(); theano_ng.function([x], T.exp(x).sum())([1.0]);"
            "print([name for name in sys.modules if 'gpuarray' in name])"
        )
        env = dict(
            os.environ, THEANO_FLAGS=os.environ.get("THEANO_FLAGS", "") + ",device=cpu,init_gpu_device=,contexts="
        )
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=300)
        self.assertEqual(done.stdout.strip(), "[]", done.stderr)


class TestExamples(unittest.TestCase):
    def setUp(self):
        context()
        self.names = namespace()

    def check(self, rule, before, after):
        old, new = [v if isinstance(v, list) else [v] for v in (eval(text, self.names) for text in (before, after))]
        inputs = [v for v in inputs_of(old) if not isinstance(v, Constant)]
        fgraph = FunctionGraph(inputs, old, clone=True)
        with config.change_flags(on_opt_error="raise"):
            EquilibriumOptimizer([rule], max_use_ratio=10).optimize(fgraph)
        if not equal_computations(fgraph.outputs, new, fgraph.inputs, inputs):
            self.fail("%s\nis not\n%s" % (theano.pp(fgraph.outputs[0]), theano.pp(new[0])))

    def test_examples_hold(self):
        unexplained = []
        found = databases_of_devices()
        local = [
            rule
            for db in ("gpuarray_local_optimizations", "gpuarray_cut_transfers", "abstract_batch_norm_db", *GROUPS)
            for rule in found[db]._order
            if not isinstance(rule, databases.DB)
        ]
        last = [
            *(rules.blas.local_inplace_gpuagemm, rules.blas.local_inplace_gpuagemv, rules.blas.local_inplace_gpuager),
            *(rules.networks.local_inplace_sparseblockgemv, rules.networks.local_inplace_sparseblockouter),
            *(rules.blas.local_inplace_gpuagemmbatch, rules.slices.local_gpua_dot22_in_row),
            *(rules.random.gpua_mrg_random_make_inplace, rules.epilogues.local_inplace_gpua_product_elemwise),
            rules.epilogues.local_gpua_product_elemwise,
            rules.final.local_advincsub1_gpua_inplace,
            rules.final.local_gpua_alloc_empty_to_zeros,
        ]
        for rule in [*local, *last]:
            name = getattr(rule, "__name__", str(rule))
            if name in NOT_EXECUTED:
                continue
            rows = examples(rule.__doc__)
            if not rows:
                unexplained.append(name)
            for before, after, _ in rows:
                with self.subTest(rule=name, example="%s  ->  %s" % (before, after)):
                    self.check(rule, before, after)
        self.assertEqual(unexplained, [])


class TestGraphs(unittest.TestCase):
    """Tests of rewritten graphs, which are not compiled."""

    def setUp(self):
        context()

    def moved(self, outputs, *tags, **flags):
        """Apply all rules to a graph; return the names of its Ops' classes."""
        fgraph = FunctionGraph([v for v in inputs_of(outputs) if not isinstance(v, Constant)], outputs, clone=True)
        with config.change_flags(on_opt_error="raise", **flags):
            get_mode("FAST_RUN").including("gpuarray", *tags).excluding("add_destroy_handler").optimizer.optimize(
                fgraph
            )
        return [type(node.op).__name__ for node in fgraph.toposort()]

    def test_check_of_host_nodes(self):
        x = T.matrix("x")
        stays = T.nnet.sigmoid(T.exp(x)) + T.zmatrix("z")
        names = self.moved([stays], "assert_no_cpu_op", assert_no_cpu_op="ignore")
        self.assertIn("Elemwise", names)
        with self.assertRaisesRegex(AssertionError, "is on CPU"):
            self.moved([stays], "assert_no_cpu_op", assert_no_cpu_op="raise")
        with self.assertLogs(level=logging.WARNING) as seen:
            self.moved([stays], "assert_no_cpu_op", assert_no_cpu_op="warn")
        self.assertTrue(any("CPU Op" in text for text in seen.output))
        with unittest.mock.patch("pdb.set_trace") as stopped:
            self.moved([stays], "assert_no_cpu_op", assert_no_cpu_op="pdb")
        self.assertTrue(stopped.called)
        self.moved([T.exp(x).sum()], "assert_no_cpu_op", assert_no_cpu_op="raise")

    def test_fusion(self):
        x, y = T.matrices("x", "y")
        self.assertEqual(self.moved([T.exp(x + y) * x]).count("GpuElemwise"), 1)

    def test_fusion_reads_constants_of_the_device(self):
        # If two loops read a product, fusion copies the product into both loops, unless one of its factors is the
        # constant 1 or -1. Therefore fusion must read the values of constants that are on the device.
        x, y = T.matrices("x", "y")
        product = x * y
        factors = np.array([[2.0, 3.0]], x.dtype)
        names = self.moved([product * factors, (product * factors[:, :1]).sum(), T.dot(product, y)])
        self.assertIn("GpuElemwise", names)

    def test_sums_of_squares(self):
        x = T.matrix("x")
        self.assertEqual(self.moved([(x**2).sum()]), ["GpuFromHost", "GpuCAReduceCuda", "HostFromGpu"])
