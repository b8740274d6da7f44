"""Lines of an Op's C code that no example reached.

The C code is compiled once more, with ``--coverage``, in a temporary directory. A forked process runs the examples of a
check with it, and gcov converts the counters to the number of executions of each line. The other nodes of the target
may have other C code, for instance for another dtype. A line counts as reached if the same line was reached there.
"""

import ctypes
import difflib
import glob
import inspect
import itertools
import json
import os
import re
import shutil
import tempfile
from collections import defaultdict
from dataclasses import dataclass

import numpy as np

from theano_ng.audit import worker
from theano_ng.audit.c_source import blanked, handles_failed_allocation
from theano_ng.audit.faults import producing_line
from theano_ng.audit.problems import first_line, one_line
from theano_ng.audit.processes import in_child
from theano_ng.audit.running import without_destroyed
from theano_ng.gof.codegen.modulecode import locate, locate_file

#: The number of places that a summary names, and the maximum length of a line that it shows.
MOST_PLACES, LINE_LENGTH = 5, 70

#: Time limit in seconds for the compilations and the examples, and the number of examples that are run for one node.
LIMIT, MOST_EXAMPLES = 30, 2000

#: Without -fopenmp, the compiler ignores the pragmas, so that the counted code does not move to other functions.
_OPENMP = "-D_OPENMP=201511"

# A call of this function writes the counters to a file. Processes of the audit end without calling exit functions.
_WRITER = """
extern "C" void __gcov_dump(void);
extern "C" __attribute__((visibility("default"))) void theano_ng_write_counters(void) { __gcov_dump(); }
"""


def unavailable():
    """Return the reason why the lines of C code cannot be counted, or "" if they can."""
    from theano_ng.gof.compiler.toolchain import find_toolchain

    toolchain = find_toolchain()
    if toolchain is None:
        return "there is no C++ compiler"
    if not hasattr(os, "fork"):
        return "this system cannot fork processes"
    if toolchain.is_llvm():
        return "they are counted with gcc only, config.cxx is %r" % toolchain.cxx
    return "" if gcov_of(toolchain.cxx) else "gcov is not installed"


def gcov_of(cxx):
    """Return the path of the gcov that belongs to a compiler: gcov-12 for g++-12. Return None if it is missing."""
    folder, name = os.path.split(cxx)
    own = name.replace("g++", "gcov") if "g++" in name else "gcov"
    found = (shutil.which(program) for program in (os.path.join(folder, own), own, "gcov"))
    return next((path for path in found if path is not None), None)


@dataclass(frozen=True)
class Count:
    """The executions of a line.

    Attributes
    ----------
    count : int
        The number of executions.
    partial : bool
        Whether a part of the line was never executed, such as the second operand of ``&&``.
    branches : tuple of int
        The number of executions of each branch of the conditions in the line.
    """

    count: int = 0
    partial: bool = False
    branches: tuple = ()

    def __add__(self, other):
        """Return the executions of the same line of two functions, or of two sources."""
        if not self.count or not other.count:
            return other if other.count else self
        comparable = len(self.branches) == len(other.branches)
        branches = tuple(a + b for a, b in zip(self.branches, other.branches)) if comparable else self.branches
        partial = self.partial and other.partial and comparable and 0 in branches
        return Count(self.count + other.count, partial, branches)


