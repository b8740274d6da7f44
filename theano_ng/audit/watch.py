"""Repeated audits of a file: after each change of the file, its Ops are audited again, and the changes are shown."""

import importlib
import importlib.util
import os
import sys
import time

from theano_ng.audit.resolve import UsageError

#: Seconds between two looks at the files.
INTERVAL = 0.3


class Watcher:
    """The audits of a target, and the differences between one audit and the next.

    Parameters
    ----------
    target : str
        See `resolve.cases_of`.
    run : callable
        ``run()`` imports and audits the target, and returns a list of reports.
    stream : file
        The messages are written to this stream.
    """

    def __init__(self, target, run, stream=None):
        self.target, self.run = target, run
        self.stream = sys.stdout if stream is None else stream
        self.before = None
        self.times = {}

    def files(self):
        """Return the files to watch: the file of the target, and the files in its folder that it may use."""
        place = self.target.partition(":")[0]
        if not place.endswith(".py"):
            place = self.file_of_module(place)
        folder = os.path.dirname(os.path.abspath(place))
        if not os.path.isdir(folder):
            raise UsageError("there is no folder %s" % folder)
        endings = (".py", ".c", ".h", ".cpp", ".hpp")
        return [os.path.join(folder, name) for name in sorted(os.listdir(folder)) if name.endswith(endings)]

    def file_of_module(self, name):
        """Return the file of a module, without importing it. For ``package.module.Op``, this is the file of the module."""
        while name:
            try:
                spec = importlib.util.find_spec(name)
            except (ImportError, ValueError):  # the text before the last dot is not a package
                spec = None
            if spec is not None and spec.origin:
                return spec.origin
            name = name.rpartition(".")[0]
        raise UsageError("there is no module %r" % self.target)

    def changed(self):
        """Return the files that have changed since the last call. In the first call, these are all files."""
        found = []
        for path in self.files():
            try:
                now = os.stat(path).st_mtime_ns
            except OSError:  # the file is being replaced
                continue
            if self.times.get(path) != now:
                self.times[path] = now
                found.append(path)
        return found

    def audit(self):
        """Import the target again, audit it, and print what is different from the last audit."""
        folder = os.path.dirname(self.files()[0]) if self.files() else ""
        for name, module in list(sys.modules.items()):
            file = getattr(module, "__file__", None) or ""
            if os.path.dirname(os.path.abspath(file)) == folder and name != "__main__":
                del sys.modules[name]
        importlib.invalidate_caches()
        try:
            reports = self.run()
        except UsageError as failure:
            self.print("%s" % failure)
            return
        if any(report.error for report in reports):
            return  # the reason was printed, and the findings are not known
        found = {
            (report.case, finding.error, finding.check): finding.message
            for report in reports
            for finding in report.findings
        }
        if self.before is not None:
            for key in self.before:
                if key not in found:
                    self.print("mended: %s: %s (%s)" % key)
            for key, message in found.items():
                if key not in self.before:
                    self.print("new: %s: %s (%s): %s" % (*key, message))
            self.print("%d before, %d now" % (len(self.before), len(found)))
        self.before = found

    def print(self, text):
        self.stream.write(text + "\n")
        self.stream.flush()

    def loop(self, most=None, sleep=time.sleep):
        """Audit the target after each change, until the user interrupts the program.

        Parameters
        ----------
        most : int, optional
            The number of audits after which to end.
        sleep : callable
            ``sleep(seconds)`` waits.
        """
        done = 0
        while most is None or done < most:
            if self.changed():
                self.print("--- %s" % time.strftime("%H:%M:%S"))
                self.audit()
                done += 1
            else:
                sleep(INTERVAL)
