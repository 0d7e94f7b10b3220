import RealtimeCore

/// A connection over HTTP requests: one that waits for lines, and one at a time that sends them.
struct RelayPollingRules: HTTPMessageConnectionRules {
    private let endpoint: Endpoint
    private let token: String
    private var body: [UInt8] = []
    var isStream: Bool { false }
    var bodyLimit: Int? { 1 << 20 }

    init(_ endpoint: Endpoint, _ token: String) {
        (self.endpoint, self.token) = (endpoint, token)
    }

    mutating func receivingRequest() -> HTTPRequest {
        self.body = []
        return self.post("poll")
    }

    func received(_ head: HTTPResponseHead) -> HTTPVerdict { head.status == 200 ? .proceed : .reject }

    mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) { self.body += bytes }

    func bodyEnded(into batch: inout MessageBatch) -> HTTPVerdict {
        let lines = String(decoding: self.body, as: UTF8.self).split(separator: "\n")
        for line in lines where line != "close" { batch.append(.text, line.utf8) }
        return lines.contains("close") ? .end(.peer(.normal, "")) : .proceed
    }

    func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        (self.post("send", Array(messages.map(\.bytes).joined(separator: "\n".utf8))), messages.count)
    }

    func sent(_ response: HTTPResponse) -> HTTPVerdict { .proceed }

    func closing(_ code: CloseCode, reason: String) -> HTTPClosing { .request(self.post("send", Array("close".utf8))) }

    private func post(_ action: String, _ body: [UInt8] = []) -> HTTPRequest {
        HTTPRequest("POST", RelayClient.url(self.endpoint, action, self.token), body: body)
    }
}
