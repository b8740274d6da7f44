"""An oracle for rewriting rules: it compares the original graph with the graph that a rule returns.

A *text* is a Python expression, for example the left side of an example in the docstring of a rule. A *setting* changes
the variables of the text or the outputs of its graph. An *instance* is the graph of a text in a setting. Each
instance is computed for many *sets of values*. A set has one value for each input. The values of the inputs are
*covered completely* if all their combinations were tried.

========================  ==========================================================================
`registry`, `targets`     all registered rules, and the rules that the command line names
`examples`, `vocabulary`  the examples in docstrings of rules, and the names that the examples use
`templates`, `instances`  the texts, settings and instances on which a rule is tried
`rule_code`, `generated`  the Ops and numbers in the code of a rule, and expressions with them
`input_values`            the sets of values, with `special_values` such as NaN
`applying`                the application of rules to a graph; graphs computed in Python
`reference`, `bounded`    true values, and upper bounds of rounding errors; `loop_bounds` for loops
`comparing`, `accepted`   kinds of differences, and the differences that are documented
`proofs`                  equations proved by z3 and sympy
`oracle`, `devices`       the tester of one rule, and the tester of one rule for arrays on devices
`reproducer`, `page`      differences as Python programs; verdicts as text, JSON and a manual page
`command`                 ``python -m theano_ng.audit.rewrites``
========================  ==========================================================================
"""

from theano_ng.lazy import lazy_names

# Import these names lazily: `reference` needs mpmath, which programs that only read the examples of rules do not need.
__getattr__, __dir__, __all__ = lazy_names(
    __name__,
    {
        "theano_ng.audit.rewrites.applying": "Computation cycle rewritten",
        "theano_ng.audit.rewrites.oracle": "FULL QUICK Effort judge",
        "theano_ng.audit.rewrites.registry": "Registered partners registered rule_named",
        "theano_ng.audit.rewrites.targets": "ops_in rule_of",
    },
    modules="vocabulary",
)
