package import RealtimeCoding
import RealtimeCore

/// The specification that a server of Primus publishes at `/spec`: how to talk to it.
///
/// Source: `spec` in `index.js` of Primus.
public struct PrimusSpec: Hashable, Sendable {
    /// The version of Primus, such as `8.0.9`.
    public var version: String
    /// The path of the server, such as `/primus`.
    public var pathname: String
    /// The parser.
    public var parser: PrimusParserKind
    /// The transformer.
    public var transformer: PrimusTransformerKind
    /// The heartbeat.
    public var heartbeat: Heartbeat

    /// Who sends the pings of Primus's heartbeat.
    public enum Heartbeat: Hashable, Sendable {
        /// The server, at this interval in milliseconds; `nil` if it is switched off. Since Primus 7.
        case serverPings(interval: Double?)
        /// The client, and the server ends a connection that is silent for this time in milliseconds; `nil` if it is switched off, or unknown.
        /// From Primus 1.4 to 6.
        case clientPings(timeout: Double?)
        /// Neither side. Before Primus 1.4.
        case none
    }

    /// Creates a specification.
    ///
    /// - Parameters:
    ///   - version: The version of Primus.
    ///   - pathname: The path of the server.
    ///   - parser: The parser.
    ///   - transformer: The transformer.
    ///   - heartbeat: The heartbeat.
    public init(
        version: String, pathname: String = "/primus", parser: PrimusParserKind = .json,
        transformer: PrimusTransformerKind = .websockets, heartbeat: Heartbeat
    ) {
        self.version = version
        self.pathname = pathname
        self.parser = parser
        self.transformer = transformer
        self.heartbeat = heartbeat
    }

    /// The time after which a client of this server takes a silent connection for dead, in milliseconds, as the client of Primus has it: one and a
    /// half intervals of the server's pings. `nil` if the server sends no pings.
    package var silenceLimit: Double? {
        guard case .serverPings(let interval?) = self.heartbeat else { return nil }
        return interval + (interval / 2).rounded()
    }

    /// Parses the body of a response. Unknown members are ignored.
    ///
    /// - Parameters:
    ///   - bytes: The body.
    ///   - report: Called for a member that isn't valid, and without which the client can do.
    /// - Throws: ``PrimusSpecError``, which says what is wrong with a member that the client needs.
    package init(parsing bytes: [UInt8], _ report: (PrimusSpecError) -> Void = { _ in }) throws(PrimusSpecError) {
        let body: JSONValue
        do throws(JSONError) {
            body = try JSONValue(parsing: bytes, limits: CodingLimits(depth: 16, size: 1 << 20))
        } catch {
            throw PrimusSpecError("it isn't JSON: \(error.message)")
        }
        guard body.object != nil else { throw PrimusSpecError("it isn't an object") }
        func optional<Value>(_ value: () throws(PrimusSpecError) -> Value?) -> Value? {
            do throws(PrimusSpecError) {
                return try value()
            } catch {
                report(error)
                return nil
            }
        }
        self.version = optional { () throws(PrimusSpecError) in try Self.string(body, "version") } ?? ""
        self.pathname = optional { () throws(PrimusSpecError) in try Self.string(body, "pathname") } ?? "/primus"
        guard let parser = try Self.string(body, "parser"), let transformer = try Self.string(body, "transformer") else {
            throw PrimusSpecError("\"parser\" and \"transformer\" are missing")
        }
        self.parser = PrimusParserKind(name: parser)
        self.transformer = PrimusTransformerKind(name: transformer)
        let numbers = self.version.split(separator: ".").map { UInt64($0) }
        let (major, minor) = (numbers.first ?? nil, numbers.count > 1 ? numbers[1] : nil)
        if body["pingInterval"] != nil {
            self.heartbeat = .serverPings(interval: optional { () throws(PrimusSpecError) in try Self.time(body, "pingInterval") })
        } else if body["timeout"] != nil {
            self.heartbeat = .clientPings(timeout: optional { () throws(PrimusSpecError) in try Self.time(body, "timeout") })
        } else if let major, major < 1 || major == 1 && (minor ?? 0) < 4 {
            self.heartbeat = .none
        } else if let major, major < 7 {
            self.heartbeat = .clientPings(timeout: nil)
        } else {
            self.heartbeat = .serverPings(interval: nil)
        }
    }

    private static func string(_ body: JSONValue, _ key: String) throws(PrimusSpecError) -> String? {
        switch body[key] {
        case nil, .null?: return nil
        case .string(let value)?: return value
        default: throw PrimusSpecError("\"\(key)\" isn't a string")
        }
    }

    /// A time in milliseconds; `nil` for `false` and zero, with which the server switches the heartbeat off.
    private static func time(_ body: JSONValue, _ key: String) throws(PrimusSpecError) -> Double? {
        switch body[key] {
        case .bool(false)?, .null?: return nil
        case .number(let number)?:
            // A timer of Node has at most 2^31 - 1 milliseconds.
            guard number.double >= 0, number.double <= 0x1p31 else { throw PrimusSpecError("\"\(key)\" isn't a time in milliseconds") }
            return number.double == 0 ? nil : number.double
        default: throw PrimusSpecError("\"\(key)\" is neither a number nor false")
        }
    }

    /// The body of the response of a server with this specification.
    package var json: JSONValue {
        var members: [JSONObject.Element] = []
        func time(_ milliseconds: Double?) -> JSONValue {
            milliseconds.flatMap { try? PrimusValue.number($0).json() } ?? false
        }
        switch self.heartbeat {
        case .serverPings(let interval): members.append(("pingInterval", time(interval)))
        case .clientPings(let timeout): members.append(("timeout", time(timeout)))
        case .none: break
        }
        members.append(("pathname", .string(self.pathname)))
        members.append(("version", .string(self.version)))
        members.append(("parser", .string(self.parser.description)))
        members.append(("transformer", .string(self.transformer.description)))
        return .object(JSONObject(members))
    }
}

/// The reason why a server's specification can't be read.
package struct PrimusSpecError: Error, Hashable, Sendable, CustomStringConvertible {
    /// The problem, as the end of a sentence.
    package let problem: String

    init(_ problem: String) { self.problem = problem }

    package var description: String { "The specification of the server can't be read: \(self.problem)." }
}

extension PrimusSpec: PrintedParts {}
