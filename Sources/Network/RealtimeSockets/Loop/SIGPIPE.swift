import RealtimeSystem

/// For good, on a thread of our own.
func blockBrokenPipeSignal() {
    #if !canImport(Darwin)
    var signals = sigset_t()
    sigemptyset(&signals)
    sigaddset(&signals, SIGPIPE)
    pthread_sigmask(SIG_BLOCK, &signals, nil)
    #endif
}