class CCoverage:
    """A record of the examples of a check, and the lines of the Op's C code that they do not reach.

    Parameters
    ----------
    context : Context
    """

    def __init__(self, context):
        self.context, self._examples = context, defaultdict(dict)

    def add(self, example):
        """Record an example with which the C code was called."""
        examples = self._examples[example.built.index]
        if len(examples) < MOST_EXAMPLES:
            examples[example.key()] = example

    def summary(self):
        """Run the examples. Return a sentence about the lines that they do not reach, or "" if they reach all lines.

        If the lines cannot be counted, the sentence states the reason.
        """
        units = self._units()
        if not units:
            return ""
        reason, limit = unavailable(), min(LIMIT, self.context.seconds_left())
        if not reason and limit <= 0:
            reason = "no time was left"
        if not reason:
            with tempfile.TemporaryDirectory(prefix="theano_ng-coverage-") as folder:
                ending = in_child(lambda: self._answer(units, folder), limit)
            reason, sentence = ending.answer or ("the process that counts them ended: %s" % ending.how, "")
        return "it is not known which lines of the C code no example reached: %s" % reason if reason else sentence

    def _units(self):
        """Return lists of units with equal source code. The first list has the unit of the first node."""
        groups = defaultdict(list)
        for index in sorted(self._examples):
            unit = _unit(self.context.target.built[index])
            if unit is not None:
                groups[unit.program.source, unit.program.arguments].append(unit)
        return list(groups.values())

    def _answer(self, groups, folder):
        """Return the reason why the lines cannot be counted, or "", and the sentence about the lines."""
        try:
            return "", _sentence(self._missing(groups, folder))
        except Exception as failure:
            return one_line(failure), ""

    def _missing(self, groups, folder):
        """Return the places in the source of the first units that no example reached there or in other sources."""
        code = None
        for number, units in enumerate(groups):
            place = os.path.join(folder, str(number))
            os.mkdir(place)
            counted = self._counted(units, place)
            if code is None:
                code = counted
            else:
                code.add(counted)
            if not code.missing():
                break
        return code.missing()

    def _counted(self, units, folder):
        """Compile the source of some units, and run their examples. Return the `Code`."""
        first = units[0]
        module = _compiled(first.program, folder)
        for unit in units:
            unit.run(module, self._examples[unit.built.index].values())
        ctypes.CDLL(module.__file__).theano_ng_write_counters()
        return Code(first.op, first.program.source, folder)


@dataclass(frozen=True)
class _Unit:
    """The C code of a node, or of the scalar Op of an Elemwise node.

    Attributes
    ----------
    built : Built
    op : Op
        The Op that has the C code.
    whole, program : worker.Program
        The program of the node, and the program to run.
    """

    built: object
    op: object
    whole: worker.Program
    program: worker.Program

    def run(self, module, examples):
        """Run examples, each with the outputs of the example before, and again with its own outputs."""
        inputs = outputs = thunk = None
        for values in itertools.chain.from_iterable(map(self._calls, examples)):
            if thunk is None:
                inputs, outputs = [[None] for _ in values], [[None] for _ in self.program.outputs]
                thunk = worker.module_thunk(module, self.program, inputs, outputs)
            for cell, value in zip(inputs, values):
                cell[0] = value
            for _ in range(2):
                try:
                    thunk()
                except Exception:
                    break  # the C code refuses the values

    def _calls(self, example):
        """Return lists of the values of the inputs: one list for an example, or one for each element."""
        try:
            values = without_destroyed(example.built, example.node_values())
            values = worker.input_values(self.whole, example, values)
            return [values] if self.program is self.whole else zip(*(a.flat for a in np.broadcast_arrays(*values)))
        except Exception:
            return []  # not a value of its type, or shapes that do not fit


def _unit(built):
    """Return the `_Unit` of a node. Return None if its C code cannot be counted."""
    from theano_ng.scalar import get_scalar_type
    from theano_ng.tensor.elemwise import Elemwise

    try:
        whole = program = worker.program_of(built.node)
        op = built.op
        if isinstance(op, Elemwise):
            op = op.scalar_op
            program = worker.program_of(op.make_node(*[get_scalar_type(v.dtype)() for v in built.node.inputs]))
    except Exception:  # no C code for these types, or params that cannot be pickled
        return None
    return _Unit(built, op, whole, program) if program.native is None else None


