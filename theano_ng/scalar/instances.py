"""A namespace of the scalar ops, for modules that use ops which other modules define.

The gradient of an op uses other ops, for instance `ops.mul(gz, ops.cos(x))`. `basic` and `basic_scipy` create the op
instances and register them in this namespace.
"""


class Instances:
    """A namespace of scalar ops. The error for an op that is not defined yet contains the name of this op."""

    def define(self, names):
        """Add the names that a module exports.

        The first instance of each op class becomes the attribute `usual` of the class.

        Parameters
        ----------
        names : dict
            Name -> object.
        """
        self.__dict__.update(names)
        for op in names.values():
            if hasattr(type(op), "usual") and "usual" not in type(op).__dict__:
                type(op).usual = op

    def __getattr__(self, name):
        raise AttributeError("there is no scalar op %s, or the import of `theano_ng.scalar` is not finished" % name)


ops = Instances()
