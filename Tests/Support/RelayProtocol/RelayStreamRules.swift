import RealtimeCore

/// A connection over HTTP requests: one whose response has a line for each message, and one at a time that sends lines.
struct RelayStreamRules: HTTPMessageConnectionRules {
    private let endpoint: Endpoint
    private let token: String
    /// The beginning of a line.
    private var rest: [UInt8] = []
    private var isClosed = false
    var isStream: Bool { true }
    var bodyLimit: Int? { nil }

    init(_ endpoint: Endpoint, _ token: String) {
        (self.endpoint, self.token) = (endpoint, token)
    }

    func receivingRequest() -> HTTPRequest { HTTPRequest("GET", RelayClient.url(self.endpoint, "stream", self.token)) }

    func received(_ head: HTTPResponseHead) -> HTTPVerdict { head.status == 200 ? .proceed : .reject }

    mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        for byte in bytes {
            guard byte == UInt8(ascii: "\n") else {
                guard self.rest.count < 1 << 20 else {
                    throw TransportError(.tooLarge, "\(self.endpoint) sent a line of more than 1 MiB.")
                }
                self.rest.append(byte)
                continue
            }
            if self.rest == Array("close".utf8) { self.isClosed = true } else { batch.append(.text, self.rest) }
            self.rest = []
        }
    }

    func bodyEnded(into batch: inout MessageBatch) -> HTTPVerdict { .end(.peer(self.isClosed ? .normal : .noStatus, "")) }

    func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        (self.post(Array(messages.map(\.bytes).joined(separator: "\n".utf8))), messages.count)
    }

    func sent(_ response: HTTPResponse) -> HTTPVerdict { .proceed }

    func closing(_ code: CloseCode, reason: String) -> HTTPClosing { .request(self.post(Array("close".utf8))) }

    private func post(_ body: [UInt8]) -> HTTPRequest {
        HTTPRequest("POST", RelayClient.url(self.endpoint, "send", self.token), body: body)
    }
}
