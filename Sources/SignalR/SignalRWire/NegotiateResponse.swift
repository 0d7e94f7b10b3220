import RealtimeCoding
import RealtimeCore

/// The body of the response to a negotiation. The status of the response is 200, also for an error.
///
/// Source: TransportProtocols.md of ASP.NET Core, "`POST [endpoint-base]/negotiate` request".
package enum NegotiateResponse: Hashable, Sendable {
    /// The server is ready for a connection.
    case connection(Connection)
    /// The client negotiates again at another URL.
    case redirect(Redirect)
    /// The server refuses, for this reason.
    case error(String)

    /// A connection that the server is ready for.
    package struct Connection: Hashable, Sendable, Redacting {
        /// The public ID, which the application may show.
        package var id: String
        /// The secret ID of version 1.
        package var secretToken: String?
        /// The version of the response, from 0.
        package var version: Int
        /// The transports, in the order in which to try them.
        package var transports: [HubTransportOffer]
        package var useStatefulReconnect: Bool
        /// The lifetime of the access token in seconds, if the server supports refreshing it.
        package var tokenLifetime: Double?

        package init(
            id: String, secretToken: String?, version: Int = HubNegotiation.version, transports: [HubTransportOffer],
            useStatefulReconnect: Bool = false, tokenLifetime: Double? = nil
        ) {
            self.id = id
            self.secretToken = secretToken
            self.version = version
            self.transports = transports
            self.useStatefulReconnect = useStatefulReconnect
            self.tokenLifetime = tokenLifetime
        }

        /// The ID in the requests of the transport: the secret one, or the public one in version 0.
        package var token: String { self.secretToken ?? self.id }

        package var visibleFields: [(name: String, value: Any?)] {
            // In version 0, the public ID is the token.
            [
                ("id", self.secretToken == nil ? Redacted.secret as Any : self.id), ("secretToken", Redacted.optional(self.secretToken)),
                ("version", self.version), ("transports", self.transports), ("useStatefulReconnect", self.useStatefulReconnect),
                ("tokenLifetime", self.tokenLifetime),
            ]
        }
    }

    /// Another server to negotiate with.
    package struct Redirect: Hashable, Sendable, Redacting {
        /// The URL of the hub at the other server, without `/negotiate`.
        package var url: String
        /// The access token for all requests there, instead of the application's.
        package var accessToken: String?
        /// The lifetime of the application's access token in seconds, if the server supports refreshing it.
        package var tokenLifetime: Double?

        package init(url: String, accessToken: String?, tokenLifetime: Double? = nil) {
            self.url = url
            self.accessToken = accessToken
            self.tokenLifetime = tokenLifetime
        }

        package var visibleFields: [(name: String, value: Any?)] {
            [
                ("url", Redacted.query(of: self.url)), ("accessToken", Redacted.optional(self.accessToken)),
                ("tokenLifetime", self.tokenLifetime),
            ]
        }
    }
}

extension NegotiateResponse {
    /// The lifetime of the access token in seconds, if the server supports refreshing it.
    package var tokenLifetime: Double? {
        switch self {
        case .connection(let connection): connection.tokenLifetime
        case .redirect(let redirect): redirect.tokenLifetime
        case .error: nil
        }
    }

    /// Parses the body of a response. Unknown members are ignored.
    ///
    /// - Throws: ``NegotiateError`` if the body isn't a valid response, or if the server is an ASP.NET SignalR server.
    package init(parsing bytes: [UInt8]) throws(NegotiateError) {
        let body: JSONValue
        do throws(JSONError) {
            body = try JSONValue(parsing: bytes)
        } catch {
            throw Self.notJSON(error.message)
        }
        guard body.object != nil else { throw Self.notJSON("expected an object") }
        if let error = try Self.string(body, "error"), !error.isEmpty {
            self = .error(error)
            return
        }
        guard body["ProtocolVersion"] == nil, body["protocolVersion"] == nil else {
            throw NegotiateError(
                .oldServer,
                "The server uses ASP.NET SignalR, whose protocol differs from that of ASP.NET Core SignalR. Use a client for ASP.NET SignalR,"
                    + " or update the server to ASP.NET Core.")
        }
        if let url = try Self.string(body, "url"), !url.isEmpty {
            self = .redirect(
                Redirect(url: url, accessToken: try Self.string(body, "accessToken"), tokenLifetime: body["tokenLifetimeSeconds"]?.double))
            return
        }
        self = .connection(try Self.connection(body))
    }

