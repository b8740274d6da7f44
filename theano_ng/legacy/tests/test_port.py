"""``theano_ng-port`` makes the necessary changes and no others; unreadable files stay unchanged."""

import ast
import contextlib
import importlib.util
import io
import json
import os
import stat
import sys
import tempfile
import textwrap
import unittest
import unittest.mock

import theano_ng.legacy
from theano_ng.legacy import port

HAS_LIBCST = importlib.util.find_spec("libcst") is not None
if HAS_LIBCST:
    from theano_ng.legacy.porting import look_at, look_at_flags

# Pairs of source code before and after the changes. Code that cannot be changed is equal in both.
CHANGES = [
    ("import theano   # the library", "import theano_ng as theano   # the library"),
    ("import theano as th", "import theano_ng as th"),
    ("import theano.tensor as T, os", "import theano_ng.tensor as T, os"),
    ("import theano.tensor.nnet", "import theano_ng as theano, theano_ng.tensor.nnet"),
    ("from theano import function, shared", "from theano_ng import function, shared"),
    (
        "from theano.gof import (Op,  # base\n                        Apply)",
        "from theano_ng.gof import (Op,  # base\n                        Apply)",
    ),
    ("from theano.tensor import *", "from theano_ng.tensor import *"),
    ("import theanor, my.theano", "import theanor, my.theano"),
    ("from . import theano", "from . import theano"),
    ("import numpy as np\nx = np.float( 3 )", "import numpy as np\nx = float( 3 )"),
    ("import numpy\nx = -numpy.NINF, numpy.product", "import numpy\nx = -(-numpy.inf), numpy.prod"),
    ("import numpy as np\ndef f(int): return np.int", "import numpy as np\ndef f(int): return np.int"),
    ("np = object()\nnp.float", "np = object()\nnp.float"),
    ("import time as t\nt.clock()", "import time as t\nt.process_time()"),
    ("import scipy.signal as s\ns.gaussian(3, 1)", "import scipy.signal as s\ns.windows.gaussian(3, 1)"),
    ("from scipy.integrate import simps, quad", "from scipy.integrate import simpson as simps, quad"),
    ("from time import clock", "from time import process_time as clock"),
    ("import collections\ncollections.Mapping", "import collections\ncollections.abc.Mapping"),
    (
        "from collections import (OrderedDict,\n    Iterable as I, Mapping)",
        "from collections import OrderedDict; from collections.abc import Iterable as I, Mapping",
    ),
    ("from numpy import float_, dot", "from numpy import float64 as float_, dot"),
    ("from scipy.misc import comb", "from scipy.special import comb"),
    ("from scipy import array, stats", "from numpy import array; from scipy import stats"),
    ("import scipy.linalg\nscipy.linalg.pinv2(x)", "import scipy.linalg\nscipy.linalg.pinv(x)"),
    ("import inspect\ninspect.getargspec(len)", "import inspect\ninspect.getargspec(len)"),
    ("import inspect\na, b, c, d = inspect.getargspec(f)", "import inspect\na, b, c, d = inspect.getargspec(f)"),
    ("import inspect\ninspect.getargspec(f)[2], s.keywords", "import inspect\ninspect.getargspec(f)[2], s.keywords"),
    ("import inspect\ns = inspect.getargspec(f); s.keywords", "import inspect\ns = inspect.getargspec(f); s.keywords"),
    ("import inspect\ns = inspect.getargspec(f); s.args", "import inspect\ns = inspect.getfullargspec(f); s.args"),
    ("import inspect\nn = inspect.getargspec(f).args", "import inspect\nn = inspect.getfullargspec(f).args"),
    ("import inspect\nn = inspect.getargspec(f)[0]", "import inspect\nn = inspect.getfullargspec(f)[0]"),
    ("import numpy as np\nnp.cast[d](x + 1, )", "import numpy as np\nnp.asarray(x + 1, d)"),
    ("import numpy as np\nnp.cast['int8']([np.float(1)])", "import numpy as np\nnp.asarray([float(1)], 'int8')"),
    ("import numpy as np\nc = np.cast[d]", "import numpy as np\nc = np.cast[d]"),
    ("import numpy as np\nnp.asscalar(x) + np.asscalar(x + 1)", "import numpy as np\nx.item() + (x + 1).item()"),
    ("import numpy as np\nimport scipy\nscipy.dot(a, b)", "import numpy as np\nimport scipy\nnp.dot(a, b)"),
    ("import numpy as np, scipy\nscipy.dot(a, b)", "import numpy as np, scipy\nscipy.dot(a, b)"),
    ("import numpy\nimport scipy\ndef f(numpy): scipy.pi", "import numpy\nimport scipy\ndef f(numpy): scipy.pi"),
]


