"""Indexing: reading parts of tensors, and incrementing or setting them.

==============  ======================================================================
`index_lists`   helpers of Ops and rewrites: index lists, their inputs, slices in canonical form
`subtensor`     the Theano 1.0 module: views by integers and slices, increments, functions for users
`advanced`      indexing by arrays and masks
`code`          hooks by which subclasses of `IncSubtensor` change parts of its C code
`inc_code`      C source that increments indexed arrays, for Ops of users
`selecting`     `nonzero`, `choose`, `default`
`positions`     `searchsorted`, conversions between flat and n-d indices
==============  ======================================================================
"""
