package import RealtimeCoding
import RealtimeCore

/// A frame of SockJS, from the server to the client.
///
/// Source: the protocol description of SockJS 0.3.3, and `transport.js` of sockjs-node.
package enum SockJSFrame: Hashable, Sendable {
    /// The session is open.
    case open
    case heartbeat
    /// Texts, each of which is a packet.
    case messages([String])
    /// The end of the session.
    case close(code: Int, reason: String)

    /// The maximum depth of a frame. An array of strings has one level.
    static let limits = CodingLimits(depth: 2)

    /// Parses a frame.
    ///
    /// - Parameter bytes: The frame, in valid UTF-8.
    /// - Throws: ``SockJSError``, which says what is wrong.
    package init(parsing bytes: UnsafeRawBufferPointer) throws(SockJSError) {
        guard let type = bytes.first else { throw SockJSError("a frame is empty") }
        let rest = UnsafeRawBufferPointer(rebasing: bytes[1...])
        switch type {
        case UInt8(ascii: "o"): self = .open
        case UInt8(ascii: "h"): self = .heartbeat
        case UInt8(ascii: "a"), UInt8(ascii: "m"): self = .messages(try SockJSMessages.strings(rest))
        case UInt8(ascii: "c"): self = try Self.close(rest)
        default: throw .unreadable(bytes)
        }
    }

    private static func close(_ bytes: UnsafeRawBufferPointer) throws(SockJSError) -> SockJSFrame {
        guard let parts = try? JSONValue(parsing: bytes, isUTF8: true, limits: Self.limits).array, parts.count == 2,
            let code = parts[0].int,
            let reason = parts[1].string
        else { throw SockJSError("a close frame has no code and reason") }
        return .close(code: code, reason: reason)
    }

    /// The frame as text.
    package var bytes: [UInt8] {
        switch self {
        case .open: return [UInt8(ascii: "o")]
        case .heartbeat: return [UInt8(ascii: "h")]
        case .messages(let texts):
            return SockJSMessages.frame(texts)
        case .close(let code, let reason):
            return [UInt8(ascii: "c")] + JSONValue.array([.number(JSONNumber(code)), .string(reason)]).bytes
        }
    }
}

