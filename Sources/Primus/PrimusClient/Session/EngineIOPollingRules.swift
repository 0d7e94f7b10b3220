import PrimusWire
package import RealtimeCore

/// A session of engine.io over polling: requests that the server answers when it has packets, and requests with those of the client.
///
/// Each packet arrives as the message that a WebSocket would carry, and is sent in the same form.
///
/// Source: the protocol descriptions of engine.io, versions 3 and 4.
package struct EngineIOPollingRules: HTTPMessageConnectionRules {
    /// The reason for which a connection is closed whose session goes on over a WebSocket.
    package static let upgraded = "The session has moved to a WebSocket."

    /// The address of all requests of the session.
    private var endpoint: Endpoint
    private let address: PrimusAddress
    private let headers: HTTPHeaders
    private let version: EngineIOVersion
    private let timeout: Duration
    private var reader: EngineIOPayloadReader
    private var handshake: EngineIOHandshake?
    /// The form of the bodies that the client sends.
    private var format: EngineIOPayloadFormat
    /// Whether the server has ended the session.
    private var isClosed = false
    /// Whether the session may move to a WebSocket, for which the server ends a poll without packets.
    private var mayMove: Bool
    /// Whether the server has ended the poll for a move.
    private var isEndedForMove = false
    /// The number of handshakes.
    private var openings = 0
    /// Whether the response in progress has a packet that can be read, and the first one that can't.
    private var (hasPacket, unreadable): (Bool, EngineIOError?) = (false, nil)
    /// The number in the URL of the next request.
    private var requests: Int64

    /// - Parameters:
    ///   - address: The address of the server, with the credentials.
    ///   - headers: The header fields of all requests.
    ///   - version: The version of the protocol.
    ///   - messageLimit: The maximum size of a packet in bytes.
    ///   - timeout: The time limit for a connection of a request, and for the answer to all but those that wait for packets.
    ///   - startedAt: The milliseconds from the beginning of 1970 to now.
    ///   - mayMove: Whether the session may move to a WebSocket.
    package init(
        _ address: PrimusAddress, _ headers: HTTPHeaders, _ version: EngineIOVersion, messageLimit: Int, timeout: Duration,
        startedAt: Int64, mayMove: Bool = false
    ) {
        (self.requests, self.mayMove) = (startedAt, mayMove)
        (self.address, self.headers, self.version, self.timeout) = (address, headers, version, timeout)
        (self.endpoint, self.format) = (address.engineIO(version, .polling), EngineIOPayloadFormat(version))
        self.reader = EngineIOPayloadReader(version, limit: messageLimit)
    }

    package var isStream: Bool { false }

    /// Each packet has a limit, and a server sends all that it has.
    package var bodyLimit: Int? { nil }

    /// A server forgets a client that doesn't answer its pings, or doesn't ping it.
    package var pausedPolling: HTTPPausedPolling? {
        // A ping of the server must be read and answered within its time limit. An answer before it may take an interval as well.
        let interval = self.handshake.map { Duration.milliseconds(min($0.pingInterval, $0.pingTimeout)) } ?? .seconds(20)
        return HTTPPausedPolling(interval: max(.milliseconds(10), interval / 3), byteLimit: 16 << 20)
    }

    private mutating func request(_ method: String, body: [UInt8] = [], idleTimeout: Duration) -> HTTPRequest {
        var endpoint = self.endpoint
        // No cache on the way has an answer to this URL.
        endpoint.addQuery("t", PrimusAddress.cacheKey(milliseconds: self.requests))
        self.requests += 1
        var headers = self.headers
        if !body.isEmpty {
            headers["Content-Type"] = self.format == .bytes ? EngineIOPayloadFormat.octets : "text/plain;charset=UTF-8"
        }
        return HTTPRequest(method, endpoint, headers: headers, body: body, connectTimeout: self.timeout, idleTimeout: idleTimeout)
    }

    package mutating func receivingRequest() -> HTTPRequest {
        // The client's limit for silence ends a connection earlier.
        let wait = self.handshake.map { max(self.timeout, .milliseconds($0.pingInterval + $0.pingTimeout) * 2) }
        return self.request("GET", idleTimeout: wait ?? self.timeout)
    }

    package func received(_ head: HTTPResponseHead) -> HTTPVerdict { head.status == 200 ? .proceed : .reject }

    /// A server of version 3 answers with bytes if a packet is binary. One before engine.io 2.1 does so always, and encodes text twice if a client
    /// doesn't accept that; it reads bytes correctly as well. The content type doesn't matter: proxies change it.
    ///
    /// Source: `encodePayload` in `index.js` of engine.io-parser 1.3 and 2.2.
    package mutating func decode(_ bytes: UnsafeRawBufferPointer, into batch: inout MessageBatch) throws(TransportError) {
        let isFirst = self.handshake == nil
        if isFirst, self.version == .v4, EngineIOPayload.isBytes(bytes) { throw self.otherVersion }
        try self.read(into: &batch) { reader, batch throws(EngineIOError) in try reader.read(bytes, into: &batch) }
        if isFirst { self.format = self.reader.format }
    }

    package mutating func bodyEnded(into batch: inout MessageBatch) throws(TransportError) -> HTTPVerdict {
        try self.read(into: &batch) { reader, batch throws(EngineIOError) in try reader.finish(into: &batch) }
        defer { (self.hasPacket, self.unreadable) = (false, nil) }
        // One packet that can't be read is ignored. If none can, the answer isn't one of engine.io.
        if let unreadable, !self.hasPacket { throw self.unreadable(unreadable) }
        if self.isClosed { return .end(.transport(TransportError(.closed, "The server ended the session."))) }
        if self.isEndedForMove { return self.pauseForMove() }
        guard self.handshake == nil else { return .proceed }
        throw TransportError(
            .protocolViolation,
            "\(self.address.endpoint) answered without a session. Check that the transformer of the server is engine.io.")
    }

    /// The time between the end of the poll and the answer to the probe of the WebSocket, with some room.
    private static let pauseForMove = Duration.seconds(1)

    /// Waits for the WebSocket before the next poll, once. Most servers end one poll for a move, and some do before they answer the probe: the
    /// next one would last until the server has something to send, and the move as long. That for Node ends each.
    private mutating func pauseForMove() -> HTTPVerdict {
        (self.mayMove, self.isEndedForMove) = (false, false)
        return .pause(Self.pauseForMove)
    }

    /// Reads packets, and looks at those that concern the requests.
    private mutating func read(
        into batch: inout MessageBatch,
        _ body: (inout EngineIOPayloadReader, inout MessageBatch) throws(EngineIOError) -> Void
    ) throws(TransportError) {
        let start = batch.entries.count
        do throws(EngineIOError) {
            try body(&self.reader, &batch)
        } catch {
            throw self.unreadable(error)
        }
        for entry in batch.entries[start...] { self.check(entry, batch.bytes) }
        var hasNoop = false
        for entry in batch.entries[start...] where entry.kind == .text && !entry.range.isEmpty {
            switch batch.bytes[entry.range.lowerBound] {
            case UInt8(ascii: "6"): hasNoop = true
            case UInt8(ascii: "1") where entry.range.count == 1: self.isClosed = true
            case UInt8(ascii: "0") where self.handshake == nil:
                guard let handshake = try? EngineIOHandshake(parsing: Array(batch.bytes[entry.range].dropFirst())) else { continue }
                self.handshake = handshake
                self.endpoint = self.address.engineIO(self.version, .polling, sid: handshake.sid)
            case _ where self.handshake == nil && self.version == .v4 && EngineIOPayload.isVersion3(batch.bytes[entry.range]):
                // It isn't a packet.
                batch = MessageBatch()
                throw self.otherVersion
            default: break
            }
        }
        // An answer with nothing else counts as empty: a server that goes on answering so immediately isn't asked again immediately.
        guard hasNoop else { return }
        Self.removeNoops(from: &batch)
        if self.mayMove, self.handshake != nil { self.isEndedForMove = true }
    }

    private func unreadable(_ error: EngineIOError) -> TransportError {
        TransportError(.protocolViolation, "The answer of \(self.address.endpoint) can't be read: \(error.description)")
    }

    /// Records whether a packet can be read.
    private mutating func check(_ entry: MessageBatch.Entry, _ bytes: [UInt8]) {
        do throws(EngineIOError) {
            let kind = try EngineIOPacket.kind(ofMessage: bytes[entry.range], entry.kind, self.version)
            if kind == .open { self.openings += 1 }
            // Neither a second handshake nor the end of a move is an answer to a poll.
            guard kind == .open && self.handshake != nil || kind == .upgrade else { return self.hasPacket = true }
            throw .unexpectedPacket(bytes[entry.range])
        } catch {
            if self.unreadable == nil { self.unreadable = error }
        }
    }

    /// The handshake counts as well, and another one doesn't.
    package func hasMessages(_ batch: borrowing MessageBatch) -> Bool {
        batch.entries.contains { entry in
            switch (try? EngineIOPacket.kind(ofMessage: batch.bytes[entry.range], entry.kind, self.version)) {
            case .message?: true
            case .open?: self.openings == 1
            case .close?, .ping?, .pong?, .upgrade?, .noop?, nil: false
            }
        }
    }

    private static func removeNoops(from batch: inout MessageBatch) {
        var others = MessageBatch()
        for message in batch.messages where message.kind != .text || message.bytes.first != UInt8(ascii: "6") {
            others.append(message.kind, message.bytes)
        }
        batch = others
    }

    private var otherVersion: TransportError {
        TransportError(.protocolViolation, "The answer of \(self.address.endpoint) is one of version 3 of engine.io.")
    }

    package mutating func sendingRequest(_ messages: ArraySlice<TransportMessage>) -> (request: HTTPRequest, count: Int) {
        // Polling has no ping frames. A server ignores this packet, and its answer shows that it is there.
        let noop = EngineIOPacket(.noop).transportMessage(self.version)
        let packets = messages.map { $0.kind == .ping || $0.kind == .pong ? noop : $0 }
        let (body, count) = EngineIOPayload.encode(packets[...], self.format, limit: self.handshake?.maxPayload ?? Self.bodySize)
        return (self.request("POST", body: body, idleTimeout: self.timeout), count)
    }

    /// The size of a body with several packets, in bytes, for a server that doesn't tell its limit. Servers before engine.io 4 accept 100 MB,
    /// and later ones 1 MB, unless they are configured otherwise.
    private static let bodySize = 900_000

    package func sent(_ response: HTTPResponse) -> HTTPVerdict { response.isOfOtherService ? .reject : .proceed }

    package mutating func closing(_ code: CloseCode, reason: String) -> HTTPClosing {
        if reason == Self.upgraded {
            // A server that has ended no poll for the move ends it with its next ping. With version 3, it sends none.
            guard self.version == .v4, let handshake else { return .finishReceiving() }
            return .finishReceiving(limit: .milliseconds(handshake.pingInterval) + .milliseconds(handshake.pingTimeout))
        }
        // The server has ended the session, or hasn't begun it.
        if self.isClosed || self.handshake == nil { return .cancel }
        let packet = EngineIOPayload.encode([EngineIOPacket(.close).transportMessage(self.version)], self.format).body
        return .request(self.request("POST", body: packet, idleTimeout: self.timeout))
    }
}
