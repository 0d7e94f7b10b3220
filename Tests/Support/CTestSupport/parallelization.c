#include "CTestSupport.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/// Limits how many tests run at the same time, before the testing library reads the limit. Without one, it starts thousands of tests
/// together: each turn of a test then waits for a turn of all others, for longer than the time limits of connections.
__attribute__((constructor)) static void limit_parallelization(void) {
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    char width[24];
    snprintf(width, sizeof width, "%ld", processors > 2 ? 4 * processors : 8);
    setenv("SWT_EXPERIMENTAL_MAXIMUM_PARALLELIZATION_WIDTH", width, 0);
}
