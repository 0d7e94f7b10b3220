package import PrimusWire
package import RealtimeCore

/// A connection to open. It contains credentials.
package struct PrimusRequest: Sendable {
    /// How the connection reaches the server.
    package enum Connection: Sendable {
        case webSocket(WebSocketRequest)
        case http(any HTTPMessageConnectionRules)
    }

    package var connection: Connection
    package var endpoint: Endpoint
    /// The WebSocket to open; `nil` for a connection over HTTP.
    package var webSocket: WebSocketRequest? { if case .webSocket(let request) = self.connection { request } else { nil } }
    /// How packets travel in messages.
    package var framing: PrimusFraming
    package var customTransformer: (any PrimusCustomTransformer)?
    package var customParser: (any PrimusParser)?
}

/// The questions of an attempt to connect to the application.
package struct PrimusPreparation: Sendable {
    package var endpoint: Endpoint
    package var credentials: PrimusConfiguration.CredentialsProvider?
    package var requestURL: PrimusConfiguration.RequestURL?
    package var plugins: [any PrimusPlugin]

    /// Whether there is nothing to ask for.
    var isEmpty: Bool { self.credentials == nil && self.requestURL == nil && self.plugins.isEmpty }

    /// Asks the application.
    func run() async -> Result<PrimusPrepared, PrimusError> {
        var prepared = PrimusPrepared(endpoint: self.endpoint, credentials: nil)
        do {
            if let credentials = try await self.credentials?() {
                prepared.credentials = credentials
                for item in credentials.query { prepared.endpoint.addQuery(item.name, item.value) }
            }
        } catch {
            return .failure(
                PrimusError(.credentialsFailed, "The credentials closure threw an error of the type \(type(of: error)).", cause: error))
        }
        do {
            if let requestURL { prepared.endpoint = try await requestURL(prepared.endpoint) }
            for plugin in self.plugins { prepared.endpoint = try await plugin.url(prepared.endpoint) }
        } catch {
            let message = "A closure that changes the URL threw an error of the type \(type(of: error))."
            return .failure(PrimusError(.credentialsFailed, message, cause: error))
        }
        if prepared.endpoint.validationError != nil {
            return .failure(PrimusError(.credentialsFailed, "A closure that changes the URL returned one with an invalid host."))
        }
        if let field = prepared.credentials?.headers.fields.first(where: { !Self.isValid($0) }) {
            let name = Excerpt.of(field.name, limit: 100)
            return .failure(
                PrimusError(.credentialsFailed, "The credentials have a header field \"\(name)\" with an invalid name or value."))
        }
        return .success(prepared)
    }

    /// Whether a field can be sent. A line break would make the request invalid, with an error that doesn't tell why.
    private static func isValid(_ field: HTTPHeaders.Field) -> Bool {
        !field.name.isEmpty && field.name.utf8.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: ":") }
            && field.value.utf8.allSatisfy { $0 >= 0x20 && $0 != 0x7F || $0 == 0x09 }
    }
}

/// The answers of the application for an attempt to connect.
package struct PrimusPrepared: Sendable {
    package var endpoint: Endpoint
    package var credentials: PrimusCredentials?

    package init(endpoint: Endpoint, credentials: PrimusCredentials?) {
        (self.endpoint, self.credentials) = (endpoint, credentials)
    }
}

extension PrimusRequest: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("endpoint", self.endpoint)] }
}

extension PrimusPreparation: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("endpoint", self.endpoint)] }
}

extension PrimusPrepared: Redacting {
    package var visibleFields: [(name: String, value: Any?)] { [("endpoint", self.endpoint)] }
}

/// A message to send, before it has a place in the order of messages.
package enum PrimusContent: Sendable {
    /// A packet, and the parser that has written it.
    case packet(TransportMessage, PrimusCoding)
    /// A value, whose parser isn't known yet.
    case value(PrimusValue)

    /// Returns the content for a client with another parser.
    ///
    /// - Parameter coding: The parser of the application that the other client has; `nil` for one that Primus contains.
    func translated(to coding: PrimusCoding?) throws(PrimusError) -> PrimusContent {
        do {
            switch (self, coding) {
            case (.packet(_, let own), let coding?) where own == coding: return self
            case (.packet(let packet, let own), let coding?): return .packet(try coding.message(try own.value(of: packet)), coding)
            case (.packet(let packet, .custom(let own)), nil): return .value(try own.parser.decode(packet))
            case (.value(let value), let coding?): return .packet(try coding.message(value), coding)
            case (.packet, nil), (.value, nil): return self
            }
        } catch {
            throw .encoding(error)
        }
    }
}

/// A value that passes the transforms before it is sent.
package struct PrimusOutgoing: Sendable {
    /// The number of the value, of all that were given to the transforms of the client.
    package var number: UInt64
    package var value: PrimusValue
    package var mode: PrimusWriteMode
    package var waiter: WaiterID?
    /// The connection on which it is sent, if it isn't sent on another one.
    package var origin: ConnectionID?
}
