"""Tests that every error in the gallery of C code is found under its name, and that nothing is found in the twins."""

import unittest

import theano_ng as theano
from theano_ng.audit.tests import gallery_c, test_gallery


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestC(test_gallery.Galleries):
    def entries(self, *checks):
        return [entry for entry in gallery_c.GALLERY if entry.check in checks]

    def test_debugmode_finds_them(self):
        self.check(self.entries(""))

    def test_audit_finds_them(self):
        self.check([entry for entry in gallery_c.GALLERY if entry.check not in ("", "sanitizer")])

    def test_twins_pass(self):
        self.check_twins(self.entries(""))

    def test_right_ones_pass_everything(self):
        self.check_all_of(gallery_c.RIGHT, leaks=True)


@unittest.skipUnless(theano.config.cxx, "needs a C++ compiler")
class TestSanitizer(test_gallery.Galleries):
    entries = [entry for entry in gallery_c.GALLERY if entry.check == "sanitizer"]

    def test_audit_finds_them(self):
        self.check(self.entries)

    def test_twins_pass(self):
        self.check_twins(self.entries)


if __name__ == "__main__":
    unittest.main()
