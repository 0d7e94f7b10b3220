import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// A handler made of closures that records its requests and connections.
final class TestHandler: AcceptingHandler {
    typealias Respond = @Sendable (HTTPRequestHead, [UInt8], any HTTPResponder) -> Void

    private let respond: Respond
    private let decide: @Sendable (HTTPRequestHead) -> UpgradeDecision
    private let onAccepted: @Sendable (any MessageConnection, ConnectionID) -> Void
    let events = SocketEvents()
    let abandonments = Log<String>()
    let requests = Lock<[(head: HTTPRequestHead, body: [UInt8])]>([])

    init(
        _ respond: @escaping Respond = { head, body, responder in
            responder.respond(HTTPResponse(status: 200, text: "\(head.method) \(head.target) \(String(decoding: body, as: UTF8.self))"))
        },
        decide: @escaping @Sendable (HTTPRequestHead) -> UpgradeDecision = { _ in .accept(subprotocol: nil) },
        onAccepted: @escaping @Sendable (any MessageConnection, ConnectionID) -> Void = { _, _ in }
    ) {
        self.decide = decide
        self.onAccepted = onAccepted
        self.respond = respond
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        self.requests.withLock { $0.append((request, body)) }
        self.respond(request, body, responder)
    }

    func decision(about request: HTTPRequestHead) -> UpgradeDecision { self.decide(request) }

    func accepted(_ connection: any MessageConnection, id: ConnectionID, request: HTTPRequestHead) -> any MessageEvents {
        self.events.connections.withLock { $0.append(connection) }
        self.onAccepted(connection, id)
        return self.events
    }

    /// The log has the targets of upgrades that were accepted in vain.
    func abandoned(_ request: HTTPRequestHead) { self.abandonments.add(request.target) }
}

/// Records the events of WebSockets, in order.
final class SocketEvents: MessageEvents {
    let connections = Lock<[any MessageConnection]>([])
    let log = Log<String>()

    func opened(_ id: ConnectionID, head: HTTPResponseHead) { self.log.add("opened") }

    func received(_ id: ConnectionID, _ batch: borrowing MessageBatch) {
        for message in batch.messages { self.log.add(String(decoding: message.bytes, as: UTF8.self)) }
    }

    func closed(_ id: ConnectionID, _ reason: CloseReason) { self.log.add("closed") }
}

/// A log of events that a test can wait for.
final class Log<Entry: Sendable>: Sendable {
    private struct State: Sendable {
        var entries: [Entry] = []
        var waiting: [(count: Int, wakeUp: WakeUp)] = []
        var isCancelled = false
    }

    private let state = Lock(State())

    var entries: [Entry] { self.state.withLock { $0.entries } }

    func add(_ entry: Entry) {
        let ready = self.state.withLock { state -> [WakeUp] in
            state.entries.append(entry)
            let ready = state.waiting.filter { $0.count <= state.entries.count }
            state.waiting.removeAll { $0.count <= state.entries.count }
            return ready.map(\.wakeUp)
        }
        for wakeUp in ready { wakeUp.resume() }
    }

    /// Waits until the log has `count` entries, or until the test's time limit.
    @discardableResult
    func wait(_ count: Int) async -> [Entry] {
        await withTaskCancellationHandler {
            await withUnsafeContinuation { (wakeUp: WakeUp) in
                let isThere = self.state.withLock { state -> Bool in
                    if state.entries.count >= count || state.isCancelled { return true }
                    state.waiting.append((count, wakeUp))
                    return false
                }
                if isThere { wakeUp.resume() }
            }
        } onCancel: {
            let waiting = self.state.withLock { state in
                state.isCancelled = true
                defer { state.waiting = [] }
                return state.waiting
            }
            for entry in waiting { entry.wakeUp.resume() }
        }
        return self.entries
    }
}

/// A client that sends raw bytes and does not interpret responses.
struct RawClient: Sendable {
    let stream: SocketStream
    let recorder: EventRecorder

    init(_ address: ListenerAddress, tls: TLSConfiguration? = nil) throws {
        self.recorder = EventRecorder()
        self.stream = SocketStream(events: self.recorder)
        var options = ConnectOptions(timeout: .seconds(600))
        if let tls {
            let context = try TLSContext.client(tls)
            options.security = { (descriptor) throws(TransportError) in
                try TLSSession(client: context, descriptor: descriptor, host: "localhost")
            }
        }
        self.stream.connect(to: address.host, port: address.port, options)
    }

    func send(_ text: String) { self.stream.send(text.utf8) }

    func request(_ target: String = "/", _ fields: String...) {
        self.send("GET \(target) HTTP/1.1\r\nHost: a\r\n\(fields.map { $0 + "\r\n" }.joined())\r\n")
    }

    /// Waits until the received text contains `part` or the server has closed the connection, and returns the text.
    @discardableResult
    func text(until part: String) async -> String {
        let part = Array(part.utf8)
        return String(decoding: await self.recorder.until { $0.ended > 0 || $0.bytes.contains(sequence: part) }.bytes, as: UTF8.self)
    }

    /// Waits until the server has closed the connection, closes this side too, and returns the received text.
    func textToEnd() async -> String {
        let seen = await self.recorder.until { $0.ended > 0 }
        self.close()
        return String(decoding: seen.bytes, as: UTF8.self)
    }

    func close() { self.stream.close() }
}

extension [UInt8] {
    func contains(sequence part: [UInt8]) -> Bool {
        guard let first = part.first, self.count >= part.count else { return part.isEmpty }
        return (0...(self.count - part.count)).contains { start in
            self[start] == first && self[start..<start + part.count].elementsEqual(part)
        }
    }
}

extension String {
    /// The status of the first response in the text.
    var status: Int? { self.split(separator: " ").dropFirst().first.flatMap { Int($0) } }

    /// The body of the only response in the text.
    var body: String { self.text(after: "\r\n\r\n") }

    private func text(after mark: String) -> String {
        let (bytes, mark) = (Array(self.utf8), Array(mark.utf8))
        guard bytes.count >= mark.count,
            let start = (0...(bytes.count - mark.count)).first(where: { bytes[$0..<$0 + mark.count].elementsEqual(mark) })
        else { return "" }
        return String(decoding: bytes[(start + mark.count)...], as: UTF8.self)
    }
}

/// Runs `body` with the address of a listener, and stops the listener afterwards.
func withListener(
    _ handler: TestHandler = TestHandler(), limits: ListenerLimits = .forTests, tls: TLSServerConfiguration? = nil,
    _ body: (ListenerAddress) async throws -> Void
) async throws {
    let listener = SocketListener(tls: tls, limits: limits)
    let address = try await listener.start(handler)
    do {
        try await body(address)
    } catch {
        await listener.stop()
        throw error
    }
    await listener.stop()
}

extension ListenerLimits {
    func with(_ change: (inout ListenerLimits) -> Void) -> ListenerLimits {
        var limits = self
        change(&limits)
        return limits
    }
}
