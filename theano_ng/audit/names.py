"""The names of the errors that an audit can find, with their meanings."""

#: Name -> meaning. The names of the first group are exceptions of DebugMode.
NAMES = {
    # Exceptions of DebugMode. The check `sanitizer` also uses the name AddressError.
    "BadThunkOutput": "two implementations of the Op (perform, C code, with or without preallocated outputs) give different "
    "values",
    "AddressError": "the C code reads or writes memory that does not belong to its arrays",
    "BadDestroyMap": "the Op overwrote an input that destroy_map does not name",
    "BadViewMap": "an output shares memory with an input or with another output, and view_map does not declare it",
    "BadReferences": "the C code releases a reference that it does not own, or releases an array twice",
    "InvalidValueError": "a value is not valid for the Type of its variable, for example because its dtype or rank is "
    "wrong",
    "BadOptimization": "a rewrite replaced a variable by a variable with another value",
    "EndlessOptimization": "rules undo each other, or apply to their own results, so that rewriting would not end",
    "StochasticOrder": "rewriting the same graph twice made different changes, or made them in different orders",
    # value
    "BadOutputType": "the outputs do not have the dtype, the rank or the broadcast pattern that make_node declares",
    "PythonCDisagree": "perform accepts an input that the C code refuses, or the C code accepts an input that perform "
    "refuses",
    "CompileError": "the C code cannot be generated, or does not compile",
    "InaccurateResult": "less than half of the digits of a result are correct, or a result overflows although the true "
    "value does not",
    "NonDeterministic": "a second call with the same input gives another result",
    "DependsOnState": "the result depends on an earlier call, or on a call in another thread",
    "MutatesOp": "making a node, or compiling or running it, changed the Op",
    "MutatesNode": "compiling or running an Apply node changed the node",
    "Crash": "the process died",
    "EndlessLoop": "a call of a method of the Op did not end within the time limit",
    "UnexpectedError": "a method of the Op raised an exception that the check did not expect",
    # structure
    "BadEquality": "__eq__ returns True for different Ops or False for equal Ops, or raises an exception",
    "BadHash": "equal Ops have different hashes, the hash of an Op changes, or an Op has no hash",
    "BadPickle": "the Op, or a function that uses it, cannot be pickled or copied correctly",
    "BadCacheVersion": "c_code_cache_version is not a tuple of hashable values, is empty, or differs between calls or "
    "equal Ops; or the C code differs between calls",
    "BadType": "a Type converts or refuses its own valid values, compares values wrongly, or has a wrong __eq__ or "
    "__hash__",
    "BadMap": "destroy_map or view_map is not a dict from indices of outputs to lists of indices of inputs",
    "BadMakeNode": "a second call of make_node with the same inputs fails, or does not give a new node of the same Op "
    "and types",
    # symbolic
    "BadInferShape": "infer_shape fails, or gives another shape than the shape of the value",
    "BadConnectionPattern": "connection_pattern has a wrong form, or a floating point input that it declares "
    "disconnected changes an output",
    "BadGradient": "grad or L_op disagrees with finite differences",
    "BadGradientType": "grad or L_op fails, or returns a wrong number of gradients or a gradient of a wrong dtype or "
    "rank",
    "BadRop": "R_op fails, or disagrees with the directional derivative",
    # sanitizer, references, memory
    "UndefinedBehaviour": "the C standard does not define the behavior of the C code",
    "UninitializedOutput": "the C code leaves elements of an output unwritten",
    "ReferenceLeak": "each call keeps a reference that it should release",
    "ReferenceUnderflow": "each call releases a reference that it does not own",
    "MemoryLeak": "each call allocates memory that is never freed",
}


def meaning(name):
    """Return the meaning of the name of an error, in one line.

    Raises
    ------
    KeyError
        If no check reports errors of this name.
    """
    return NAMES[name]
