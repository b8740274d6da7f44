"""The commands of the page "Testing an operation", executed in the order of the page.

A directive ``literalinclude:: code/bend/.../bend.py`` of the page means that the reader's file gets this content. A block
``code-block:: console`` contains commands and their output. In the output of the page, ``...`` stands for any text.
"""

import doctest
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import unittest

from theano_ng.configdefaults import config

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TUTORIAL = os.path.join(ROOT, "doc", "tutorial")
PAGE = os.path.join(TUTORIAL, "testing_ops.rst")

COMMANDS = {"theano_ng-audit": "theano_ng.audit.cli", "theano_ng-nose": "theano_ng.tests.runner"}
_PART = re.compile(
    r"^\.\. literalinclude:: (?P<file>code/bend/\S+)$|^\.\. code-block:: console\n\n(?P<console>(?:    .*\n|\n)+)", re.M
)


def parts():
    """Return the parts of the page in their order: ("file", path), or ("command", command line, output)."""
    with open(PAGE, encoding="utf-8") as page:
        text = page.read()
    found = []
    for match in _PART.finditer(text):
        if match["file"]:
            found.append(("file", match["file"]))
            continue
        lines = [line[4:] for line in match["console"].rstrip().split("\n")]
        for line in lines:
            if line.startswith("$ "):
                found.append(("command", line[2:], []))
            else:
                found[-1][2].append(line)
    return found


def run(line, folder):
    """Run a command line of the page, and return its output."""
    words = shlex.split(line)
    env = dict(
        os.environ, PYTHONPATH=os.pathsep.join(filter(None, (ROOT, os.environ.get("PYTHONPATH")))), COLUMNS="100"
    )
    flags = env["THEANO_FLAGS"] = "base_compiledir=%s" % config.base_compiledir  # the page shows the default mode
    while "=" in words[0]:
        name, _, value = words.pop(0).partition("=")
        env[name] = "%s,%s" % (flags, value)
    module = COMMANDS[words.pop(0)]
    done = subprocess.run([sys.executable, "-m", module, *words], cwd=folder, env=env, capture_output=True, text=True)
    return done.stdout + done.stderr


@unittest.skipUnless(os.path.exists(PAGE), "doc/ is in a checkout only, not in an installed package")
@unittest.skipUnless(config.cxx, "needs a C++ compiler")
class TestPage(unittest.TestCase):
    def test_commands(self):
        found = parts()
        commands = [part[1] for part in found if part[0] == "command"]
        self.assertGreaterEqual(len(commands), 6)
        checker, flags = doctest.OutputChecker(), doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        with tempfile.TemporaryDirectory() as folder:
            for kind, text, *rest in found:
                if kind == "file":
                    shutil.copy(os.path.join(TUTORIAL, text), folder)
                    continue
                want, got = "\n".join(rest[0]) + "\n", run(text, folder)
                if not checker.check_output(want, got, flags):
                    self.fail("%s\nThe page has:\n%s\nThe command gives:\n%s" % (text, want, got))

    def test_files_are_changed_in_order(self):
        """The page shows each version of the file once, and the last version contains no fault."""
        files = [part[1] for part in parts() if part[0] == "file" and part[1].endswith("/bend.py")]
        self.assertEqual(files, ["code/bend/%s/bend.py" % name for name in ("first", "second", "third", "last")])


if __name__ == "__main__":
    unittest.main()