def _compiled(program, folder):
    """Compile a program with counters, and load it."""
    from theano_ng.gof.compiler import GCC_compiler
    from theano_ng.gof.compiler.modulecache import HASH_PLACEHOLDER

    arguments = [arg for arg in GCC_compiler.compile_args() if arg not in program.without] + list(program.arguments)
    libraries = list(program.libraries)
    if "-fopenmp" in arguments:
        arguments = [arg for arg in arguments if arg != "-fopenmp"] + [_OPENMP]
        libraries.append("gomp")
    return GCC_compiler.compile_str(
        "counted",
        program.source.replace(HASH_PLACEHOLDER, "counted") + _WRITER,
        folder,
        program.header_dirs,
        program.lib_dirs,
        libraries,
        [*arguments, "--coverage", "-O0"],
    )


class Code:
    """The author's lines in the C code of an Op, and their counts.

    Parameters
    ----------
    op : Op
    source : str
        The source of the generated module.
    folder : str
        The directory in which it was compiled and run.
    """

    def __init__(self, op, source, folder):
        self.op, self.source = op, source
        counts = _read_counters(folder)
        name = re.sub(r"\W", "_", type(op).__name__)
        lines, generated = source.split("\n"), counts.get(os.path.join(folder, "mod.cpp"), {})
        own = {}
        for number, count in sorted(generated.items()):
            place = locate(source, number) if number <= len(lines) else None
            if place is not None and place[0] == name:
                own[number] = count
        self.counts = {"": own}  # file, or "" for the generated module -> line -> Count
        self.lines = {"": lines}
        for path in _headers(op, folder):
            if path in counts:
                self.counts[path] = dict(sorted(counts[path].items()))
                with open(path, encoding="utf-8", errors="replace") as file:
                    self.lines[path] = file.read().split("\n")

    def add(self, other):
        """Add the counts of the same lines of another source."""
        for path in self.counts.keys() & other.counts.keys():
            for here, there in self._same_lines(other) if not path else [(n, n) for n in self.counts[path]]:
                self.counts[path][here] += other.counts[path].get(there, Count())

    def _same_lines(self, other):
        """Return pairs of the numbers of corresponding lines of the generated modules."""
        here, there = list(self.counts[""]), list(other.counts[""])
        matcher = difflib.SequenceMatcher(
            None, [self.lines[""][n - 1] for n in here], [other.lines[""][n - 1] for n in there], autojunk=False
        )
        pairs = []
        for tag, a, b, c, d in matcher.get_opcodes():
            if tag == "equal" or (tag == "replace" and b - a == d - c):  # for instance, the name of a dtype differs
                pairs += zip(here[a:b], there[c:d])
        return pairs

    def missing(self):
        """Return the `Place` of each group of neighbouring lines that were not reached, and of each part of a line."""
        return [place for path in self.counts for place in self._missing_of(path)]

    def _missing_of(self, path):
        lines, counts, places = self.lines[path], self.counts[path], []
        guard, group = 0, []  # the last line that was reached; the lines after it that were not
        for number, count in [*counts.items(), (len(lines) + 1, Count(1))]:
            if not count.count:
                group.append(number)
                continue
            own = [n for n in group if not _FAIL.fullmatch(lines[n - 1].strip())]
            if own and not handles_failed_allocation(lines, guard, group[0], group[-1]):
                places.append(self._place(path, own))
            elif not group and guard and counts[guard].partial and _is_divided(lines[guard - 1]):
                if not handles_failed_allocation(lines, guard, guard, guard):
                    places.append(self._place(path, [guard], part=True))
            guard, group = number, []
        return places

    def _place(self, path, numbers, part=False):
        """Return the `Place` of some lines of a file, or of the generated module."""
        text, ends = self.lines[path][numbers[0] - 1].strip(), (numbers[0], numbers[-1])
        if path:
            file, (first, last) = path, ends
        else:
            (file, first), (other, last) = map(self._author_line, ends)
            if other != file or last < first:  # the author's line of the last line is unknown
                last = first
        return Place(text, file, first, last, len(numbers), part)

    def _author_line(self, number):
        """Return the file and the number of the author's line that a line of the generated module comes from."""
        in_file = locate_file(self.source, number)
        if in_file is None:
            method = locate(self.source, number)[1]
            return producing_line(self.op, method, self.lines[""][number - 1].strip())
        name, line = in_file
        return next((one for one in getattr(self.op, "func_files", ()) if os.path.basename(one) == name), name), line


