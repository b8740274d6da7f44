/* Asks for the first version of functions of which glibc has newer ones, so that what is built here also loads where only glibc 2.28 is:
 * exp, log, pow and their like (2.29: no other numbers, but no matherr either), dlopen and its like (2.34: in libc itself), hypot (2.35).
 * setup.py includes this before everything else, for glibc only. Symbols that a file does not use are not affected. */
#ifndef THEANO_NG_OLD_SYMBOLS_H
#define THEANO_NG_OLD_SYMBOLS_H

#if defined(__x86_64__) && !defined(__ILP32__)
#define OLD_SYMBOL(name) __asm__(".symver " #name ", " #name "@GLIBC_2.2.5")
#elif defined(__aarch64__)
#define OLD_SYMBOL(name) __asm__(".symver " #name ", " #name "@GLIBC_2.17")
#endif

#ifdef OLD_SYMBOL
OLD_SYMBOL(exp);
OLD_SYMBOL(log);
OLD_SYMBOL(pow);
OLD_SYMBOL(exp2);
OLD_SYMBOL(log2);
OLD_SYMBOL(hypot);
OLD_SYMBOL(hypotf);
OLD_SYMBOL(fmod);
OLD_SYMBOL(fmodf);
OLD_SYMBOL(dlopen);
OLD_SYMBOL(dlsym);
OLD_SYMBOL(dlclose);
OLD_SYMBOL(dlerror);
OLD_SYMBOL(dladdr);
#endif

#endif
