#ifndef CREALTIMESYSTEM_H
#define CREALTIMESYSTEM_H

#include <stddef.h>

// Fills the buffer with bytes that nobody can guess. 0 when it did, -1 when the system has none to give.
int realtime_random_bytes(void *buffer, size_t count);

#endif