_FAIL = re.compile(r"\{ __failure = \d+; goto __label_\d+; \}")


def _is_divided(line):
    """Return True if a line of C code contains a condition and more: an operand, or a statement that depends on it."""
    line = blanked(line).strip()
    if re.match(r"(else\b\s*)?(for|while)\b", line) and not line.endswith((";", "}")):
        return False  # the loop did not run, so the lines after this line were not reached either
    return bool(re.search(r"\?|&&|\|\||\b(if|for|while|switch|case|else)\b", line))


@dataclass(frozen=True)
class Place:
    """Neighbouring lines of C code that no example reached.

    Attributes
    ----------
    text : str
        The first line.
    file : str
        The file of the author, or "".
    first, last : int
        The numbers of the first and of the last line in the file.
    count : int
        The number of lines.
    part : bool
        Whether only a part of the line was not reached.
    """

    text: str
    file: str
    first: int
    last: int
    count: int
    part: bool = False

    def __str__(self):
        text = self.text if len(self.text) <= LINE_LENGTH else self.text[: LINE_LENGTH - 3] + "..."
        words = "`%s`" % text
        hidden = self.count - 1 if self.last == self.first else 0
        if hidden:
            words += " and the next %s" % ("line" if hidden == 1 else "%d lines" % hidden)
        if self.file:
            lines = "line %d" % self.first if self.last == self.first else "lines %d-%d" % (self.first, self.last)
            words = "%s (%s)" % (lines, words)
        return "a part of " + words if self.part else words


def _sentence(places):
    """Return a sentence that names the first places, and the number of the others."""
    if not places:
        return ""
    texts = []
    for file, group in itertools.groupby(places[:MOST_PLACES], lambda place: place.file):
        texts.append((file + ": " if file else "") + ", ".join(map(str, group)))
    more = len(places) - MOST_PLACES
    if more > 0:
        texts.append("and %d more place%s" % (more, "" if more == 1 else "s"))
    return "no example reached in the C code: " + "; ".join(texts)


def _headers(op, folder):
    """Return the header files of the author: those in the folder of the Python file of the Op's class."""
    from theano_ng.gof.compiler.gxx import own_headers

    try:
        own = os.path.dirname(os.path.abspath(inspect.getfile(type(op)))) + os.sep
    except (OSError, TypeError):
        return []
    return [path for path in own_headers(folder) if path.startswith(own)]


def _read_counters(folder):
    """Return a dict file -> line -> `Count` of a module that wrote its counters into a folder."""
    from theano_ng.gof.compiler.toolchain import find_toolchain, run_program

    toolchain = find_toolchain()
    (data,) = glob.glob(os.path.join(glob.escape(folder), "*.gcda"))
    status, output = run_program([gcov_of(toolchain.cxx), "--json-format", "--stdout", "-b", data])
    documents = [line for line in output.split("\n") if line.startswith("{")]
    if status or not documents:
        raise ValueError("gcov failed: %s" % first_line(output))
    document, counts = json.loads(documents[0]), {}
    if document["gcc_version"].split(".")[0] != toolchain.version().split(".")[0]:
        raise ValueError("gcov %s cannot read files of gcc %s" % (document["gcc_version"], toolchain.version()))
    for file in document["files"]:
        path = os.path.normpath(os.path.join(document.get("current_working_directory", ""), file["file"]))
        lines = counts.setdefault(path, {})
        for line in file["lines"]:
            branches = tuple(branch["count"] for branch in line["branches"] if not branch["throw"])
            count = Count(line["count"], line["unexecuted_block"], branches)
            number = line["line_number"]
            lines[number] = lines[number] + count if number in lines else count
    return counts
