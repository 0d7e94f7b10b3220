import CommandLineSupport
import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// Measures receiving events over HTTP: from a stream and by polling, beside the same events over a WebSocket. All of them end at an object
/// that counts the messages.
struct HTTPReceiveBench {
    static let socket = "receive, WebSocket"
    static let stream = "receive, stream over HTTP"
    static let socketAsked = "receive 10 at a time, WebSocket"
    static let polling = "receive 10 at a time, polling"

    let fixture: BenchFixture
    let messages: Int
    let polls: Int

    init(_ fixture: BenchFixture) {
        self.fixture = fixture
        self.messages = fixture.messages ?? 200_000
        self.polls = max(1, min((fixture.messages ?? 50_000) / LoadHTTP.messagesPerPoll, 10_000))
    }

    func callAsFunction() async throws(ToolFailure) {
        let candidates = [
            Candidate(name: Self.socket) { () throws(ToolFailure) in
                try await self.run(self.messages, .events(channels: 1)) { self.webSocket($0) }
            },
            Candidate(name: Self.stream) { () throws(ToolFailure) in
                try await self.run(self.messages, .stream) { self.overHTTP(ReceivingRules(self.endpoint(LoadHTTP.stream)), $0) }
            },
            Candidate(name: Self.socketAsked) { () throws(ToolFailure) in
                try await self.run(self.polls * LoadHTTP.messagesPerPoll, nil, asks: true) { self.webSocket($0) }
            },
            Candidate(name: Self.polling) { () throws(ToolFailure) in
                try await self.run(self.polls * LoadHTTP.messagesPerPoll, nil) {
                    self.overHTTP(ReceivingRules(self.endpoint(LoadHTTP.poll)), $0)
                }
            },
        ]
        let rounds = try await Rounds.run(candidates, rounds: 9)
        self.fixture.print(rounds, Self.stream, "ns CPU", beside: [(Self.socket, 1.25)])
        self.fixture.print(rounds, Self.polling, "ns CPU", beside: [(Self.socketAsked, 1.5), (Self.socket, nil)])
    }

    private func endpoint(_ target: String) -> Endpoint {
        Endpoint(scheme: "http", host: "127.0.0.1", port: self.fixture.port, target: target)
    }

    private func webSocket(_ events: any MessageEvents) -> any MessageConnection {
        SocketWebSocketTransport().makeConnection(
            WebSocketRequest(self.endpoint(BareEvents.target).webSocket), id: ConnectionID(rawValue: 1), events: events)
    }

    private func overHTTP(_ rules: ReceivingRules, _ events: any MessageEvents) -> any MessageConnection {
        let transports = Transports(webSocket: SocketWebSocketTransport(), http: SocketHTTPTransport(), time: EventLoop.shared)
        return HTTPMessageConnection(
            rules, in: .init(transports, cookies: RedirectingHTTP.Cookies()), id: ConnectionID(rawValue: 1), events: events)
    }

    /// Receives messages, and returns the processor time per message in nanoseconds.
    ///
    /// - Parameters:
    ///   - messages: The number of messages.
    ///   - content: What the load generator sends in a burst; `nil` if it sends ``LoadHTTP/messagesPerPoll`` messages each time it is asked.
    ///   - asks: Whether to ask for them. Polling asks by itself.
    ///   - connect: Creates the connection.
    private func run(
        _ messages: Int, _ content: LoadContent?, asks: Bool = false,
        _ connect: (any MessageEvents) -> any MessageConnection
    ) async throws(ToolFailure) -> Double {
        let counter = MessageCounter(expectedCount: messages, asks: asks)
        let connection = connect(counter)
        counter.connection.withLock { $0 = connection }
        connection.open()
        await counter.opened.value()
        let start = processTime()
        if let content { self.fixture.burst(messages, content) }
        if asks { counter.ask() }
        let end = await counter.finished.value()
        connection.abandon()
        counter.connection.withLock { $0 = nil }
        guard !end.isNaN else { throw .connectionLost }
        return (end - start) / Double(messages)
    }
}

