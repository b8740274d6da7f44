/* In NumPy 1, Ctrl-C jumped out of the code between these two macros. NumPy 2 removed them. Here, the code runs to its
 * end, and Python then handles the signal. */
#ifndef THEANO_NG_NPY_INTERRUPT_H
#define THEANO_NG_NPY_INTERRUPT_H

#define NPY_SIGINT_ON {
#define NPY_SIGINT_OFF }

#endif
