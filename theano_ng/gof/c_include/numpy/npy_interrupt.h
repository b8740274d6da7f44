/* In NumPy 1, Ctrl-C jumped out of the code between NPY_SIGINT_ON and NPY_SIGINT_OFF. NumPy 2 has no such macros. The
 * macros of this file let the code run to its end. Python then handles the signal. */
#ifndef THEANO_NG_NPY_INTERRUPT_H
#define THEANO_NG_NPY_INTERRUPT_H

#define NPY_SIGINT_ON {
#define NPY_SIGINT_OFF }

#endif