/// Counts the messages of a connection.
private final class MessageCounter: MessageEvents {
    let connection = Lock<(any MessageConnection)?>(nil)
    let opened = Waiter<Void>()
    /// Receives the process's time when the last message was counted, or NaN when the connection is lost.
    let finished = Waiter<Double>()
    private let expectedCount: Int
    private let asks: Bool
    private let count = Lock(0)

    init(expectedCount: Int, asks: Bool) {
        (self.expectedCount, self.asks) = (expectedCount, asks)
    }

    func opened(_ id: ConnectionID, head: HTTPResponseHead) {
        // A WebSocket is ready when the greeting has arrived.
        if head.status == 200 { self.opened.fulfill(())?.resume() }
    }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        // The first message of a WebSocket is the greeting.
        if batch.entries.count == 1, let range = batch.entries.first?.range, range.count != LoadMessage.size {
            return self.opened.fulfill(())?.resume() ?? ()
        }
        let received = batch.entries.count
        let (before, after) = self.count.withLock { count in
            defer { count += received }
            return (count, count + received)
        }
        if before < self.expectedCount, after >= self.expectedCount { self.finished.fulfill(processTime())?.resume() }
        if self.asks, after < self.expectedCount, after / LoadHTTP.messagesPerPoll > before / LoadHTTP.messagesPerPoll { self.ask() }
    }

    /// Asks for messages over a WebSocket.
    func ask() {
        guard let connection = self.connection.withLock({ $0 }) else { return }
        connection.enqueue(.text(#"{"event":"\#(LoadMessage.some)","channel":"\#(LoadMessage.privateChannel)","data":"{}"}"#))
        connection.flush()
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) {
        self.opened.fulfill(())?.resume()
        self.finished.fulfill(.nan)?.resume()
    }
}

/// The rules of a stream of Server-Sent Events, and of polling with a message on each line.
private struct ReceivingRules: HTTPMessageConnectionRules {
    private static let lineFeed = UInt8(ascii: "\n")

    let bodyLimit: Int? = nil
    private let endpoint: Endpoint
    let isStream: Bool
    private var events = ServerSentEventDecoder(limit: 1 << 20)
    /// The beginning of a line of a poll.
    private var rest: [UInt8] = []

    init(_ endpoint: Endpoint) {
        (self.endpoint, self.isStream) = (endpoint, endpoint.target == LoadHTTP.stream)
    }

    func receivingRequest() -> HTTPRequest { HTTPRequest(self.isStream ? "GET" : "POST", self.endpoint) }

    func received(_ head: HTTPResponseHead) -> HTTPVerdict { head.status == 200 ? .proceed : .reject }

    mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        if self.isStream { return try self.events.decode(bytes, into: &batch) }
        var start = 0
        while let end = Self.endOfLine(bytes, start) {
            let line = UnsafeRawBufferPointer(rebasing: bytes[start..<end])
            if self.rest.isEmpty {
                Self.append(line, &batch)
            } else {
                self.rest += line
                self.rest.withUnsafeBytes { Self.append($0, &batch) }
                self.rest.removeAll(keepingCapacity: true)
            }
            start = end + 1
        }
        self.rest += bytes[start...]
    }

    private static func append(_ message: UnsafeRawBufferPointer, _ batch: inout MessageBatch) {
        if UTF8Validator.isValid(message) { batch.append(.text, message) }
    }

    private static func endOfLine(_ bytes: UnsafeRawBufferPointer, _ start: Int) -> Int? {
        guard start < bytes.count, let first = bytes.baseAddress,
            let end = memchr(first + start, Int32(Self.lineFeed), bytes.count - start)
        else { return nil }
        return UnsafeRawPointer(end) - first
    }

    func bodyEnded(into batch: inout MessageBatch) -> HTTPVerdict {
        self.isStream ? .end(.transport(TransportError(.closed, "The stream has ended."))) : .proceed
    }

    func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        (HTTPRequest("POST", self.endpoint), messages.count)
    }

    func sent(_ response: HTTPResponse) -> HTTPVerdict { .proceed }

    func closing(_ code: CloseCode, reason: String) -> HTTPClosing { .cancel }
}
