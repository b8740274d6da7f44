"""Rules for loops, one module a family; they are loaded when the first loop is made.

==================  ==========================================================================================
`unused`            what no step reads, and what nobody reads of the loop; constants
`push_out`          what needs no loop: it depends on nothing that changes, or on sequences alone
`push_out_outputs`  what can be done after the loop: ends of steps, sums
`merge`             loops over the same steps; equal inputs and outputs
`save_mem`          rows that nobody reads
`inplace`           buffers that nobody else reads
==================  ==========================================================================================

What they share: `common`; `stacking` (an operation on all steps at once); `outside` (variables of a step as the outer graph has them);
`reads` (which rows are read).
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
    """What depends on constants only is computed before loops get their constants.

    exp(constant(0.))  ->  1.
    """
    return constant_folding.transform(node)


scan_eqopt1 = EquilibriumDB()
scan_eqopt2 = EquilibriumDB()
scan_seqopt1 = SequenceDB()

# Before anything else is done to the graph: what leaves a step is rewritten with the rest.
optdb.register("scan_eqopt1", scan_eqopt1, 0.05, "fast_run", "scan", own=True)
optdb.register("scan_eqopt2", scan_eqopt2, 1.6, "fast_run", "scan", own=True)
optdb.register("scanOp_save_mem", ScanSaveMem(), 1.61, "fast_run", "scan", own=True)
optdb.register("scanOp_make_inplace", ScanInplaceOptimizer(), 75, "fast_run", "inplace", "scan", own=True)

scan_eqopt1.register("all_pushout_opt", scan_seqopt1, "1", "fast_run", "scan", own=True)
scan_seqopt1.register(
    "scanOp_remove_constants_and_unused_inputs0",
    in2out(remove_constants_and_unused_inputs_scan, ignore_newtrees=True),
    1,
    "remove_constants_and_unused_inputs_scan",
    "fast_run",
    "scan",
    own=True,
)
scan_seqopt1.register("scanOp_pushout_nonseqs_ops", PushOutNonSeqScan(), 2, "fast_run", "scan", own=True)
scan_seqopt1.register("scanOp_pushout_seqs_ops", PushOutSeqScan(), 3, "fast_run", "scan", own=True)
scan_seqopt1.register("scan_pushout_dot1", PushOutDot1(), 4, "fast_run", "more_mem", "scan", own=True)
scan_seqopt1.register("scanOp_pushout_output", PushOutScanOutput(), 5, "fast_run", "more_mem", "scan", own=True)

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
    scan_eqopt2.register(_name, _rule, "fast_run", "scan", *_tags, own=True)
del _name, _rule, _tags
