// Counts what a program allocates: its own functions replace those of the C library, which they call.

#include "allocations.h"
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

static unsigned long count;

unsigned long allocation_count(void) { return __atomic_load_n(&count, __ATOMIC_RELAXED); }

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define IS_SANITIZED
#endif
#endif

// Sanitizers replace the same functions.
#if defined(__GLIBC__) && !defined(IS_SANITIZED)

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t number, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static void add(void) { __atomic_fetch_add(&count, 1, __ATOMIC_RELAXED); }

void *malloc(size_t size) {
    add();
    return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
    add();
    return __libc_calloc(number, size);
}

void *realloc(void *block, size_t size) {
    add();
    return __libc_realloc(block, size);
}

void *memalign(size_t alignment, size_t size) {
    add();
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **block, size_t alignment, size_t size) {
    if (alignment < sizeof(void *) || (alignment & (alignment - 1)) != 0) return EINVAL;
    void *allocated = memalign(alignment, size);
    if (allocated == NULL && size != 0) return ENOMEM;
    *block = allocated;
    return 0;
}

#endif