/// Texts in an array of JSON, as both sides of SockJS send them.
package enum SockJSMessages {
    /// Appends an array of texts.
    static func append(_ texts: [String], to bytes: inout [UInt8]) {
        bytes.append(UInt8(ascii: "["))
        for (index, text) in texts.enumerated() {
            if index > 0 { bytes.append(UInt8(ascii: ",")) }
            JSONWriter.append(text, to: &bytes)
        }
        bytes.append(UInt8(ascii: "]"))
    }

    /// Returns texts as the message or the body of a client.
    package static func encode(_ texts: [String]) -> [UInt8] {
        var bytes: [UInt8] = []
        self.append(texts, to: &bytes)
        return bytes
    }

    /// Returns texts as the frame of a server.
    static func frame(_ texts: [String]) -> [UInt8] {
        var bytes = [UInt8(ascii: "a")]
        self.append(texts, to: &bytes)
        SockJSEscaping.escape(&bytes)
        return bytes
    }

    /// Returns the texts of an array, or of a single string.
    ///
    /// - Parameter bytes: The JSON, in valid UTF-8.
    /// - Throws: ``SockJSError`` if it is something else.
    package static func strings(_ bytes: UnsafeRawBufferPointer) throws(SockJSError) -> [String] {
        var texts: [String] = []
        try self.forEach(bytes) { texts.append(String(decoding: $0, as: UTF8.self)) }
        return texts
    }

    /// Passes on the texts of an array, or a single string, in order. If one element isn't a string, none is passed on.
    ///
    /// - Parameters:
    ///   - bytes: The JSON, in valid UTF-8.
    ///   - allowsValues: Whether a value that isn't a string counts as the text of its JSON, as for the server of Primus.
    ///   - body: Receives the UTF-8 of each text. The memory is valid during the call.
    /// - Throws: ``SockJSError`` if the bytes are something else.
    static func forEach(
        _ bytes: UnsafeRawBufferPointer, allowsValues: Bool = false, _ body: (UnsafeRawBufferPointer) -> Void
    ) throws(SockJSError) {
        if self.single(bytes, body) { return }
        if bytes.first == UInt8(ascii: "\"") {
            do throws(JSONError) { try JSONText.validate(bytes, isUTF8: true, limits: SockJSFrame.limits) } catch {
                throw SockJSError(error)
            }
            return self.unescape(bytes, body)
        }
        let elements: [Range<Int>]
        do throws(JSONError) {
            elements = try JSONText.elements(ofArray: bytes, limits: allowsValues ? CodingLimits() : SockJSFrame.limits)
        } catch {
            throw SockJSError(error)
        }
        func isString(_ element: Range<Int>) -> Bool { bytes[element.lowerBound] == UInt8(ascii: "\"") }
        guard allowsValues || elements.allSatisfy(isString) else {
            throw SockJSError("an array contains an element that isn't a string")
        }
        for element in elements {
            let text = UnsafeRawBufferPointer(rebasing: bytes[element])
            if isString(element) { self.unescape(text, body) } else { body(text) }
        }
    }

    /// Returns the size of the longest text in an array, in bytes.
    ///
    /// - Parameter bytes: The array, which is valid JSON.
    package static func longest(_ bytes: UnsafeRawBufferPointer) -> Int {
        var (position, longest) = (0, 0)
        while let element = self.nextPart(of: bytes, from: &position, limit: 1) {
            guard let quote = bytes[element].firstIndex(of: UInt8(ascii: "\"")), element.count > longest else { continue }
            self.unescape(UnsafeRawBufferPointer(rebasing: bytes[quote..<element.upperBound])) { longest = max(longest, $0.count) }
        }
        return longest
    }

    /// Returns the next elements of an array.
    ///
    /// - Parameters:
    ///   - bytes: The array, which is valid JSON.
    ///   - position: The index behind the previous elements, 0 for the first ones. The function advances it, to the end with the last elements.
    ///   - limit: The maximum number of elements.
    /// - Returns: The position of the elements, with the commas between them; `nil` at the end of the array.
    static func nextPart(of bytes: UnsafeRawBufferPointer, from position: inout Int, limit: Int) -> Range<Int>? {
        guard position < bytes.count else { return nil }
        if position == 0 { position = (bytes.firstIndex(of: UInt8(ascii: "[")) ?? 0) + 1 }
        let start = position
        var (index, depth, count) = (start, 0, 1)
        while index < bytes.count {
            switch bytes[index] {
            case UInt8(ascii: "\""):
                index += 1
                while index < bytes.count, bytes[index] != UInt8(ascii: "\"") { index += bytes[index] == UInt8(ascii: "\\") ? 2 : 1 }
            case UInt8(ascii: "["), UInt8(ascii: "{"): depth += 1
            case UInt8(ascii: "]") where depth == 0:
                position = bytes.count
                return start..<index
            case UInt8(ascii: "]"), UInt8(ascii: "}"): depth -= 1
            case UInt8(ascii: ",") where depth == 0:
                if count == limit {
                    position = index + 1
                    return start..<index
                }
                count += 1
            default: break
            }
            index += 1
        }
        position = bytes.count
        return start..<bytes.count
    }

    /// Passes on the text of an array with one string, as servers write it, in one pass.
    ///
    /// - Returns: `false` for other bytes, also for those that aren't valid. Nothing is passed on then.
    static func single(_ bytes: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) -> Bool {
        guard bytes.count >= 4, bytes.count <= SockJSFrame.limits.size, bytes[0] == UInt8(ascii: "["), bytes[1] == UInt8(ascii: "\""),
            bytes[bytes.count - 1] == UInt8(ascii: "]")
        else { return false }
        return withUnsafeTemporaryAllocation(byteCount: bytes.count + JSONText.unescapeMargin, alignment: 16) { output in
            guard let (end, count) = JSONText.unescape(bytes, from: 2, into: output), end == bytes.count - 1 else { return false }
            body(UnsafeRawBufferPointer(rebasing: output[..<count]))
            return true
        }
    }

    /// Passes on the text of a validated string with its quotes.
    private static func unescape(_ string: UnsafeRawBufferPointer, _ body: (UnsafeRawBufferPointer) -> Void) {
        var string = string
        while string.last != UInt8(ascii: "\"") { string = UnsafeRawBufferPointer(rebasing: string.dropLast()) }
        let raw = UnsafeRawBufferPointer(rebasing: string[1..<string.count - 1])
        if raw.contains(UInt8(ascii: "\\")) { JSONText.unescapedBytes(raw).withUnsafeBytes(body) } else { body(raw) }
    }
}

