"""Writes the source code of a self-contained Python program that shows a failure."""

from theano_ng.tests.programs import lengths, source
from theano_ng.tests.programs.configurations import CONFIGURATIONS

HEAD = '''\
"""{title}"""
import os, tempfile
os.environ["THEANO_FLAGS"] = "base_compiledir=" + tempfile.mkdtemp(){flags}
{imports}
from theano_ng.audit import forms


def weights(shape, dtype="float64"):
    return np.cos(np.arange(1, 1 + int(np.prod(shape)))).reshape(shape).astype(dtype)

'''
WAIT = """
    from theano_ng.gof.compiler import background
    background.wait_for_kernels(60)  # the kernels replace the programs of the interpreter"""


def _mode(configuration):
    if configuration.mode == "python":
        return 'theano.Mode("py", None)'
    if configuration.mode == "device":
        return 'theano.compile.mode.get_mode("FAST_RUN").including("gpuarray")'
    if configuration.without:
        return "theano.compile.mode.get_mode(%r).excluding(*%r)" % (configuration.mode, configuration.without)
    return repr(configuration.mode)


def _function(name, program, configuration, lines):
    """Return the source code of a Python function that compiles a program and returns a function which calls it."""
    text = ["def %s():" % name]
    body = [*source.graph_lines(program), *lines]
    arguments = [one for one in lengths.called(program) if one.role != "shared"]
    inputs = ["theano.In(%s, mutable=True)" % one.name if one.role == "mutable" else one.name for one in arguments]
    outputs = "[%s]%s" % (", ".join(program.outputs), " + derived" if lines else "")
    if program.borrow:
        outputs = "[theano.Out(v, borrow=True) for v in %s]" % outputs
    flags = ", ".join(["%s=%r" % flag for flag in configuration.flags])
    body.append("with theano.config.change_flags(on_unused_input='ignore'%s):" % (", " + flags if flags else ""))
    updates = ", ".join(["(%s, %s)" % pair for pair in program.updates])
    body.append(
        "    f = theano.function([%s], %s, updates=[%s], mode=%s)"
        % (", ".join(inputs), outputs, updates, _mode(configuration))
    )
    body.append("def call():")
    for one in arguments:
        body.append("    %s_value = %s" % (one.name, one.same_as + "_value" if one.same_as else source.array_text(one)))
    call = "f(%s)" % ", ".join([one.name + "_value" for one in arguments])
    body.append(
        "    results = %s" % (call if program.calls == 1 else "[%s for _ in range(%d)]" % (call, program.calls))
    )
    state = ", ".join(["%s.get_value()" % name for name, _ in program.updates])
    body.append("    return results%s" % (" + [%s]" % state if state else ""))
    body.append("return call")
    return "\n".join([*text, *["    " + line for line in body]]) + "\n\n"


def text(title, steps, difference, lines=()):
    """Return the source code of a program that shows a failure.

    Parameters
    ----------
    title : str
    steps : list of (Program, str)
        Programs and names of configurations, in the order in which they are compiled. The last program differs.
    difference : Difference
    lines : list of str
        The source lines that create the derivative of the last program.
    """
    parts = [HEAD.format(title=title.replace('"""', "'''"), flags="", imports=source.IMPORTS)]
    last = len(steps) - 1
    for k, (program, name) in enumerate(steps):
        parts.append(_function("program_%d" % k, program, CONFIGURATIONS[name], lines if k == last else ()))
    parts.append("if __name__ == '__main__':")
    for k in range(len(steps)):
        parts.append("\n    call_%d = program_%d()\n    print(call_%d())%s" % (k, k, k, WAIT))
    parts.append("\n    print('later  ', call_%d())" % last)
    parts.append("\n    # %s\n" % str(difference).replace("\n", " ")[:1500])
    return "".join(parts)