    private static func connection(_ body: JSONValue) throws(NegotiateError) -> Connection {
        let version: Int
        switch body["negotiateVersion"] {
        case .none, .some(.null): version = 0
        case .number(let number):
            guard let value = number.integer(as: Int.self) else { throw Self.invalid("\"negotiateVersion\" must be an integer") }
            version = value
        default: throw Self.invalid("\"negotiateVersion\" must be an integer")
        }
        guard let id = try Self.string(body, "connectionId"), !id.isEmpty else { throw Self.invalid("missing \"connectionId\"") }
        let token = try Self.string(body, "connectionToken")
        guard version < 1 || token?.isEmpty == false else { throw Self.invalid("missing \"connectionToken\"") }
        return Connection(
            id: id, secretToken: version < 1 ? nil : token, version: max(0, version), transports: try Self.transports(body),
            useStatefulReconnect: body["useStatefulReconnect"]?.bool ?? false, tokenLifetime: body["tokenLifetimeSeconds"]?.double)
    }

    private static func transports(_ body: JSONValue) throws(NegotiateError) -> [HubTransportOffer] {
        guard let list = body["availableTransports"], !list.isNull else { throw Self.invalid("missing \"availableTransports\"") }
        guard let elements = list.array else { throw Self.invalid("\"availableTransports\" must be an array") }
        var transports: [HubTransportOffer] = []
        for element in elements {
            guard let name = element["transport"]?.string, let formats = element["transferFormats"]?.array else {
                throw Self.invalid("an element of \"availableTransports\" has no \"transport\" or no \"transferFormats\"")
            }
            transports.append(HubTransportOffer(name: name, transferFormats: formats.compactMap(\.string)))
        }
        return transports
    }

    private static func string(_ body: JSONValue, _ name: String) throws(NegotiateError) -> String? {
        switch body[name] {
        case .none, .some(.null): return nil
        case .string(let text): return text
        default: throw Self.invalid("\"\(name)\" must be a string")
        }
    }

    private static func notJSON(_ reason: String) -> NegotiateError {
        NegotiateError(
            .notJSON, "The response to the negotiation is not that of a SignalR server: \(reason). Check that the URL is that of a hub.")
    }

    private static func invalid(_ reason: String) -> NegotiateError {
        NegotiateError(.invalid, "The response to the negotiation is invalid: \(reason). Check the server and the proxies before it.")
    }

    /// The body as JSON.
    package var bytes: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        switch self {
        case .connection(let connection): Self.append(connection, to: &json)
        case .redirect(let redirect):
            json.key("url")
            json.value(redirect.url)
            if let token = redirect.accessToken {
                json.key("accessToken")
                json.value(token)
            }
            json.append(tokenLifetime: redirect.tokenLifetime)
        case .error(let text):
            json.key("error")
            json.value(text)
        }
        json.endObject()
        return json.bytes
    }

    private static func append(_ connection: Connection, to json: inout JSONWriter) {
        if connection.useStatefulReconnect {
            json.key("useStatefulReconnect")
            json.value(true)
        }
        json.key("negotiateVersion")
        json.value(connection.version)
        json.key("connectionId")
        json.value(connection.id)
        if let token = connection.secretToken {
            json.key("connectionToken")
            json.value(token)
        }
        json.key("availableTransports")
        json.beginArray()
        for transport in connection.transports {
            json.beginObject()
            json.key("transport")
            json.value(transport.name)
            json.key("transferFormats")
            json.beginArray()
            for format in transport.transferFormats { json.value(format) }
            json.endArray()
            json.endObject()
        }
        json.endArray()
        json.append(tokenLifetime: connection.tokenLifetime)
    }
}
