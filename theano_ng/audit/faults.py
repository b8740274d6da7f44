"""A parser for the output of the sanitizers.

`read_faults` returns the faults, each with its stack trace. `user_location` finds the line of the user's code that a
stack trace passes through.
"""

import inspect
import os
import re
from dataclasses import dataclass, replace

from theano_ng.audit.worker import CALL_PREFIX
from theano_ng.gof.codegen.modulecode import locate, locate_file

_FRAME = re.compile(r"^\s*#(\d+) 0x[0-9a-f]+ +(?:in (.+?) )?(\(?/?[^\s()]+\)?(?::\d+)*)(?: \(.*\))?$")
_ADDRESS = re.compile(r"==\d+==ERROR: AddressSanitizer: (.*)")
_RUNTIME = re.compile(r"^(.+?):(\d+):(\d+): runtime error: (.*)$")
_PYTHON_FREES = re.compile(r"dealloc|Py_X?DECREF|Py_CLEAR|_Py_Dealloc")


@dataclass(frozen=True)
class Frame:
    """A stack frame: a function, its file and a line. An unknown function or file is ''. An unknown line is 0."""

    function: str
    file: str
    line: int


@dataclass(frozen=True)
class Fault:
    """One report of a sanitizer, or a report that the process died.

    Attributes
    ----------
    error : str
        ``AddressError``, ``UndefinedBehaviour``, ``ReferenceUnderflow`` or ``Crash``.
    what : str
        The description by the sanitizer, in one line.
    frames : tuple of Frame
        The stack trace of the fault, from the innermost frame.
    freed : tuple of Frame
        The stack trace of the call that freed the memory. It is empty if the memory was not freed.
    text : str
        The whole report.
    call : str
        A description of the call that caused the fault. The worker makes several calls for each example.
    """

    error: str
    what: str
    frames: tuple
    freed: tuple
    text: str
    call: str = ""


def read_faults(text):
    """Return the faults in the output of a process, in order.

    Parameters
    ----------
    text : str
        The output.

    Returns
    -------
    list of Fault
    """
    faults, block, call = [], [], ""

    def finish():
        if block:
            found = _undefined_fault(block) if _RUNTIME.match(block[0]) else _address_fault(block)
            faults.append(replace(found, call=call))
            block.clear()

    mark = CALL_PREFIX.decode()
    for line in text.split("\n"):
        if line.startswith(mark):
            finish()
            call = line[len(mark) :]
        elif _ADDRESS.search(line) or _RUNTIME.match(line):
            finish()
            block.append(line)
        elif block and not line.startswith(("=====", "AddressSanitizer:DEADLYSIGNAL")):
            block.append(line)
    finish()
    return faults


def _undefined_fault(block):
    file, line, _, what = _RUNTIME.match(block[0]).groups()
    what = re.sub(" address 0x[0-9a-f]+", " address", what)  # the address differs each time
    return Fault(
        "UndefinedBehaviour", what, (Frame("", file, int(line)), *_stack(block[1:])), (), "\n".join(block).strip()
    )


def _address_fault(block):
    head = _ADDRESS.search(block[0]).group(1)
    kind = head.split(" on ")[0].split(" (")[0].strip()
    frames = _stack(block[1:])
    freed = next((_stack(block[i + 1 :]) for i, line in enumerate(block) if line.startswith("freed by thread")), ())
    access = next(
        (match.group(1, 2) for line in block for match in [re.match(r"(READ|WRITE) of size (\d+)", line)] if match),
        None,
    )
    signalled = next(
        (match.group(1) for line in block for match in [re.search(r"caused by a (READ|WRITE)", line)] if match), None
    )
    region = next((line.strip() for line in block if " is located " in line), "")
    if access is not None:
        what = "%s: %s of %s byte%s" % (kind, access[0].lower(), access[1], "" if access[1] == "1" else "s")
    elif signalled is not None:
        what = "%s: %s" % (kind, signalled.lower())
    else:
        what = kind
    if region:
        what += ", " + re.sub(r"^(?:Address )?0x[0-9a-f]+ is located (.*?)(?: of thread.*| \[.*)", r"\1", region)
    if kind == "FPE":
        error, what = "UndefinedBehaviour", "integer division by zero, or of the smallest integer by -1"
    elif kind in ("ABRT", "ILL", "TRAP"):
        error, what = "Crash", "signal SIG%s" % kind
    elif ("use-after-free" in kind or "double-free" in kind) and any(
        _PYTHON_FREES.search(frame.function) or os.path.basename(frame.file) == "object.h" for frame in freed
    ):
        error = "ReferenceUnderflow"
    else:
        error = "AddressError"
    return Fault(error, what, frames, freed, "\n".join(block).strip())


