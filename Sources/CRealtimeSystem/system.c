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
#include <unistd.h>

int realtime_epoll_create(void) {
    return epoll_create1(EPOLL_CLOEXEC);
}

int realtime_bell_create(int epoll, uint64_t token) {
    int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (bell < 0) return -1;
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u64 = token};
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, bell, &event) == 0) return bell;
    int number = errno;
    close(bell);
    errno = number;
    return -1;
}

void realtime_bell_ring(int bell) {
    uint64_t one = 1;
    ssize_t written = write(bell, &one, sizeof one);
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
    char cut[16];
    strncpy(cut, name, sizeof cut - 1);
    cut[sizeof cut - 1] = 0;
    pthread_setname_np(pthread_self(), cut);
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
