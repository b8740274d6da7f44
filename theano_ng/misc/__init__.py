"""Tools beside the compiler: containers, serialization, timing scripts."""


def __getattr__(name):
    if name == "pkl_utils":  # documented as `theano_ng.misc.pkl_utils`; loaded when it is used
        import importlib

        return importlib.import_module("theano_ng.misc.pkl_utils")
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
