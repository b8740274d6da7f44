"""A cache of function calls that can be saved to a file."""

import logging
import pickle

from theano_ng.gof.compiler import trust

_logger = logging.getLogger("theano_ng.gof.callcache")


class CallCache:
    """A cache of the results of function calls. `call` fills it.

    Parameters
    ----------
    filename : str, optional
        A file that `persist` wrote. It need not exist. If another user owns or can write the file or a directory above
        it, a warning is shown and the file is not loaded, because a pickle can execute arbitrary code.
    """

    def __init__(self, filename=None):
        self.filename = filename
        self.cache = {}
        if filename is not None:
            try:
                with trust.open_named(filename) as f:
                    self.cache = pickle.load(f)
            except OSError:
                # The file does not exist yet, or is not trusted.
                self.cache = {}

    def persist(self, filename=None):
        """Write the cache to a file.

        Parameters
        ----------
        filename : str, optional
            By default, the file name given to the constructor.
        """
        if filename is None:
            filename = self.filename
        if filename is None:
            raise ValueError("CallCache.persist needs a filename: neither this call nor the constructor got one")
        with open(filename, "wb") as f:
            pickle.dump(self.cache, f, protocol=pickle.HIGHEST_PROTOCOL)
        trust.deny_others_write(filename)

    def call(self, fn, args=(), key=None):
        """Return ``fn(*args)``, computed at most once per key.

        Parameters
        ----------
        fn : callable
        args : tuple
        key : hashable, optional
            The key of the call in the cache; ``(fn, tuple(args))`` by default.
        """
        if key is None:
            key = (fn, tuple(args))
        if key in self.cache:
            _logger.debug("cache hit %i", len(self.cache))
        else:
            _logger.debug("cache miss %i", len(self.cache))
            self.cache[key] = fn(*args)
        return self.cache[key]
