"""A cache of function calls that can be kept in a file."""

import logging
import pickle

from theano_ng.gof.compiler import trust

_logger = logging.getLogger("theano_ng.gof.callcache")


class CallCache:
    """Remembers results of calls; see `call`.

    Parameters
    ----------
    filename : str, optional
        A file written by `persist`; it need not exist. One that somebody else owns or can write, itself or through a directory above it,
        is not loaded, with a warning: it could be anybody's code.
    """

    def __init__(self, filename=None):
        self.filename = filename
        self.cache = {}
        if filename is not None:
            try:
                with trust.open_named(filename) as f:
                    self.cache = pickle.load(f)
            except OSError:
                # There is no cache yet, or none to trust.
                self.cache = {}

    def persist(self, filename=None):
        """Write the cache to a file.

        Parameters
        ----------
        filename : str, optional
            That of the constructor by default.
        """
        if filename is None:
            filename = self.filename
        if filename is None:
            raise ValueError("CallCache.persist needs a filename: none was given to the constructor either")
        with open(filename, "wb") as f:
            pickle.dump(self.cache, f, protocol=pickle.HIGHEST_PROTOCOL)
        trust.close_to_others(filename)

    def call(self, fn, args=(), key=None):
        """``fn(*args)``, computed once.

        Parameters
        ----------
        fn : callable
        args : tuple
        key : hashable, optional
            What identifies the call; ``(fn, tuple(args))`` by default.
        """
        if key is None:
            key = (fn, tuple(args))
        if key in self.cache:
            _logger.debug("cache hit %i", len(self.cache))
        else:
            _logger.debug("cache miss %i", len(self.cache))
            self.cache[key] = fn(*args)
        return self.cache[key]
