"""Tests of the pool of device memory, on the stub device: requests to the device, allocated blocks, errors."""

import random
import unittest

import numpy as np

from theano_ng.gpuarray.device.tests import native

KB, MB = 1 << 10, 1 << 20


class TestPool(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.library = native.load()

    def open(self, preallocate=0.0, capacity=None):
        """Close the previous context and check that it released all memory. Reset the counts; open a new context."""
        self.close()
        self.library.stub_reset(1)
        self.state = self.library.stub_of(1).contents
        if capacity is not None:
            self.state.capacity = capacity
        self.context = native.Context(self.library, "stub1", preallocate=preallocate)
        return self.context

    def close(self):
        if self.context is not None:
            self.context.close()
            self.context = None
            self.assertEqual((self.state.held, self.state.allocated), (0, 0))

    def setUp(self):
        self.context = None
        self.addCleanup(self.close)

    def test_what_is_freed_is_had_again(self):
        # The pool requests memory from the device in the first round only; later rounds allocate and free blocks of the
        # same sizes.
        context = self.open()
        sizes = [1, 300, 4 * KB, 100 * KB, 3 * MB, 30 * MB]
        for _ in range(50):
            held = [context.alloc(size) for size in sizes]
            for data in held:
                context.free(data)
        # one shared segment for the chunk of small blocks and for the 3 MB; one segment for the 30 MB
        self.assertEqual((self.state.count("alloc"), self.state.held), (2, 50 * MB))
        self.assertEqual(context.counts().allocations, 2)

    def test_a_block_comes_back_at_its_place(self):
        context = self.open()
        first, second = context.alloc(1000), context.alloc(1000)
        place = native.memory_of(first)
        context.free(first)
        again = context.alloc(900)  # both sizes round up to the same multiple of 256
        self.assertEqual(native.memory_of(again), place)
        context.free(second)
        context.free(again)

    def test_blocks_are_apart_aligned_and_keep_their_content(self):
        # Random sizes in random order. Each block is written when it is allocated, and read before it is freed.
        draw = random.Random(1)
        for preallocate in (-1.0, 0.0, 64.0, 0.25):
            with self.subTest(preallocate=preallocate):
                context = self.open(preallocate)
                held = {}
                for i in range(1500):
                    if held and (draw.random() < 0.5 or len(held) > 40):
                        data = draw.choice(list(held))
                        size, byte = held.pop(data)
                        self.assertEqual(context.read(data, size), bytes([byte]) * size)
                        context.free(data)
                    else:
                        size = draw.choice(
                            [draw.randrange(1, 2000), draw.randrange(1, 300 * KB), draw.randrange(1, 3 * MB)]
                        )
                        data = context.alloc(size)
                        self.assertEqual(native.memory_of(data) % 256, 0)
                        held[data] = size, i % 251
                        context.write(data, bytes([i % 251]) * size)
                    counts = context.counts()
                    self.assertEqual(counts.blocks, len(held))
                    self.assertGreaterEqual(counts.in_use, sum(size for size, _ in held.values()))
                    self.assertLessEqual(counts.in_use, counts.reserved)
                    self.assertEqual(counts.reserved, self.state.held)
                for data in held:
                    context.free(data)
                self.assertEqual(context.counts().in_use, 0)
                context.trim()
                self.assertEqual((context.counts().reserved, self.state.held), (0, 0))

    def test_free_neighbours_join(self):
        # 16 blocks fill a reserved segment. After they are freed in any order, a block of the whole size fits.
        context = self.open(preallocate=32.0, capacity=32 * MB)
        held = [context.alloc(2 * MB) for _ in range(16)]
        for i in (3, 1, 2, 0, 15, 13, 14, 12, 5, 4, 7, 6, 9, 11, 8, 10):
            context.free(held[i])
        whole = context.alloc(32 * MB)
        self.assertEqual(self.state.count("alloc"), 1)
        context.free(whole)

    def test_best_fit(self):
        # There are holes of 8, 3 and 5 MB. The request for 3 MB gets the hole of 3 MB, the one for 4 MB gets the hole
        # of 5 MB.
        context = self.open(preallocate=64.0)
        sizes = [8, 2, 3, 2, 5, 2]
        held = [context.alloc(size * MB) for size in sizes]
        places = [native.memory_of(data) for data in held]
        for i in (0, 2, 4):
            context.free(held[i])
        self.assertEqual(self.state.count("alloc"), 1)
        self.assertEqual(native.memory_of(three := context.alloc(3 * MB)), places[2])
        self.assertEqual(native.memory_of(four := context.alloc(4 * MB)), places[4])
        self.assertEqual(native.memory_of(six := context.alloc(6 * MB)), places[0])
        for data in (three, four, six, held[1], held[3], held[5]):
            context.free(data)

    def test_small_blocks_do_not_cut_up_large_memory(self):
        # One of every hundred small blocks stays allocated. The memory outside the chunks of these blocks is
        # contiguous, so it can hold a large block.
        context = self.open(preallocate=100.0, capacity=100 * MB)
        small = [context.alloc(10 * KB) for _ in range(1000)]
        kept = small[::100]
        for i, data in enumerate(small):
            if i % 100:
                context.free(data)
        large = context.alloc(80 * MB)
        self.assertEqual(self.state.count("alloc"), 1)
        context.free(large)
        for data in kept:
            context.free(data)

    def test_nothing_is_kept(self):
        # If `preallocate` is negative, the pool keeps no memory and does not round sizes up, so that tools can detect
        # accesses behind the end of a block.
        context = self.open(preallocate=-1.0)
        for size in (0, 10, 5 * MB):
            data = context.alloc(size)
            self.assertEqual(self.state.held, max(size, 1))
            context.free(data)
            self.assertEqual(self.state.held, 0)
        self.assertEqual(self.state.count("alloc"), 3)

    def test_preallocation(self):
        # `preallocate` up to 1 is a fraction of the device's memory, limited to 0.95. Above 1, it is in megabytes.
        for preallocate, reserved in (
            (0.5, 50 * MB),
            (1.0, 95 * MB),
            (0.99, 95 * MB),
            (7.0, 7 * MB),
            (1.5, 3 * MB // 2),
        ):
            with self.subTest(preallocate):
                context = self.open(preallocate, capacity=100 * MB)
                self.assertEqual(context.counts().reserved, reserved)
                self.assertEqual(self.state.count("alloc"), 1)
                context.free(context.alloc(1 * MB))
                self.assertEqual(self.state.count("alloc"), 1)

    def test_preallocation_that_does_not_fit(self):
        self.library.stub_reset(2)
        self.library.stub_of(2).contents.capacity = 10 * MB
        with self.assertRaises(native.DeviceError) as caught:
            native.Context(self.library, "stub2", preallocate=20.0)
        self.assertEqual(caught.exception.code, native.GA_MEMORY_ERROR)
        self.assertIn("Error allocating 20971520 bytes of device memory (out of memory)", str(caught.exception))
        self.assertEqual(self.library.stub_of(2).contents.count("close"), 1)

    def test_more_than_was_preallocated(self):
        context = self.open(preallocate=4.0)
        held = [context.alloc(3 * MB), context.alloc(3 * MB)]
        self.assertEqual(self.state.count("alloc"), 2)
        for data in held:
            context.free(data)

    def test_the_last_bytes_of_a_device(self):
        # If the device cannot provide a whole segment, the pool requests only the needed size.
        context = self.open(capacity=5 * MB)
        held = [context.alloc(3 * MB), context.alloc(1 * MB), context.alloc(300 * KB), context.alloc(500 * KB)]
        for data in held:
            context.free(data)

    def test_memory_of_other_sizes_is_given_back(self):
        # The pool keeps 40 free MB of the device's 80 MB. A request for 60 MB makes it release them.
        context = self.open(capacity=80 * MB)
        context.free(context.alloc(40 * MB))
        self.assertEqual(self.state.held, 40 * MB)
        data = context.alloc(60 * MB)
        self.assertEqual(self.state.held, 60 * MB)
        context.free(data)

    def test_out_of_memory(self):
        context = self.open(capacity=100 * MB)
        kept = context.alloc(70 * MB)
        with self.assertRaises(native.DeviceError) as caught:
            context.alloc(40 * MB + 1)
        self.assertEqual(caught.exception.code, native.GA_MEMORY_ERROR)
        self.assertEqual(
            str(caught.exception),
            "Error allocating 41943041 bytes of device memory (out of memory). Driver report 31457280 bytes free and 104857600 total."
            " stub1 holds 73400320 bytes in 1 arrays (at most 73400320 bytes until now), and keeps 0 bytes for more in 0 pieces,"
            " the largest of 0 bytes.",
        )
        context.free(kept)
        context.free(context.alloc(100 * MB))  # the pool is still usable

    def test_sizes_that_cannot_be(self):
        context = self.open()
        for size in (2**64 - 1, 2**64 - 300, 2**63, 2**50):
            with self.assertRaises(native.DeviceError) as caught:
                context.alloc(size)
            self.assertIn("Error allocating %d bytes" % size, str(caught.exception))

    def test_a_device_that_fails_otherwise(self):
        context = self.open()
        self.state.failing_call, self.state.fails_in = native.STUB_CALLS.index("alloc"), 1
        with self.assertRaisesRegex(native.DeviceError, "alloc failed, as it was told to") as caught:
            context.alloc(10)
        self.assertEqual(caught.exception.code, native.GA_IMPL_ERROR)
        self.state.failing_call, self.state.fails_in = native.STUB_CALLS.index("block"), 2
        one = context.alloc(10)
        with self.assertRaisesRegex(native.DeviceError, "block failed"):
            context.alloc(10)
        context.free(one)
        context.free(context.alloc(10))

    def test_contexts_do_not_leak(self):
        state = self.library.stub_of(3).contents  # other tests of this process may use the device, too

        def used():
            return np.array([state.held, state.allocated, state.count("open"), state.count("close")])

        before = used()
        for i in range(200):
            context = native.Context(self.library, "stub3", preallocate=0.5 if i % 2 else 0.0)
            context.free(context.alloc(1000 * (i + 1)))
            context.close()
        self.assertEqual((used() - before).tolist(), [0, 0, 200, 200])

    def test_places_depend_on_nothing_but_what_was_asked_for(self):
        # Two runs of the same requests get the same offsets in their segments.
        def run():
            draw = random.Random(3)
            context = self.open(preallocate=50.0)
            first = context.alloc(1)
            base, held, places = native.memory_of(first), [first], []
            for _ in range(300):
                if draw.random() < 0.4:
                    context.free(held.pop(draw.randrange(len(held)))) if held else None
                else:
                    held.append(context.alloc(draw.randrange(1, 400 * KB)))
                    places.append(native.memory_of(held[-1]) - base)
            for data in held:
                context.free(data)
            return places

        self.assertEqual(run(), run())


if __name__ == "__main__":
    unittest.main()
