"""Records of what a program does, as lines of text.

A later run is compared with the record line by line, to find the first difference.
"""

import hashlib
import pickle

from theano_ng.compile.mode import Mode, get_default_mode
from theano_ng.configdefaults import config
from theano_ng.gof import link
from theano_ng.gof.vm import VM_Linker
from theano_ng.printing import hex_digest, min_informative_str


class MismatchError(Exception):
    """The exception for a run that differs from its record."""


class Record:
    """A record of lines that is written or replayed. In a replay, every line must equal the recorded line.

    Parameters
    ----------
    file_object : file, optional
        A text file or buffer with the lines. By default, `file_path` is opened.
    file_path : str, optional
        The path of the file.
    replay : bool
        If True, compare with the record instead of writing it.

    Examples
    --------
    >>> from io import StringIO
    >>> record = Record(file_object=StringIO(), replay=False)
    >>> record.handle_line("hello\\n")
    >>> playback = Record(file_object=StringIO(record.f.getvalue()), replay=True)
    >>> playback.handle_line("hello\\n")
    """

    def __init__(self, file_object=None, file_path=None, replay=False):
        if (file_object is None) == (file_path is None):
            raise ValueError("a record is kept in a file: give either file_object or file_path")
        self.f = open(file_path, "r" if replay else "w") if file_object is None else file_object  # noqa: SIM115, kept open
        self.replay = replay

    def handle_line(self, line):
        """Write a line to the record, or compare it with the next line of the record.

        Parameters
        ----------
        line : str
            The line, which ends with its only newline.

        Raises
        ------
        MismatchError
            If the next line of the record is different or missing.
        """
        if not line.endswith("\n") or line[:-1].find("\n") != -1:
            raise ValueError("a record consists of lines: %r does not end with its only newline" % (line,))
        if not self.replay:
            self.f.write(line)
            return
        old_line = self.f.readline()
        if old_line != line:
            raise MismatchError(
                "Replay detected mismatch.\nI wanted to write:\n%s\nwhen previous job wrote:\n%s" % (line, old_line)
            )

    def close(self):
        """Close the file.

        Raises
        ------
        MismatchError
            If the record has further lines.
        """
        rest = self.f.readline() if self.replay else ""
        self.f.close()
        if rest:
            raise MismatchError("Replay ended before its record, which goes on with:\n%s" % rest)


class RecordMode(Mode):
    """A mode whose functions record every node that they run, with digests of its inputs and outputs.

    Parameters
    ----------
    record : Record, optional
        The record; by default it is created from the other arguments.
    **kwargs
        Arguments of `Record`.
    """

    def __init__(self, record=None, **kwargs):
        if record is None:
            record = Record(**kwargs)
        elif kwargs:
            raise TypeError(
                "give either a record, or the arguments to make one, not both: %s" % ", ".join(sorted(kwargs))
            )
        self.known_fgraphs = set()
        self.set_record(record)
        linker = link.WrapLinkerMany([VM_Linker(allow_gc=False, lazy=False)], [self._run])
        default = get_default_mode()
        super().__init__(linker, getattr(default, "provided_optimizer", config.optimizer))

    def set_record(self, record):
        """Continue with another record, in which all graphs are described again."""
        self.record = record
        self.known_fgraphs = set()

    def __reduce__(self):
        raise pickle.PicklingError("a RecordMode has an open file, which cannot be pickled")

    def clone(self, link_kwargs=None, optimizer="", **kwargs):
        """Return a mode with the same record and another optimizer."""
        new = type(self)(self.record)
        if not (isinstance(optimizer, str) and optimizer == ""):
            new.__setstate__((new.linker, optimizer))
        return new

    def _run(self, i, node, fn):
        fgraph = node.fgraph
        self.record.handle_line("function name: %s\n" % fgraph.name)
        if fgraph not in self.known_fgraphs:
            for j, each in enumerate(fgraph.toposort()):
                self.record.handle_line("%d:%s\n" % (j, each))
            for j, output in enumerate(fgraph.outputs):
                self.record.handle_line("output %d: %s\n" % (j, min_informative_str(output).replace("\n", "; ")))
            self.known_fgraphs.add(fgraph)
        self.record.handle_line("%d:%s\n" % (i, node))
        self.record.handle_line("Inputs: %s\n" % self._digests(fn.inputs))
        fn()
        self.record.handle_line("Outputs: %s\n" % self._digests(fn.outputs))

    @staticmethod
    def _digests(cells):
        values = (cell[0] for cell in cells)
        return " ".join(
            hex_digest(value) if hasattr(value, "strides") else hashlib.sha256(pickle.dumps(value, 4)).hexdigest()
            for value in values
        )