/// The reason why bytes can't be read as SockJS.
package struct SockJSError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The problem, as a part of a sentence.
    package let problem: String

    init(_ problem: String) { self.problem = problem }

    init(_ error: JSONError) { self.problem = "an array isn't valid: \(error.message)" }

    /// The error of a frame that can't be read.
    package static func unreadable(_ bytes: some BidirectionalCollection<UInt8>) -> Self {
        Self(bytes.isEmpty ? "a frame is empty" : "a frame begins with \"\(Excerpt.of(bytes: bytes, limit: 20))\"")
    }

    package var description: String { "A message of SockJS isn't valid: \(self.problem)." }
}

/// The body of the response at `/info`: what a server of SockJS says of itself.
package struct SockJSInfo: Hashable, Sendable {
    /// Whether the server accepts WebSockets.
    package var webSocket: Bool
    /// Whether the server's balancer needs cookies.
    package var cookieNeeded: Bool
    /// Another address for the sessions.
    package var baseURL: String?
    /// A random number.
    package var entropy: UInt32

    package init(webSocket: Bool = true, cookieNeeded: Bool = false, baseURL: String? = nil, entropy: UInt32 = 0) {
        self.webSocket = webSocket
        self.cookieNeeded = cookieNeeded
        self.baseURL = baseURL
        self.entropy = entropy
    }

    /// Parses the body of a response. Unknown members are ignored.
    ///
    /// - Throws: ``SockJSError`` if it isn't an object.
    package init(parsing bytes: [UInt8]) throws(SockJSError) {
        guard let body = try? JSONValue(parsing: bytes, limits: CodingLimits(depth: 16, size: 1 << 16)), body.object != nil else {
            throw SockJSError("the information about the server isn't an object in JSON")
        }
        self.init(
            webSocket: body["websocket"]?.bool ?? true, cookieNeeded: body["cookie_needed"]?.bool ?? false,
            baseURL: body["base_url"]?.string, entropy: body["entropy"]?.int.flatMap { UInt32(exactly: $0) } ?? 0)
    }

    /// The body of the response.
    package var json: JSONValue {
        var members: [JSONObject.Element] = [
            ("websocket", .bool(self.webSocket)), ("origins", ["*:*"]), ("cookie_needed", .bool(self.cookieNeeded)),
            ("entropy", .number(JSONNumber(self.entropy))),
        ]
        if let baseURL { members.append(("base_url", .string(baseURL))) }
        return .object(JSONObject(members))
    }
}

/// The codes with which SockJS ends a session.
///
/// Source: `main.js` of sockjs-client 1.6.1 and `transport.js` of sockjs-node 0.3.24.
package enum SockJSCloseCode: Int, Hashable, Sendable, CaseIterable {
    case normal = 1000
    case cannotConnect = 1002
    case lostSession = 1006
    case allTransportsFailed = 2000
    case transportTimedOut = 2007
    case anotherConnection = 2010
    case goAway = 3000

    /// The text of the original.
    package var reason: String {
        switch self {
        case .normal: "Normal closure"
        case .cannotConnect: "Cannot connect to server"
        case .lostSession: "Server lost session"
        case .allTransportsFailed: "All transports failed"
        case .transportTimedOut: "Transport timed out"
        case .anotherConnection: "Another connection still open"
        case .goAway: "Go away!"
        }
    }

    package var frame: SockJSFrame { .close(code: self.rawValue, reason: self.reason) }
}

/// The ways in which a session of SockJS receives or sends.
package enum SockJSTransport: String, Hashable, Sendable, CaseIterable {
    case websocket
    case xhr
    case xhrStreaming = "xhr_streaming"
    case xhrSend = "xhr_send"
    case eventSource = "eventsource"
}