@unittest.skipUnless(HAS_LIBCST, "needs LibCST: pip install 'theano_ng[port]'")
class TestChanges(unittest.TestCase):
    def test_changes(self):
        for before, after in CHANGES:
            with self.subTest(before):
                report = look_at("f.py", before.encode())
                self.assertEqual(report.changed.decode(), after)
                ast.parse(after)
                self.assertEqual(bool(report.diff()), before != after)

    def test_once_is_enough(self):
        for _, after in CHANGES:
            report = look_at("f.py", after.encode())
            self.assertEqual(report.changed.decode(), after)

    def test_bytes_stay(self):
        before = "# -*- coding: latin-1 -*-\r\n# caf\xe9\r\nimport theano\r\n\r\nx = 1\t;y=2\r\n".encode("latin-1")
        report = look_at("f.py", before)
        self.assertEqual(report.changed, before.replace(b"import theano", b"import theano_ng as theano"))

    def test_findings(self):
        text = """
            import numpy as np
            from theano.sandbox.cuda import dnn
            def f(x):
                return np.msort(x) + np.product(x)
        """
        report = look_at("f.py", textwrap.dedent(text).encode())
        self.assertEqual(
            [(f.line, f.column, f.kind, f.what, f.changes, f.needed) for f in report.findings],
            [
                (3, 1, "moved", "theano.sandbox.cuda", False, False),
                (3, 1, "import", "from theano.sandbox.cuda import dnn", True, True),
                (5, 12, "removed name", "numpy.msort", False, True),
                (5, 26, "removed name", "numpy.product", True, True),
            ],
        )

    def test_python_2(self):
        for line, what in [
            ("print 'a'", "print is a statement"),
            ("try: pass\nexcept ValueError, e: pass", "except X, name"),
            ("raise ValueError, 'no'", "raise X, value"),
            ("x = 0777", "octal"),
            ("x = 10L", "long number"),
            ("x = 1 <> 2", "<>"),
            ("x = `y`", "repr"),
            ("x = ur'a'", "ur''"),
            ("def f((a, b)): pass", "tuple as parameter"),
        ]:
            with self.subTest(line):
                report = look_at("f.py", ("import theano\n%s\n" % line).encode())
                self.assertIsNone(report.changed)
                self.assertEqual({f.kind for f in report.findings}, {"Python 2"})
                self.assertIn(what, report.findings[0].advice)
        report = look_at("f.py", b"print >>f, 1\n")
        self.assertEqual([(f.kind, f.what, f.changes) for f in report.findings], [("Python 2", "print >>f", False)])
        # Python 2 syntax in strings and comments is not reported, nor is a tuple as the default of a parameter.
        prose = b'"""`x` and\nprint this, except X, y: 010"""\n# print 1\ndef f(a=(1, 2), b=3): pass\nx = = 1\n'
        self.assertEqual([(f.kind, f.line) for f in look_at("f.py", prose).findings], [("unreadable", 5)])
        report = look_at("f.py", b"import theano\nx = = 1\n")
        self.assertEqual([(f.kind, f.line) for f in report.findings], [("unreadable", 2)])
        self.assertIsNone(report.changed)

    def test_names_of_python_2(self):
        for line, what in [
            ("import cPickle", "cPickle"),
            ("from StringIO import StringIO", "StringIO"),
            ("from itertools import izip, chain", "itertools.izip"),
            ("import sys\nsys.maxint", "sys.maxint"),
            ("for i in xrange(3): pass", "xrange"),
            ("d = {}\nd.has_key(1)", "has_key"),
            ("class E(StandardError): pass", "StandardError"),
        ]:
            with self.subTest(line):
                report = look_at("f.py", line.encode())
                self.assertEqual(
                    [(f.kind, f.what, f.changes, f.needed) for f in report.findings], [("Python 2", what, False, True)]
                )
                self.assertEqual(report.changed, line.encode())
        for line in [
            "try:\n    import cPickle as pickle\nexcept ImportError:\n    import pickle",
            "try:\n    text = unicode\nexcept NameError:\n    text = str",
            "import sys\nif sys.version_info[0] < 3:\n    text = basestring",
            "text = unicode if PY2 else str",
            "from six.moves import xrange, cPickle\nxrange(3)",
            "import six\nsix.iteritems({})",
            "class D:\n    def iteritems(self): pass\nD().iteritems()",
            "def f(x, long=1, file=None): return x.xrange, long, file, f(x, reduce=2)",
            "from functools import reduce\nreduce",
            "from pylab import *\nunicode",
        ]:
            with self.subTest(line):
                self.assertEqual(look_at("f.py", line.encode()).findings, ())

    def test_homes(self):
        text = "import theano, scipy, pkg_resources\ntheano.sandbox.cuda.use('gpu')\nscipy.array([1])\nimport theano.sandbox.neighbours\n"
        self.assertEqual(
            [
                (f.line, f.kind, f.what, f.advice.partition(",")[0])
                for f in look_at("f.py", text.encode()).findings
                if f.kind != "import"
            ],
            [
                (1, "removed name", "pkg_resources", "replace it by other code"),
                (
                    2,
                    "moved",
                    "theano.sandbox.cuda",
                    "theano.gpuarray; importing the old path only raises an error that reports its removal",
                ),
                (3, "removed name", "scipy.array", "it is numpy.array now"),
                (4, "moved", "theano.sandbox.neighbours", "theano.tensor.nnet.neighbours; the old path still works"),
            ],
        )

    def test_flags(self):
        text = (
            b"[global]\nfloatX = float32\ndevice=gpu0\r\nfloatx = 1  # mine\nmode : FAST\n[nvcc]\nfastmath = True\nno_such = \n  two lines\n"
            b"[blas]\nldflags = -lopenblas\n[numpy_of_mine]\na = 1\n"
        )
        report = look_at_flags(".theanorc", text)
        self.assertEqual(
            [(f.line, f.what, f.changes, f.needed) for f in report.findings],
            [
                (3, "device = gpu0", True, True),
                (4, "floatx = 1  # mine", True, True),
                (5, "mode = FAST", True, True),
                (8, "nvcc.no_such = ", False, True),
                (13, "numpy_of_mine.a = 1", True, True),
            ],
        )
        self.assertIn("floatX", report.findings[1].advice)
        changed = (
            text.replace(b"gpu0", b"cuda0")
            .replace(b"floatx", b"# floatx")
            .replace(b"mode", b"# mode")
            .replace(b"a = 1", b"# a = 1")
        )
        self.assertEqual(report.changed, changed)
        self.assertEqual([f.line for f in look_at_flags(".theanorc", changed).findings], [8])
        self.assertEqual(look_at_flags(".theanorc", b"x = 1").findings[0].kind, "unreadable")

    def test_flags_of_devices(self):
        """`look_at_flags` changes the names of devices, and not the names of flags that contain "gpu"."""
        text = (
            b"[global]\ninit_gpu_device = gpu0\nforce_device = True\ncontexts = dev0->gpu1\ngpuarray.preallocate = 1\n"
        )
        report = look_at_flags(".theanorc", text)
        self.assertEqual(report.changed, text.replace(b"= gpu0", b"= cuda0").replace(b">gpu1", b">cuda1"))
        self.assertEqual(look_at_flags(".theanorc", report.changed).findings, ())

    def test_flags_in_programs(self):
        text = b"import os\nos.environ['THEANO_FLAGS'] = 'device=gpu,floatX=float32,no.such=1'\n"
        self.assertEqual(
            [(f.line, f.kind, f.what, f.changes) for f in look_at("f.py", text).findings],
            [(2, "flag", "device=gpu", False), (2, "flag", "no.such=1", False)],
        )


class TestCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        return path

    def call(self, *arguments):
        out, error = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            status = port.main(list(arguments))
        return status, out.getvalue(), error.getvalue()

    @unittest.skipUnless(HAS_LIBCST, "needs LibCST: pip install 'theano_ng[port]'")
    def test_folder(self):
        one = self.write("a/one.py", "import theano\n")
        two = self.write("two.py", "print 'theano'\n")
        self.write("a/.hidden/three.py", "import theano\n")
        self.write(".theanorc", "[global]\nno_such = 1\n")
        os.chmod(one, 0o750)
        status, out, _ = self.call(self.folder)
        self.assertEqual(status, 2)
        self.assertIn("%s:1:1: import: import theano -> import theano_ng as theano" % one, out)
        self.assertIn("%s:1:1: Python 2" % two, out)
        self.assertIn("no_such", out)
        self.assertIn("3 files, 3 necessary changes, of which 2 can be made by --write", out)
        status, out, error = self.call("--diff", os.path.dirname(one))
        self.assertEqual((status, error), (1, ""))
        self.assertIn("-import theano\n+import theano_ng as theano\n", out)
        _, out, _ = self.call("--json", self.folder)
        self.assertEqual(sorted(f["kind"] for f in json.loads(out)), ["Python 2", "flag", "import"])
        status, out, _ = self.call("--write", self.folder)
        self.assertEqual(status, 2)
        with open(one) as f:
            self.assertEqual(f.read(), "import theano_ng as theano\n")
        with open(two) as f:
            self.assertEqual(f.read(), "print 'theano'\n")
        self.assertEqual(stat.S_IMODE(os.stat(one).st_mode), 0o750)
        self.assertEqual(os.listdir(os.path.dirname(one)), [".hidden", "one.py"])
        self.assertEqual(self.call(one)[0], 0)

    @unittest.skipUnless(HAS_LIBCST, "needs LibCST: pip install 'theano_ng[port]'")
    def test_no_file(self):
        status, _, error = self.call(os.path.join(self.folder, "none.py"))
        self.assertEqual(status, 2)
        self.assertIn("none.py", error)

    @unittest.skipUnless(HAS_LIBCST, "needs LibCST: pip install 'theano_ng[port]'")
    def test_what_cannot_be_written(self):
        one, two = self.write("one.py", "import theano\n"), self.write("two.py", "import theano\n")
        with unittest.mock.patch.object(os, "access", lambda path, mode: not path.endswith("one.py")):
            status, _, error = self.call("--write", self.folder)
        self.assertEqual(status, 2)
        self.assertIn("one.py", error)
        texts = []
        for path in (one, two):
            with open(path) as f:
                texts.append(f.read())
        self.assertEqual(texts, ["import theano\n", "import theano_ng as theano\n"])
        with unittest.mock.patch.object(os, "replace", side_effect=OSError("full")):
            self.assertEqual(self.call("--write", one)[0], 2)
        self.assertEqual(sorted(os.listdir(self.folder)), ["one.py", "two.py"])

    def test_without_libcst(self):
        with unittest.mock.patch.dict(sys.modules, {"libcst": None}):
            sys.modules.pop("theano_ng.legacy.porting", None)
            if hasattr(theano_ng.legacy, "porting"):
                del theano_ng.legacy.porting
            self.assertEqual(
                self.call(self.write("one.py", "")),
                (
                    2,
                    "",
                    "theano_ng-port needs the package LibCST, which cannot be imported: pip install 'theano_ng[port]'\n",
                ),
            )
