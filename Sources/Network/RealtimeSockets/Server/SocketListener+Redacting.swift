import RealtimeCore

// Its state belongs to the threads of the event loops, so it isn't shown.
extension SocketListener: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}
