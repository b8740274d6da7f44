"""Tests of `gof._files`: the names, sizes and times of the files of a package."""

import os
import tempfile
import unittest

from theano_ng.gof._files import stamps


class TestStamps(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = os.path.join(folder.name, "package")
        self.write("a.py", "one")
        self.write("b/c/d.so", "two")

    def write(self, name, text):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.utime(path, ns=(0, 5_000_000_001))
        return path

    def stamps(self):
        return sorted(stamps(self.folder, (b".py", b".so"), frozenset((b"tests",))))

    def test_every_change_is_noticed(self):
        before = self.stamps()
        self.assertEqual(len(before), 2)
        self.assertEqual(before, self.stamps())
        path = self.write("b/c/d.so", "three")
        self.assertNotEqual(before, self.stamps())  # another size
        self.write("b/c/d.so", "TWO")
        self.assertEqual(before, self.stamps())
        for time in (5_000_000_002, 6_000_000_001):
            os.utime(path, ns=(0, time))
            self.assertNotEqual(before, self.stamps())
        self.write("b/c/d.so", "two")
        os.rename(path, path.replace("d.so", "e.so"))
        self.assertNotEqual(before, self.stamps())

    def test_only_code_is_read(self):
        before = self.stamps()
        for name in ("a.txt", "tests/e.py", "b/tests/e.py", "b/x.y/e.py", "py", "b/so"):
            self.write(name, "three")
        self.assertEqual(before, self.stamps())
        self.write("b/e.py", "three")
        self.assertEqual(len(self.stamps()), 3)

    def test_symbolic_links_are_followed(self):
        other = os.path.join(os.path.dirname(self.folder), "other")
        os.makedirs(other)
        os.symlink(other, os.path.join(self.folder, "linked"))
        self.assertEqual(len(self.stamps()), 2)
        with open(os.path.join(other, "f.py"), "w"):
            pass
        self.assertEqual(len(self.stamps()), 3)

    def test_links_to_nothing_are_passed_over(self):
        os.symlink("user@host.1", os.path.join(self.folder, ".#a.py"))
        self.assertEqual(len(self.stamps()), 2)

    def test_files_that_cannot_be_read(self):
        os.symlink("loop.py", os.path.join(self.folder, "loop.py"))
        with self.assertRaises(OSError) as caught:
            self.stamps()
        self.assertIn("loop.py", str(caught.exception))

    def test_missing_folders(self):
        with self.assertRaises(FileNotFoundError) as caught:
            stamps(os.path.join(self.folder, "nothing"), (b".py",), frozenset())
        self.assertIn("nothing", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
