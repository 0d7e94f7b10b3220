package import RealtimeCoding
import RealtimeCore

extension EngineIOHandshake {
    /// Parses the text of an open packet.
    ///
    /// - Throws: ``EngineIOError``, which says what is wrong.
    package init(parsing bytes: [UInt8]) throws(EngineIOError) {
        guard let body = try? JSONValue(parsing: bytes, limits: CodingLimits(depth: 16, size: 1 << 16)) else {
            throw EngineIOError("The handshake of engine.io isn't JSON")
        }
        guard let sid = body["sid"]?.string, !sid.isEmpty else { throw EngineIOError("The handshake of engine.io has no session ID") }
        self.init(sid: sid)
        self.upgrades = (body["upgrades"]?.array ?? []).compactMap(\.string)
        self.pingInterval = try Self.number(body, "pingInterval") ?? self.pingInterval
        self.pingTimeout = try Self.number(body, "pingTimeout") ?? self.pingTimeout
        // As for the client for JavaScript, zero stands for none.
        self.maxPayload = try Self.number(body, "maxPayload").flatMap { $0 == 0 ? nil : $0 }
    }

    private static func number(_ body: JSONValue, _ key: String) throws(EngineIOError) -> Int? {
        guard let value = body[key] else { return nil }
        guard let number = value.int, 0...Int(Int32.max) ~= number else {
            throw EngineIOError("The handshake of engine.io has an invalid \"\(key)\"")
        }
        return number
    }

    /// The text of the open packet.
    package var json: JSONValue {
        var members: [JSONObject.Element] = [
            ("sid", .string(self.sid)), ("upgrades", .array(self.upgrades.map { .string($0) })),
            ("pingInterval", .number(JSONNumber(self.pingInterval))), ("pingTimeout", .number(JSONNumber(self.pingTimeout))),
        ]
        if let maxPayload { members.append(("maxPayload", .number(JSONNumber(maxPayload)))) }
        return .object(JSONObject(members))
    }

    package var packet: EngineIOPacket { EngineIOPacket(.open, self.json.bytes) }
}

extension EngineIOError.Refusal {
    /// The body of the response.
    package var json: JSONValue { ["code": .number(JSONNumber(self.rawValue)), "message": .string(self.message)] }
}

extension EngineIOError {
    /// Creates the error of a refusal from the body of a response; `nil` if it isn't one.
    ///
    /// A server that refuses a WebSocket after accepting it sends the text of the refusal alone.
    package init?(refusal bytes: [UInt8]) {
        let body = try? JSONValue(parsing: bytes, limits: CodingLimits(depth: 4, size: 1 << 16))
        let text = String(decoding: bytes, as: UTF8.self)
        let refusal =
            if let code = body?["code"]?.int { Refusal(rawValue: code) } else { Refusal.allCases.first { $0.message == text } }
        guard let refusal else { return nil }
        let message = body?["message"]?.string ?? text
        self.init("The server of engine.io refuses: \(Excerpt.of(message, limit: 200))", refusal)
    }
}
