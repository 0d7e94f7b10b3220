import PrimusWire
import RealtimeCore
import RealtimeSockets
import RealtimeSystem

/// The sessions of Primus of the load generator over HTTP: the polling of engine.io, which can move to a WebSocket, and the streams of SockJS.
final class LoadPrimusRequests: Sendable {
    typealias Place = (connection: LoadConnection, stream: SocketStream)

    private struct Session: Sendable {
        let primus: LoadPrimus
        let isStream: Bool
        /// The poll that waits, or the stream.
        var place: Place?
        /// The messages of the next poll.
        var messages: [TransportMessage] = []
        /// The number of messages in the polls after it, with ``LoadHTTP/messagesPerPoll`` messages each.
        var remaining = 0
        /// The requests after the handshake.
        var requests = 0
        /// Whether the client has opened a WebSocket, so that each poll ends immediately.
        var isMoving = false

        /// Returns the body for a poll, or `nil` if there is none yet.
        mutating func takeBody() -> [UInt8]? {
            if self.messages.isEmpty, self.remaining > 0, let price = self.primus.price {
                let count = min(self.remaining, LoadHTTP.messagesPerPoll)
                self.remaining -= count
                self.messages = Array(repeating: price, count: count)
            }
            if self.messages.isEmpty, self.isMoving { self.messages = [EngineIOPacket(.noop).transportMessage(.v4)] }
            guard !self.messages.isEmpty else { return nil }
            defer { self.messages = [] }
            return EngineIOPayload.encode(self.messages[...], .separated).body
        }
    }

    private struct State: Sendable {
        var lastNumber = 0
        var sessions: [String: Session] = [:]
    }

    private let loop: EventLoop
    private let state = Lock(State())

    init(_ loop: EventLoop) {
        self.loop = loop
    }

    /// Returns the answer to a request, which is empty for a poll that waits; `nil` for a request that isn't one of a session.
    func answer(_ request: HTTPRequestHead, _ body: [UInt8], _ place: Place) -> [UInt8]? {
        guard let primus = LoadPrimus(target: request.target) else { return nil }
        if LoadPrimus.refusesVersion(of: request.target) { return LoadPrimus.refusedVersion }
        switch primus.framing {
        case .plain: return nil
        case .engineIO: return self.state.withLock { self.answer(request, body, primus, place, &$0) }
        case .sockJS:
            let components = request.path.split(separator: "/")
            guard components.count == 4, let transport = SockJSTransport(rawValue: String(components[3])) else { return nil }
            return self.state.withLock { self.answer(transport, body, String(components[2]), primus, place, &$0) }
        }
    }

    /// Ends the poll of a session that moves to a WebSocket, as the server of engine.io does when it has received the probe.
    func move(_ id: String) {
        let answer = self.state.withLock { state -> (Place, [UInt8])? in
            state.sessions[id]?.isMoving = true
            guard let place = state.sessions[id]?.place.take(), let body = state.sessions[id]?.takeBody() else { return nil }
            return (place, body)
        }
        if let (place, body) = answer { self.send(.init(end: LoadHTTP.response(body)), on: place) }
    }

    // MARK: engine.io

    private func answer(
        _ request: HTTPRequestHead, _ body: [UInt8], _ primus: LoadPrimus, _ place: Place, _ state: inout State
    ) -> [UInt8] {
        guard let id = primus.movedSession else {
            state.lastNumber += 1
            let handshake = LoadPrimus.handshake(sid: "\(state.lastNumber)")
            state.sessions[handshake.sid] = Session(primus: primus, isStream: false)
            return LoadHTTP.response(EngineIOPayload.encode([handshake.packet.transportMessage(.v4)], .separated).body)
        }
        guard var session = state.sessions.removeValue(forKey: id) else { return LoadPrimus.unknownSession }
        session.requests += 1
        var answer: [UInt8] = []
        if request.method == "GET" {
            if let body = session.takeBody() { answer = LoadHTTP.response(body) } else { session.place = place }
        } else {
            var reader = EngineIOPayloadReader(.v4, limit: 1 << 20)
            var batch = MessageBatch()
            try? body.withUnsafeBytes { bytes throws(EngineIOError) in
                try reader.read(bytes, into: &batch)
                try reader.finish(into: &batch)
            }
            if batch.messages.contains(EngineIOPacket(.close).transportMessage(.v4)) {
                if let poll = session.place {
                    let noop = EngineIOPayload.encode([EngineIOPacket(.noop).transportMessage(.v4)], .separated).body
                    self.send(.init(end: LoadHTTP.response(noop)), on: poll)
                }
                return LoadHTTP.response(Array("ok".utf8))
            }
            for message in batch.messages { self.receive(message, &session) }
            answer = LoadHTTP.response(Array("ok".utf8))
        }
        state.sessions[id] = session
        return answer
    }

    // MARK: SockJS

    private func answer(
        _ transport: SockJSTransport, _ body: [UInt8], _ id: String, _ primus: LoadPrimus, _ place: Place, _ state: inout State
    ) -> [UInt8] {
        switch transport {
        case .xhrStreaming:
            state.sessions[id] = Session(primus: primus, isStream: true, place: place)
            // As the original writes it, so that browsers read on.
            let prelude = Array(repeating: UInt8(ascii: "h"), count: 2048)
            return LoadHTTP.streamHead + Self.chunk(prelude) + Self.chunk(SockJSFrame.open.bytes)
        case .xhrSend:
            guard var session = state.sessions[id] else { return LoadHTTP.notFound }
            session.requests += 1
            self.receive(.init(.text, body), &session)
            state.sessions[id] = session
            return LoadHTTP.response([], status: "204 No Content")
        case .websocket, .xhr, .eventSource: return LoadHTTP.notFound
        }
    }

    private static func chunk(_ frame: [UInt8]) -> [UInt8] {
        var chunk: [UInt8] = []
        HTTPEncoder.appendChunk(frame + [UInt8(ascii: "\n")], to: &chunk)
        return chunk
    }

    // MARK: Messages

    private func receive(_ message: TransportMessage, _ session: inout Session) {
        let (replies, count) = session.primus.receive(message, requests: session.requests)
        guard session.isStream else {
            session.messages += replies
            session.remaining += count
            guard let poll = session.place, let body = session.takeBody() else { return }
            session.place = nil
            return self.send(.init(end: LoadHTTP.response(body)), on: poll)
        }
        guard let stream = session.place, let price = session.primus.price else { return }
        let chunk = Self.chunk(price.bytes)
        let bytes = count * chunk.count
        var burst = LoadConnection.Burst(pattern: LoadServer.repeated(chunk, upTo: bytes), remaining: bytes)
        for reply in replies { burst.end += Self.chunk(reply.bytes) }
        self.send(burst, on: stream)
    }

    /// Sends on another connection than that of the current request.
    private func send(_ burst: LoadConnection.Burst, on place: Place) {
        self.loop.execute { place.connection.send(burst, place.stream) }
    }
}
