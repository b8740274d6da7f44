/* Selects the oldest version of functions that have several versions in glibc. The binaries that are built here then
 * also load with glibc 2.28. glibc has newer versions of exp, log, pow etc. since 2.29 (same results, but no matherr),
 * of dlopen, pthread_once etc. since 2.34 (moved to libc), of hypot since 2.35, and of fmod since 2.38. If the C
 * library is glibc, setup.py includes this file before all other headers. Symbols that a file does not use are not
 * affected. */
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
OLD_SYMBOL(pthread_create);
OLD_SYMBOL(pthread_once);
OLD_SYMBOL(pthread_key_create);
OLD_SYMBOL(pthread_setspecific);
#endif

#endif
