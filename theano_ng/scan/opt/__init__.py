"""Rules for loops, one module per family. They are loaded when the first loop is made.

==================  ===============================================================================================
`unused`            removes inputs that no step reads, and outputs that no node reads; moves constants into the step
`push_out`          moves computations on non-sequences, or on sequences alone, to before the loop
`push_out_outputs`  moves the last computations of a step, and sums over the steps, to after the loop
`merge`             merges loops over the same steps, and equal inputs and outputs
`save_mem`          removes rows that no node reads
`inplace`           lets loops overwrite the buffers that no other node reads
==================  ===============================================================================================

The rules share `common`, `stacking` (operations on all steps at once), `outer_graph` (variables of a step that the
outer graph has or can compute) and `reads` (the rows that are read).
"""

from theano_ng.compile.mode import optdb
from theano_ng.gof.optdb import EquilibriumDB, SequenceDB
from theano_ng.gof.rewriting import in2out, local_optimizer
from theano_ng.scan.opt.inplace import ScanInplaceOptimizer
from theano_ng.scan.opt.merge import ScanMerge, scan_merge_inouts
from theano_ng.scan.opt.push_out import PushOutNonSeqScan, PushOutSeqScan
from theano_ng.scan.opt.push_out_outputs import PushOutDot1, PushOutScanOutput
from theano_ng.scan.opt.save_mem import ScanSaveMem
from theano_ng.scan.opt.unused import remove_constants_and_unused_inputs_scan
from theano_ng.tensor.opt.constant_folding import constant_folding


@local_optimizer(None)
def constant_folding_for_scan2(node):
    """Compute variables that depend only on constants, before another rule moves constants into loops.

    exp(constant(0.))  ->  1.
    """
    return constant_folding.transform(node)


scan_eqopt1 = EquilibriumDB()
scan_eqopt2 = EquilibriumDB()
scan_seqopt1 = SequenceDB()

# `scan_eqopt1` runs before canonicalization, so that nodes that leave a step are rewritten with the rest of the graph.
optdb.register("scan_eqopt1", scan_eqopt1, 0.05, "fast_run", "scan")
optdb.register("scan_eqopt2", scan_eqopt2, 1.6, "fast_run", "scan")
optdb.register("scanOp_save_mem", ScanSaveMem(), 1.61, "fast_run", "scan")
optdb.register("scanOp_make_inplace", ScanInplaceOptimizer(), 75, "fast_run", "inplace", "scan")

scan_eqopt1.register("all_pushout_opt", scan_seqopt1, "1", "fast_run", "scan")
scan_seqopt1.register(
    "scanOp_remove_constants_and_unused_inputs0",
    in2out(remove_constants_and_unused_inputs_scan, ignore_newtrees=True),
    1,
    "remove_constants_and_unused_inputs_scan",
    "fast_run",
    "scan",
)
scan_seqopt1.register("scanOp_pushout_nonseqs_ops", PushOutNonSeqScan(), 2, "fast_run", "scan")
scan_seqopt1.register("scanOp_pushout_seqs_ops", PushOutSeqScan(), 3, "fast_run", "scan")
scan_seqopt1.register("scan_pushout_dot1", PushOutDot1(), 4, "fast_run", "more_mem", "scan")
scan_seqopt1.register("scanOp_pushout_output", PushOutScanOutput(), 5, "fast_run", "more_mem", "scan")

for _name, _rule, _tags in (
    ("constant_folding_for_scan2", in2out(constant_folding_for_scan2, ignore_newtrees=True), ["1"]),
    (
        "scanOp_remove_constants_and_unused_inputs1",
        in2out(remove_constants_and_unused_inputs_scan, ignore_newtrees=True),
        ["2", "remove_constants_and_unused_inputs_scan"],
    ),
    ("scanOp_merge", ScanMerge(), ["4"]),
    (
        "scanop_remove_constants_and_unused_inputs2",
        in2out(remove_constants_and_unused_inputs_scan, ignore_newtrees=True),
        ["5", "remove_constants_and_unused_inputs_scan"],
    ),
    ("scanOp_merge_inouts", in2out(scan_merge_inouts, ignore_newtrees=True), ["6", "scan_merge_inouts"]),
    (
        "scanOp_remove_constants_and_unused_inputs3",
        in2out(remove_constants_and_unused_inputs_scan, ignore_newtrees=True),
        ["8", "remove_constants_and_unused_inputs_scan"],
    ),
):
    scan_eqopt2.register(_name, _rule, "fast_run", "scan", *_tags)
del _name, _rule, _tags
