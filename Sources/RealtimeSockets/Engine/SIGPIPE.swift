#if canImport(Darwin)
internal import Darwin
#elseif canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#endif

/// For good, on a thread of our own.
func blockBrokenPipeSignal() {
    #if !canImport(Darwin)
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    #endif
}

/// For a TLS library that writes to the descriptor itself, without MSG_NOSIGNAL, on a thread that is not ours.
func withoutBrokenPipeSignal(_ body: () -> TLSOutcome) -> TLSOutcome {
    #if canImport(Darwin)
    // SO_NOSIGPIPE is set on the descriptor.
    return body()
    #else
    if EventLoop.current != nil { return body() }
    var signals = sigset_t()
    var before = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, &before)
    let outcome = body()
    if sigismember(&before, SIGPIPE) == 0 {
        // The signal of a broken pipe goes to the thread that wrote: if there is one, it is pending here and nowhere else.
        var none = timespec(tv_sec: 0, tv_nsec: 0)
        if !outcome.isDone { sigtimedwait(&signals, nil, &none) }
        pthread_sigmask(SIG_SETMASK, &before, nil)
    }
    return outcome
    #endif
}

extension TLSOutcome {
    fileprivate var isDone: Bool { if case .done = self { true } else { false } }
}
