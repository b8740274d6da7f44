"""The names of the errors that an audit can find, with their meanings."""

#: Name -> meaning. The names of the first group are exceptions of DebugMode.
NAMES = {
    # Exceptions of DebugMode. The check `sanitizer` also uses the name AddressError.
    "BadThunkOutput": "two implementations of the Op (perform, C code, with or without preallocated outputs) give different "
    "values",
    "AddressError": "the C code accesses memory outside of its arrays",
    "BadDestroyMap": "an input was overwritten that destroy_map does not declare",
    "BadViewMap": "an output shares memory with an input or with another output, and view_map does not declare it",
    "BadReferences": "the C code releases a reference that it does not own, or an array twice",
    "InvalidValueError": "a value is not valid for the Type of its variable: dtype, rank, length of a broadcastable dimension",
    "BadOptimization": "a rewrite replaced a variable by a variable with another value",
    "EndlessOptimization": "rules undo each other, or apply to their own results, so that rewriting would not end",
    "StochasticOrder": "two compilations of the same graph were rewritten differently",
    # value
    "BadOutputType": "the outputs do not have the number, dtype or broadcast pattern that make_node declares",
    "PythonCDisagree": "perform accepts an input that the C code refuses, or the reverse",
    "CompileError": "the C code does not compile",
    "InaccurateResult": "a result has lost more than half of its digits, or overflows, although the true value does not",
    "NonDeterministic": "the same input gives another result in a second call",
    "DependsOnState": "the result depends on an earlier call, or on a call in another thread",
    "MutatesOp": "computing or compiling changed the Op",
    "MutatesNode": "computing or compiling changed the Apply node",
    "Crash": "the process died",
    "EndlessLoop": "a call of a method of the Op did not end within the time limit",
    "UnexpectedError": "a method of the Op raises an exception where its result is needed",
    # structure
    "BadEquality": "__eq__ returns True for different Ops, or False for equal ones",
    "BadHash": "equal Ops have different hashes, or the hash changes between processes",
    "BadPickle": "the Op, or a function that uses it, does not survive pickling or copying",
    "BadCacheVersion": "c_code_cache_version is not a tuple of hashables, differs between equal Ops, or is equal for different "
    "C code",
    "BadType": "a Type converts or refuses its own values, compares them wrongly, or is not equal to itself",
    "BadMap": "destroy_map or view_map is malformed",
    "BadMakeNode": "make_node gives different nodes for the same inputs, or raises an error that does not explain what is "
    "wrong",
    # symbolic
    "BadInferShape": "infer_shape disagrees with the shape of the value",
    "BadConnectionPattern": "connection_pattern is malformed, or an input that it declares as disconnected has influence",
    "BadGradient": "grad or L_op disagrees with finite differences",
    "BadGradientType": "grad or L_op gives a wrong number of gradients, or of the wrong dtype, rank or kind",
    "BadRop": "R_op disagrees with the directional derivative",
    # sanitizer, references, memory
    "UndefinedBehaviour": "the C code has undefined behavior",
    "UninitializedOutput": "the C code leaves elements of an output unwritten",
    "ReferenceLeak": "each call leaks a reference",
    "ReferenceUnderflow": "each call releases a reference that it does not own",
    "MemoryLeak": "each call leaks memory",
}


def meaning(name):
    """Return the meaning of the name of an error, in one line.

    Raises
    ------
    KeyError
        If no check reports errors of this name.
    """
    return NAMES[name]
