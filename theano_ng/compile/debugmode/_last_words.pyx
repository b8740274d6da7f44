# cython: language_level=3, binding=False
"""A message of a process that a signal kills: it names the code that ran.

C code that accesses invalid memory kills the process, so that Python cannot report anything. While `watch` is active, the
handler of such a signal writes the text that `note` was given to the standard error stream. Then the earlier handler runs,
for example that of `faulthandler`, and the process ends as before.
"""

cdef extern from *:
    """
    #include <string.h>
    #ifndef _WIN32
    #include <signal.h>
    #include <unistd.h>

    #define TNG_LONGEST_WORDS 1000
    static const int tng_signals[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    enum { TNG_SIGNALS = sizeof tng_signals / sizeof *tng_signals };
    static struct sigaction tng_previous[TNG_SIGNALS];
    static char tng_words[TNG_LONGEST_WORDS];
    static volatile sig_atomic_t tng_length, tng_watching;

    static void tng_die(int signal)
    {
        if (tng_length > 0 && write(2, tng_words, (size_t)tng_length) < 0) {}
        for (int i = 0; i < TNG_SIGNALS; ++i)
            if (tng_signals[i] == signal)
                sigaction(signal, &tng_previous[i], NULL);
        raise(signal);
    }

    static void tng_watch(void)
    {
        struct sigaction action;
        if (tng_watching++)
            return;
        memset(&action, 0, sizeof action);
        action.sa_handler = tng_die;
        action.sa_flags = SA_NODEFER | SA_ONSTACK;
        for (int i = 0; i < TNG_SIGNALS; ++i)
            sigaction(tng_signals[i], &action, &tng_previous[i]);
    }

    static void tng_unwatch(void)
    {
        if (--tng_watching)
            return;
        for (int i = 0; i < TNG_SIGNALS; ++i)
            sigaction(tng_signals[i], &tng_previous[i], NULL);
        tng_length = 0;
    }

    static void tng_note(const char *text, Py_ssize_t length)
    {
        tng_length = 0; /* a signal that comes now prints nothing */
        if (length > TNG_LONGEST_WORDS)
            length = TNG_LONGEST_WORDS;
        memcpy(tng_words, text, (size_t)length);
        tng_length = (sig_atomic_t)length;
    }
    #else
    static void tng_watch(void) {}
    static void tng_unwatch(void) {}
    static void tng_note(const char *text, Py_ssize_t length) {}
    #endif
    """
    void tng_watch()
    void tng_unwatch()
    void tng_note(const char *text, Py_ssize_t length)


def watch():
    """Begin to watch the signals that kill a process. Calls may be nested."""
    tng_watch()


def unwatch():
    """End what the matching call of `watch` began."""
    tng_unwatch()


def note(bytes text not None):
    """Set the text to write if the process is killed. At most 1,000 bytes are kept."""
    tng_note(text, len(text))
