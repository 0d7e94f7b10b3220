#include "CRealtimeSystem.h"

#if defined(__linux__)
#include <errno.h>
#include <sys/random.h>

int realtime_random_bytes(void *buffer, size_t count) {
    unsigned char *next = buffer;
    while (count > 0) {
        ssize_t filled = getrandom(next, count, 0);
        if (filled < 0) {
            if (errno == EINTR) continue;
            return -1;
        }
        next += filled;
        count -= (size_t)filled;
    }
    return 0;
}
#else
#include <stdlib.h>

int realtime_random_bytes(void *buffer, size_t count) {
    arc4random_buf(buffer, count);
    return 0;
}
#endif
