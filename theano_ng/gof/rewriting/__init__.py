"""The rewriting engine: merging, local rules, patterns, navigators and the equilibrium worklist.

The public face is `theano_ng.gof.opt`, which re-exports every name under its classic path; nothing else should be imported from here.

========================  ==========================================================================
`base`                    `Optimizer`, `SeqOptimizer`, optimizers made from functions
`merge`                   one node for equal computations, one constant for equal constants
`local`                   rules on one node, groups of them, the index that finds the rules for an op
`pattern`                 rules written as data: `OpSub`, `OpRemove`, `PatternSub`
`navigate`                walks that apply a rule to the nodes of a graph
`equilibrium`             the worklist that applies rules until none changes anything
`stacktrace`              where the user created what a rewrite replaced
`tools`                   helpers of rewrites
========================  ==========================================================================
"""
