#ifndef CREALTIMESYSTEM_H
#define CREALTIMESYSTEM_H

// This header includes no system header except for the fixed-size integers. Types of other headers, such as timespec, would become
// part of this module, and Swift code that uses them would have to import it.
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

/// Creates an epoll descriptor. Returns -1 and sets errno on failure.
int realtime_epoll_create(void);

/// Creates an eventfd and adds it to `epoll` with this token. Returns -1 and sets errno on failure.
///
/// It is edge triggered: every signal is one event, and the counter never has to be read.
int realtime_eventfd_create(int epoll, uint64_t token);

/// Signals an eventfd.
void realtime_eventfd_signal(int eventfd);

/// Creates a timerfd and adds it to `epoll` with this token, edge triggered. Returns -1 and sets errno on failure.
int realtime_timerfd_create(int epoll, uint64_t token);

/// Makes a timerfd expire once, this many nanoseconds from now. Replaces an earlier time.
void realtime_timerfd_set(int timerfd, int64_t nanoseconds);

/// Changes the readiness that `epoll` reports for a descriptor, level triggered. An empty readiness removes the descriptor.
/// Returns 0, or -1 and sets errno on failure.
int realtime_epoll_change(int epoll, int descriptor, uint64_t token, uint32_t before, uint32_t after);

/// Waits for events and returns their number, at most `realtime_events_per_wait`. An error or a hang-up is reported as readable and
/// writable.
int realtime_epoll_wait(int epoll, struct realtime_event *events, int milliseconds);

/// Accepts a connection as a non-blocking socket that child processes do not inherit. Returns -1 and sets errno on failure.
int realtime_accept(int listener);

/// Sets the name of the calling thread, truncated to 15 bytes.
void realtime_name_thread(const char *name);
#endif

/// The event loop that runs on the calling thread, or NULL.
const void *realtime_loop_of_thread(void);

/// Sets the event loop that runs on the calling thread.
void realtime_set_loop_of_thread(const void *loop);

/// The number of bytes that malloc has handed out, or 0 if the C library does not count them.
size_t realtime_allocated_bytes(void);

/// Fills the buffer with cryptographically secure random bytes. Aborts the process if the system has no source of them.
void realtime_random_bytes(void *buffer, size_t count);

/// Returns 4 of those bytes.
///
/// Every thread keeps a kibibyte of them: that takes no lock, and a system call for each word would cost fifty times as much.
uint32_t realtime_random_word(void);

#endif
