"""Functions that run the tests of the package, as the command ``theano_ng-nose --theano`` does."""

from theano_ng.tests.runner import main

__all__ = ["TheanoNoseTester", "main"]


class TheanoNoseTester:
    """An object whose method `test` runs the tests of the package.

    Parameters
    ----------
    package : module or str, optional
        Accepted and ignored: the tests are always those of this package.
    """

    def __init__(self, package=None):
        self.package = package

    def test(self, verbose=1, extra_argv=None):
        """Run the tests.

        Parameters
        ----------
        verbose : int
            If greater than 1, the output of passing tests is printed, too.
        extra_argv : list of str, optional
            Further arguments of ``theano_ng-nose``.

        Returns
        -------
        int
            The number of failures.
        """
        return main(["--theano", *(["--verbose"] if verbose > 1 else []), *(extra_argv or [])])
