"""The ops that others are differentiated with, by name.

The gradient of an op is written with ops that other modules define: `ops.mul(gz, ops.cos(x))`. `basic` and `basic_scipy`, which make the
instances, put them here.
"""


class Instances:
    """A namespace of scalar ops; asking for one that is not made yet names it."""

    def define(self, names):
        """Add what a module offers. Of each class of ops the first instance is its `usual` one.

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
        raise AttributeError("there is no scalar op %s, or `theano_ng.scalar` is not imported whole" % name)


ops = Instances()
