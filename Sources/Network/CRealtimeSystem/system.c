#if defined(__linux__)
#define _GNU_SOURCE
#endif

#include "CRealtimeSystem.h"

#if defined(__linux__)
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

int realtime_epoll_create(void) {
    return epoll_create1(EPOLL_CLOEXEC);
}

static int add_edge_triggered(int epoll, int descriptor, uint64_t token) {
    if (descriptor < 0) return -1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = token};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, descriptor, &event) == 0) return descriptor;
    int number = errno;
    close(descriptor);
    errno = number;
    return -1;
}

int realtime_eventfd_create(int epoll, uint64_t token) {
    return add_edge_triggered(epoll, eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), token);
}

int realtime_timerfd_create(int epoll, uint64_t token) {
    return add_edge_triggered(epoll, timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK), token);
}

void realtime_timerfd_set(int timerfd, int64_t nanoseconds) {
    // Zero would disarm the timer.
    if (nanoseconds < 1) nanoseconds = 1;
    struct itimerspec time = {.it_value = {.tv_sec = nanoseconds / 1000000000, .tv_nsec = nanoseconds % 1000000000}};
    timerfd_settime(timerfd, 0, &time, NULL);
}

void realtime_eventfd_signal(int eventfd) {
    uint64_t one = 1;
    ssize_t written = write(eventfd, &one, sizeof one);
    (void)written;
}

int realtime_epoll_change(int epoll, int descriptor, uint64_t token, uint32_t before, uint32_t after) {
    struct epoll_event event = {.events = 0, .data.u64 = token};
    if (after & realtime_readable) event.events |= EPOLLIN;
    if (after & realtime_writable) event.events |= EPOLLOUT;
    return epoll_ctl(epoll, !before ? EPOLL_CTL_ADD : !after ? EPOLL_CTL_DEL : EPOLL_CTL_MOD, descriptor, &event);
}

int realtime_epoll_wait(int epoll, struct realtime_event *events, int milliseconds) {
    struct epoll_event found[realtime_events_per_wait];
    int count = epoll_wait(epoll, found, realtime_events_per_wait, milliseconds);
    for (int index = 0; index < count; index += 1) {
        uint32_t flags = found[index].events;
        events[index].token = found[index].data.u64;
        events[index].readiness = 0;
        if (flags & EPOLLIN) events[index].readiness |= realtime_readable;
        if (flags & EPOLLOUT) events[index].readiness |= realtime_writable;
        if (flags & (EPOLLERR | EPOLLHUP)) events[index].readiness = realtime_readable | realtime_writable;
    }
    return count;
}

int realtime_accept(int listener) {
    return accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

void realtime_name_thread(const char *name) {
    char truncated[16];
    strncpy(truncated, name, sizeof truncated - 1);
    truncated[sizeof truncated - 1] = 0;
    pthread_setname_np(pthread_self(), truncated);
}

#endif

static _Thread_local const void *loop_of_thread;

const void *realtime_loop_of_thread(void) {
    return loop_of_thread;
}

void realtime_set_loop_of_thread(const void *loop) {
    loop_of_thread = loop;
}

#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
#include <malloc.h>

size_t realtime_allocated_bytes(void) {
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}
#else
size_t realtime_allocated_bytes(void) {
    return 0;
}
#endif
