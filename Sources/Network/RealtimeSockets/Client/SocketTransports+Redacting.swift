import RealtimeCore

// Their state belongs to the threads of the event loops, so it isn't shown.

extension SocketWebSocketTransport: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}

extension SocketHTTPTransport: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [] }
}
