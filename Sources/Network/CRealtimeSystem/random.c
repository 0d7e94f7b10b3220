#include "CRealtimeSystem.h"

#include <stdlib.h>

#if defined(__linux__)
#include <errno.h>
#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

// For kernels without getrandom.
static int read_urandom(unsigned char *next, size_t count) {
    int descriptor = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) return -1;
    while (count > 0) {
        ssize_t filled = read(descriptor, next, count);
        if (filled < 0 && errno == EINTR) continue;
        if (filled <= 0) break;
        next += filled;
        count -= (size_t)filled;
    }
    close(descriptor);
    return count == 0 ? 0 : -1;
}

void realtime_random_bytes(void *buffer, size_t count) {
    unsigned char *next = buffer;
    while (count > 0) {
        ssize_t filled = getrandom(next, count, 0);
        if (filled > 0) {
            next += filled;
            count -= (size_t)filled;
        } else if (errno != EINTR) {
            if (read_urandom(next, count) != 0) abort();
            return;
        }
    }
}
#else
void realtime_random_bytes(void *buffer, size_t count) {
    arc4random_buf(buffer, count);
}
#endif

uint32_t realtime_random_word(void) {
    enum { capacity = 256 };
    static _Thread_local uint32_t words[capacity];
    static _Thread_local uint32_t remaining;
    if (remaining == 0) {
        realtime_random_bytes(words, sizeof words);
        remaining = capacity;
    }
    remaining -= 1;
    return words[remaining];
}
