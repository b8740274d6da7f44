/* NumPy 1 jumped out of the code between these two when Ctrl-C was pressed; NumPy 2 has dropped them. Here the code runs to its end, and
 * Python sees the signal then.
 */
#ifndef THEANO_NG_NPY_INTERRUPT_H
#define THEANO_NG_NPY_INTERRUPT_H

#define NPY_SIGINT_ON {
#define NPY_SIGINT_OFF }

#endif
