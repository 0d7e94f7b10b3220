import RealtimeCore
import RealtimeCoding
import RealtimeSystem
import RealtimeTesting
import SignalRWire
import TestSupport

/// A request of a test. Releasing it cancels it.
final class RawRequest: Sendable {
    let recorded: RecordedExchange
    private let exchange: any HTTPExchange

    init(
        _ http: any HTTPTransport, _ address: ListenerAddress, _ method: String, _ target: String, headers: HTTPHeaders = [:],
        body: [UInt8] = [], react: @escaping @Sendable (RecordedExchange.Event) -> Void = { _ in }
    ) {
        self.recorded = RecordedExchange(react: react)
        let endpoint = Endpoint(scheme: "http", host: address.host, port: address.port, target: target)
        let request = HTTPRequest(method, endpoint, headers: headers, body: body, idleTimeout: .seconds(3_600))
        self.exchange = http.exchange(request, id: ExchangeID(rawValue: 1), events: self.recorded)
        self.exchange.start()
    }

    deinit { self.exchange.cancel() }

    func cancel() { self.exchange.cancel() }
    func pauseReading() { self.exchange.pauseReading() }
    func resumeReading() { self.exchange.resumeReading() }

    /// The status, if the head has arrived.
    var status: Int? { self.recorded.head?.status }
    var body: String { self.recorded.body }

    /// Waits for the end, and returns the status.
    func end(fileID: String = #fileID, line: Int = #line) async throws -> Int? {
        try await eventually("the request ends", fileID: fileID, line: line) { self.recorded.hasEnded }
        return self.status
    }
}

/// A client of a connection over Server-Sent Events or long polling, which sends the messages of a test, valid or not. It polls until a poll
/// has another status than 200. Releasing it ends its requests.
final class RawHTTPHubClient: Sendable {
    private struct Waiting: Sendable {
        var request: RawRequest?
        var number = 0
    }

    let target: String
    let transport: HubTransport
    private let http: any HTTPTransport
    private let address: ListenerAddress
    /// The header fields of all requests.
    let headers: Lock<HTTPHeaders>
    private let inbox = HubInbox()
    private let waiting = Lock(Waiting())
    /// The requests of messages, which would be cancelled otherwise.
    private let sent = Lock<[RawRequest]>([])
    private let decoder = Lock(ServerSentEventDecoder(limit: 1 << 24))
    /// Why no further request waits: the status of the last one, or 0 if it failed.
    let endings = EventRecorder<Int>()
    /// The statuses of the polls.
    let polls = EventRecorder<Int>()

    init(
        _ http: any HTTPTransport, _ address: ListenerAddress, _ target: String, _ transport: HubTransport, headers: HTTPHeaders = [:]
    ) {
        (self.http, self.address, self.target, self.transport) = (http, address, target, transport)
        self.headers = Lock(headers)
        self.wait()
    }

    /// Sends a request, with the address and the header fields of the connection.
    func request(_ method: String, body: String = "", headers: HTTPHeaders = [:]) -> RawRequest {
        self.request(method, body: Array(body.utf8), headers: headers)
    }

    func request(
        _ method: String, body: [UInt8], headers: HTTPHeaders = [:],
        react: @escaping @Sendable (RecordedExchange.Event) -> Void = { _ in }
    ) -> RawRequest {
        var fields = self.headers.withLock { $0 }
        for field in headers { fields[field.name] = field.value }
        return RawRequest(self.http, self.address, method, self.target, headers: fields, body: body, react: react)
    }

    // MARK: Receiving

    /// Sends the request that waits for messages.
    func wait() {
        let number = self.waiting.withLock { waiting in
            waiting.number += 1
            return waiting.number
        }
        let request = self.request("GET", body: [], headers: self.transport == .serverSentEvents ? ["Accept": "text/event-stream"] : [:]) {
            [weak self] event in self?.received(event, of: number)
        }
        let replaced = self.waiting.withLock { waiting -> RawRequest? in
            guard waiting.number == number else { return request }
            defer { waiting.request = request }
            return waiting.request
        }
        _ = replaced
    }

    /// Gives up the request that waits for messages.
    func stopWaiting() {
        let request = self.waiting.withLock { waiting in
            waiting.number += 1
            return waiting.request.take()
        }
        request?.cancel()
    }

    func pauseReading() { self.request?.pauseReading() }
    func resumeReading() { self.request?.resumeReading() }

    private var request: RawRequest? { self.waiting.withLock { $0.request } }

    private func received(_ event: RecordedExchange.Event, of number: Int) {
        guard self.waiting.withLock({ $0.number == number }) else { return }
        switch event {
        case .head(let status): self.polls.record(status)
        case .body(let text):
            guard self.polls.all.last == 200 else { return }
            guard self.transport == .serverSentEvents else { return self.inbox.receiveJSON(Array(text.utf8)) }
            var batch = MessageBatch()
            self.decoder.withLock { decoder in
                Array(text.utf8).withUnsafeBytes { try? decoder.decode($0, into: &batch) }
            }
            for message in batch.messages { self.inbox.receive(message) }
        case .ended(nil) where self.transport == .longPolling && self.polls.all.last == 200: self.wait()
        case .ended(let error): self.endings.record(error == nil ? self.polls.all.last ?? 0 : 0)
        }
    }

    /// Takes the messages that have arrived.
    func take() -> [JSONValue] { self.inbox.take() }

    /// Waits for the next message.
    func next(fileID: String = #fileID, line: Int = #line) async throws -> JSONValue {
        try await self.inbox.next(fileID: fileID, line: line)
    }

    /// Waits until no further request waits, and returns the status of the last one.
    func ending(fileID: String = #fileID, line: Int = #line) async throws -> Int? {
        try await eventually("the connection ends", fileID: fileID, line: line) { !self.endings.all.isEmpty }
        return self.endings.all.first
    }

    // MARK: Sending

    /// Sends hub messages in one request.
    @discardableResult
    func send(_ texts: String...) -> RawRequest {
        let request = self.request("POST", body: texts.map { $0 + "\u{1E}" }.joined())
        self.sent.withLock { $0.append(request) }
        return request
    }

    /// Calls a method and waits for the completion. Other messages must not arrive before it.
    func invoke(_ method: String, _ arguments: String = "", id: String = "1") async throws -> JSONValue {
        self.send(#"{"type":1,"invocationId":"\#(id)","target":"\#(method)","arguments":[\#(arguments)]}"#)
        return try await self.next()
    }
}
