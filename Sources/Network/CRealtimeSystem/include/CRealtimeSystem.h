#ifndef CREALTIMESYSTEM_H
#define CREALTIMESYSTEM_H

// No header of the system is included here: its types would count as this module's, and everybody who uses a
// timespec would have to import it.
#include <stddef.h>
#include <stdint.h>

#if defined(__linux__)
enum {
    realtime_readable = 1,
    realtime_writable = 2,
    realtime_events_per_wait = 256
};

struct realtime_event {
    uint64_t token;
    uint32_t readiness;
};

/// An epoll descriptor, or -1 with errno.
int realtime_epoll_create(void);

/// An eventfd that is in `epoll` under this token, or -1 with errno. It is edge triggered: each ring is one event, and
/// nobody has to read the counter.
int realtime_bell_create(int epoll, uint64_t token);
void realtime_bell_ring(int bell);

/// A timerfd that is in `epoll` under this token, or -1 with errno. It is edge triggered as the bell is, and counts from when it is
/// set, once.
int realtime_timer_create(int epoll, uint64_t token);
void realtime_timer_set(int timer, int64_t nanoseconds);

/// Changes what a descriptor is waited for, level triggered; nothing takes it out. Returns 0, or -1 with errno.
int realtime_epoll_change(int epoll, int descriptor, uint64_t token, uint32_t before, uint32_t after);

/// Waits for at most `realtime_events_per_wait` events. An error or a hang-up counts as readable and writable.
int realtime_epoll_wait(int epoll, struct realtime_event *events, int milliseconds);

/// accept4: never blocks, is not inherited; the peer's address is not asked for.
int realtime_accept(int listener);

/// Names the calling thread; what is over 15 bytes is cut off.
void realtime_name_thread(const char *name);
#endif

/// One pointer per thread: which event loop runs on it.
const void *realtime_loop_of_thread(void);
void realtime_set_loop_of_thread(const void *loop);

/// How many bytes of memory are handed out by malloc; 0 where nobody counts.
size_t realtime_allocated_bytes(void);

/// Fills the buffer with bytes that nobody can guess. 0 when it did, -1 when the system has none to give.
int realtime_random_bytes(void *buffer, size_t count);

#endif
