"""Tests of the reports of invalid indices, on the stub device: the tests write what kernels would write."""

import ctypes
import os
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor
from ctypes import byref

from theano_ng.gpuarray.device.tests import native

WORDS, LIMIT = 34, 1 << 32


class TestIndexErrors(unittest.TestCase):
    def setUp(self):
        self.library = native.load(fresh=True)  # no thread has a slot yet
        self.context = native.Context(self.library, "stub5")
        self.addCleanup(self.context.close)

    def watch(self, site=7):
        watch = native.Watch()
        self.assertEqual(self.library.gpucontext_watch(self.context.pointer, site, byref(watch)), native.GA_NO_ERROR)
        return watch

    def report(self, watch, place=0, index=0, length=3):
        """Write into the slot what a kernel of this launch writes for one invalid index."""
        slots = ctypes.cast(watch.slots.contents.memory, ctypes.POINTER(ctypes.c_uint64))
        at = (watch.launch >> 24 & 31) * WORDS
        key = ~(place << 33 | (index + LIMIT)) & (1 << 64) - 1
        if slots[at] in (0, watch.launch):
            slots[at], slots[at + 1], slots[at + 2] = watch.launch, max(slots[at + 1], key), length
        self.library.gpucontext_watched(self.context.pointer)

    def sync(self):
        """Wait; return (site, place, index, length, of another thread) of the error, or None."""
        code = self.library.gpucontext_sync(self.context.pointer)
        if code == native.GA_NO_ERROR:
            return None
        self.assertEqual(code, native.GA_INDEX_ERROR)
        found = self.library.index_error_found().contents
        return found.site, found.place, found.index, found.lengths[0], bool(found.of_other_thread)

    def in_new_thread(self, function, *arguments):
        """Call a function in a thread; return its result when the operating system has ended the thread."""
        with ThreadPoolExecutor(1) as pool:
            thread = pool.submit(threading.get_native_id).result()
            result = pool.submit(function, *arguments).result()
        while os.path.exists("/proc/self/task/%d" % thread):
            time.sleep(0.001)
        return result

    def test_one_thread(self):
        """The first invalid index of the first failing launch is reported once."""
        self.assertIsNone(self.sync())
        first, second = self.watch(7), self.watch(8)
        self.assertIsNone(self.sync())  # another thread may wait between the preparation and the launch
        for place, index in ((5, -9), (2, 4), (3, 1 - LIMIT)):
            self.report(first, place, index)
        self.report(second, 0, 11)
        self.assertEqual(self.sync(), (7, 2, 4, 3, False))
        self.assertIsNone(self.sync())
        self.report(second, 0x7FFFFFFF, LIMIT - 1, 10)
        self.assertEqual(self.sync(), (8, 0x7FFFFFFF, LIMIT - 1, 10, False))
        self.assertIsNone(self.sync())

    def test_reading_reports(self):
        data = self.context.alloc(8)
        for size in (8, 0):
            self.report(self.watch(), 0, -4)
            with self.assertRaises(native.DeviceError) as caught:
                self.context.read(data, size)
            self.assertEqual(caught.exception.code, native.GA_INDEX_ERROR)
            self.context.read(data, size)
        self.context.free(data)

    def test_another_thread(self):
        """A thread that waits learns of the error of another thread, too, because it may use the other's results."""
        with ThreadPoolExecutor(1) as pool:
            theirs = pool.submit(self.watch, 3).result()
            self.report(theirs, 1, 9)
            self.assertEqual(self.sync(), (3, 1, 9, 3, True))
            self.assertIsNone(self.sync())
            own = self.watch(4)
            self.report(own, 6, 8)
            self.assertEqual(self.sync(), (4, 6, 8, 3, False))
            self.report(own, 6, 8)  # a thread gets its own error first
            self.assertEqual(pool.submit(self.sync).result(), (3, 1, 9, 3, False))
            self.assertEqual(pool.submit(self.sync).result(), (4, 6, 8, 3, True))
            self.assertIsNone(pool.submit(self.sync).result())
            self.assertEqual(self.sync(), (4, 6, 8, 3, False))
            self.assertIsNone(self.sync())

    def test_threads_that_ended(self):
        """The error of a thread that has ended is reported once, by the first thread that waits."""
        for waits in (False, True):
            ended = self.in_new_thread(self.watch, 3)
            with ThreadPoolExecutor(1) as pool:
                self.report(ended, 1, 9)
                if waits:  # this thread gets the slot, and the error, of the thread that ended
                    own = pool.submit(self.watch, 4).result()
                    self.assertEqual(own.launch >> 24 & 31, ended.launch >> 24 & 31)
                    self.assertEqual(pool.submit(self.sync).result(), (3, 1, 9, 3, True))
                    self.report(own, 2, 5)
                    self.assertEqual(pool.submit(self.sync).result(), (4, 2, 5, 3, False))
                else:
                    self.assertEqual(self.sync(), (3, 1, 9, 3, True))
                self.assertIsNone(pool.submit(self.sync).result())
            for _ in range(2):
                self.assertIsNone(self.in_new_thread(self.sync))
            self.assertIsNone(self.sync())

    def test_many_threads(self):
        """Threads beyond the number of slots wait after each launch. They do not clear each other's errors."""
        pools = [ThreadPoolExecutor(1) for _ in range(40)]
        for pool in pools:
            self.addCleanup(pool.shutdown)
        watches = [pool.submit(self.watch, k).result() for k, pool in enumerate(pools)]
        waits = [(watch.launch >> 24 & 31, watch.wait) for watch in watches]
        self.assertEqual(waits, [(k, 0) for k in range(31)] + [(31, 1)] * 9)
        self.report(watches[35], 1, 9)
        self.assertEqual(pools[33].submit(self.sync).result(), (35, 1, 9, 3, True))
        self.assertIsNone(pools[33].submit(self.sync).result())
        self.report(watches[2], 0, 4)
        self.assertEqual(pools[35].submit(self.sync).result(), (35, 1, 9, 3, False))
        self.assertEqual(pools[35].submit(self.sync).result(), (2, 0, 4, 3, True))
        self.assertEqual(pools[34].submit(self.sync).result(), (2, 0, 4, 3, True))
        self.assertIsNone(pools[34].submit(self.sync).result())


class TestCopiedReports(TestIndexErrors):
    """The tests on a device whose memory the host must copy."""

    def setUp(self):
        super().setUp()
        unsupported = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)
        self.refuse = unsupported(lambda *arguments: native.GA_UNSUPPORTED_ERROR)
        place = ctypes.c_void_p.from_address(self.context.pointer)
        self.table = native.Table.from_buffer_copy(native.Table.from_address(place.value))
        self.table.host_alloc = ctypes.cast(self.refuse, ctypes.c_void_p).value
        place.value = ctypes.addressof(self.table)
