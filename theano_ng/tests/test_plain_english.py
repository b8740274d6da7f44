"""Tests that docstrings begin with a verb or a noun, so that the first line is clear without the rest."""

import ast
import os
import re
import unittest

import theano_ng

PACKAGE = os.path.dirname(os.path.abspath(theano_ng.__file__))
# Sentences without a main clause, such as "What is left", "Whether it fits" or "How lengths are drawn".
HEADLESS = re.compile(r"(What|That which|Where|Who|Whose|Whom|How|Whether|Which|Those)\b[^?]*$")


def docstrings(folder):
    """Yield (path, line, docstring) of all modules, classes and functions in a folder."""
    for path, folders, names in os.walk(folder):
        folders.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                with open(os.path.join(path, name), encoding="utf-8") as file:
                    tree = ast.parse(file.read())
                for node in ast.walk(tree):
                    if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                        text = ast.get_docstring(node)
                        if text:
                            yield os.path.relpath(os.path.join(path, name), folder), node.body[0].lineno, text


def headless(text):
    """Return True if the first sentence of a docstring has no main clause."""
    first = re.split(r"(?<=[.:;?])\s", text.strip(), maxsplit=1)[0]
    return HEADLESS.match(first) is not None


class TestDocstrings(unittest.TestCase):
    def test_headless(self):
        for text in (
            "What is left.",
            "Whether a variable is known outside.",
            "How it ends:\nby an error.",
            "Those of\nit.",
        ):
            self.assertTrue(headless(text), text)
        for text in (
            "Return what is left.",
            "Whose turn is it? A question.",
            "Rows. What else?",
            "The number that counts.",
        ):
            self.assertFalse(headless(text), text)

    def test_first_sentences(self):
        found = list(docstrings(PACKAGE))
        self.assertGreater(len(found), 7000)
        bad = ["%s:%d: %s" % (path, line, text.split("\n")[0]) for path, line, text in found if headless(text)]
        self.assertEqual(bad, [], "Begin with a verb (Return, Write, ...) or with a noun:\n" + "\n".join(bad))


if __name__ == "__main__":
    unittest.main()