def shortened(text):
    """Remove stack frames outside generated code, and the dump of the shadow memory, from a report.

    Parameters
    ----------
    text : str

    Returns
    -------
    str
    """
    kept, last = [], ""
    for line in text.split("\n"):
        if line.startswith(("SUMMARY", "Shadow bytes")) or "AddressSanitizer can not provide" in line:
            break
        frame = _FRAME.match(line)
        if frame is None:
            kept.append(line)
        elif frame.group(2) not in (None, "filled_malloc"):  # other frames are not in generated code
            if "_executor" in frame.group(2) and frame.group(1) == last:  # the executor only calls the run function
                continue
            last = frame.group(1)
            line = re.sub(r"0x[0-9a-f]+ +in ", "", line, count=1)
            kept.append(re.sub(r"__struct_compiled_op_\w+_executor", "run", line))
    kept = [
        line
        for line, after in zip(kept, kept[1:] + [""])
        if not line.endswith(" here:") or _FRAME.match(after) or "#" in after
    ]
    text = re.sub(r"(?m)^==\d+==", "", "\n".join(kept).strip())
    return re.sub(r"/\S*/(?=mod\.cpp:)", "", text)


# ---------------------------------------------------------------- stacks

_RAW = re.compile(r"^(\s*#\d+ 0x[0-9a-f]+ ) ?\((/.+)\+(0x[0-9a-f]+)\)(?: \(BuildId.*\))?$")
_names = {}  # (file, offset) -> texts "function file:line", the innermost inlined function first


def addr2line():
    """Return the path of addr2line, which finds the source line of an address. Return None if it is not installed."""
    import shutil

    return shutil.which("addr2line")


def symbolized(text, directory):
    """Replace the addresses of code in a directory by functions and source lines.

    Parameters
    ----------
    text : str
        Reports of sanitizers.
    directory : str
        The directory of the compiled code. Addresses in other files are not replaced.

    Returns
    -------
    str
    """
    lines = text.split("\n")
    raw = [_RAW.match(line) for line in lines]
    missing = {}
    for match in raw:
        if match is not None and match.group(2).startswith(directory) and match.group(2, 3) not in _names:
            missing.setdefault(match.group(2), []).append(match.group(3))
    for file, offsets in missing.items():
        _look_up(file, list(dict.fromkeys(offsets)))
    named = []
    for line, match in zip(lines, raw):
        found = _names.get(match.group(2, 3), ()) if match is not None else ()
        named += [match.group(1) + "in " + name for name in found] or [line]
    return "\n".join(named)


def _look_up(file, offsets):
    from theano_ng.gof.compiler.toolchain import run_program

    program = addr2line()
    status, output = run_program([program, "-a", "-f", "-i", "-C", "-e", file, *offsets]) if program else (1, "")
    here = []
    for line in output.split("\n") if status == 0 else ():
        if re.fullmatch(r"0x[0-9a-f]+", line):
            here = _names[file, offsets.pop(0)] = []
        elif line and (not here or isinstance(here[-1], str)):
            here.append((re.sub(r"\(.*", "", line.replace("(anonymous namespace)", "")).split("::")[-1] or "?",))
        elif line and here:
            place = line.split(" (")[0]
            here[-1] = (
                "%s %s" % (here[-1][0], place)
                if ":?" not in place and "??" not in place
                else "%s (%s)" % (here[-1][0], file)
            )


def _stack(lines):
    """Return the frames of the first stack trace in the lines of a report."""
    frames = []
    for line in lines:
        match = _FRAME.match(line)
        if match is None:
            if frames:
                break
            continue
        file, _, rest = match.group(3).partition(":")
        number = rest.split(":")[0]
        frames.append(Frame(match.group(2) or "", file, int(number) if number.isdigit() else 0))
    return tuple(frames)


# ---------------------------------------------------------------- places


def user_location(frames, source, owners):
    """Find the line of the user's code that a stack trace passes through.

    Parameters
    ----------
    frames : sequence of Frame
    source : str
        Source code of the generated module. It is "" for kernels.
    owners : sequence of Op and Type
        The objects whose methods produced the source code.

    Returns
    -------
    (str, str)
        A description for the message, such as ``MyOp.c_code, line 7: `z[i] = x[i+1];` ``, and ``file:line``. Both are
        "" if no frame is in generated code.
    """
    here = [frame for frame in frames if os.path.basename(frame.file) == "mod.cpp" and frame.line]
    if source and here:
        frame = next((frame for frame in here if locate(source, frame.line) is not None), here[0])
        return _user_location_in_module(source, frame.line, owners)
    kernels = [frame for frame in frames if os.path.basename(os.path.dirname(frame.file)) == "kernels" and frame.line]
    if kernels:
        frame = kernels[0]
        try:
            with open(frame.file, encoding="utf-8") as file:
                text = file.read().split("\n")[frame.line - 1].strip()
        except (OSError, IndexError):
            return "the generated kernel", ""
        return "the generated kernel: `%s`" % text, "%s:%d" % (frame.file, frame.line)
    return "", ""


def _user_location_in_module(source, number, owners):
    text = source.split("\n")[number - 1].strip() if number <= source.count("\n") + 1 else ""
    found = locate(source, number)
    if found is None:
        return "the generated module, line %d: `%s`" % (number, text), ""
    name, method, line = found
    owner = next((owner for owner in owners if type(owner).__name__ == name), None)
    in_file = locate_file(source, number)
    if in_file is not None:
        paths = [path for path in getattr(owner, "func_files", ()) if os.path.basename(path) == in_file[0]]
        return "%s, line %d: `%s`" % (in_file[0], in_file[1], text), "%s:%d" % (
            paths[0] if paths else in_file[0],
            in_file[1],
        )
    return "%s.%s, line %d: `%s`" % (name, method, line, text), method_location(owner, method, text)


def method_location(owner, method, text=""):
    """Find the line of a method that produces a line of C code.

    Return ``file:line`` of the line of the method. If no line of the method produces the line of C code, return the
    position of the method. If the source code of the method is not available, return "".

    Parameters
    ----------
    owner : Op or Type
    method : str
    text : str, optional
        A line of the C code that the method returned.
    """
    file, lines, start = _python_lines(owner, method)
    if not file:
        return ""
    found = [i for i, line in enumerate(lines) if _yields(line.strip(), text)]
    return "%s:%d" % (file, start + (found[0] if found else 0))


def producing_line(owner, method, text):
    """Return the file and the number of the only line of a method that can produce a line of C code.

    Return ("", 0) if several lines or none can produce it. The parameters are those of `method_location`.
    """
    file, lines, start = _python_lines(owner, method)
    found = [i for i, line in enumerate(lines) if _yields(line.strip(), text)]
    return (file, start + found[0]) if len(found) == 1 else ("", 0)


def _python_lines(owner, method):
    """Return the file of a method, its lines, and the number of the first. The file is "" if it is not available."""
    function = getattr(owner, method, None)
    function = inspect.unwrap(getattr(function, "__func__", function)) if function is not None else None
    try:
        return inspect.getsourcefile(function), *inspect.getsourcelines(function)
    except (OSError, TypeError):
        return "", [], 0


def _yields(template, text):
    """Return True if a line of a template can produce the line `text` of C code.

    The template is Python code that contains %(name)s, {name} or %s.
    """
    template = template.strip("\"'").rstrip("\\n").strip()
    if sum(c.isalnum() for c in re.sub(r"%\(\w+\)[sdir]|\{\w*\}|%[sdir]", "", template)) < 1 or not text:
        return False
    pattern = "".join(
        ".+?" if i % 2 else re.escape(part.replace("%%", "%").replace("{{", "{").replace("}}", "}"))
        for i, part in enumerate(re.split(r"(%\(\w+\)[sdir]|\{\w+(?:\[\w+\])?\}|%[sdir])", template))
    )
    return re.fullmatch(pattern, text) is not None
