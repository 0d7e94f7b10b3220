package import RealtimeCore
import RealtimeEncoding

/// The endpoints and queries of the negotiation, which precedes a connection.
///
/// Source: TransportProtocols.md of ASP.NET Core, "`POST [endpoint-base]/negotiate` request".
package enum HubNegotiation {
    /// The newest version of the negotiation that the client and the server support.
    package static let version = 1

    private static let versionField = "negotiateVersion"
    private static let statefulReconnectField = "useStatefulReconnect"

    // MARK: Client

    /// Returns the endpoint of the negotiation request, which is a `POST` with an empty body.
    ///
    /// - Parameters:
    ///   - base: The URL of the hub, or the URL to which a response redirected. Its query is kept, and wins where it has the same fields.
    ///   - useStatefulReconnect: Whether to ask for stateful reconnect.
    package static func endpoint(_ base: Endpoint, useStatefulReconnect: Bool = false) -> Endpoint {
        var endpoint = base.http.appending(path: "negotiate")
        if !Self.hasField(Self.versionField, endpoint.query) { endpoint.addQuery(Self.versionField, "\(Self.version)") }
        if useStatefulReconnect, !Self.hasField(Self.statefulReconnectField, endpoint.query) {
            endpoint.addQuery(Self.statefulReconnectField, "true")
        }
        return endpoint
    }

    /// Returns the endpoint of the transport's requests, with the scheme `http` or `https`.
    ///
    /// - Parameters:
    ///   - base: The URL of the hub, or the URL to which a response redirected.
    ///   - token: ``NegotiateResponse/Connection/token``, or `nil` if the negotiation was skipped.
    package static func connectEndpoint(_ base: Endpoint, token: String?) -> Endpoint {
        var endpoint = base.http
        if let token { endpoint.addQuery("id", token) }
        return endpoint
    }

    /// Returns the endpoint of a request to refresh the authentication, which is a `POST` with an empty body.
    ///
    /// - Parameters:
    ///   - base: The URL of the hub, also if a response redirected to another one.
    ///   - token: ``NegotiateResponse/Connection/secretToken`` of the connection.
    package static func refreshEndpoint(_ base: Endpoint, token: String) -> Endpoint {
        Self.connectEndpoint(base.appending(path: "refresh"), token: token)
    }

    private static func hasField(_ name: String, _ query: String?) -> Bool {
        (query ?? "").utf8.split(separator: UInt8(ascii: "&")).contains { field in
            field.prefix { $0 != UInt8(ascii: "=") }.elementsEqual(name.utf8)
        }
    }

    // MARK: Server

    /// Returns the value of a field of a request's query. The letter case of the name is ignored, as in ASP.NET Core.
    ///
    /// - Parameter fields: The decoded fields of the query.
    package static func value(of name: String, in fields: [(name: String, value: String)]) -> String? {
        let name = name.lowercased()
        return fields.first { $0.name.lowercased() == name }?.value
    }

    /// The request of a client, from the query of its negotiation.
    package struct Request: Hashable, Sendable {
        /// The version of the response: the lower one of the client's and the server's.
        package var version: Int
        package var useStatefulReconnect: Bool

        /// Parses the query of a negotiation.
        ///
        /// - Parameter query: The query, percent-encoded, without the question mark.
        /// - Throws: ``NegotiateError`` if the version isn't a number from 0. Its message is the response, with the text of ASP.NET Core.
        package init(query: some StringProtocol) throws(NegotiateError) {
            let fields = PercentEncoding.fields(query) ?? []
            func value(_ name: String) -> String? { HubNegotiation.value(of: name, in: fields) }
            if let text = value(HubNegotiation.versionField) {
                guard let version = Int(text) else {
                    throw NegotiateError(.invalid, "The client requested a non-integer protocol version.")
                }
                guard version >= 0 else {
                    let message = "The client requested version '\(version)', but the server does not support this version."
                    throw NegotiateError(.invalid, message)
                }
                self.version = min(version, HubNegotiation.version)
            } else {
                self.version = 0
            }
            self.useStatefulReconnect = value(HubNegotiation.statefulReconnectField)?.lowercased() == "true"
        }
    }
}

/// A transport that a server offers.
package struct HubTransportOffer: Hashable, Sendable {
    /// The name as the server sent it. The transport may be unknown.
    package var name: String
    /// The transfer formats: `Text`, `Binary`, or unknown ones.
    package var transferFormats: [String]

    package init(name: String, transferFormats: [String]) {
        self.name = name
        self.transferFormats = transferFormats
    }

    /// Creates an offer of a transport with the formats that it can transfer.
    package init(_ transport: HubTransport) {
        self.name = transport.rawValue
        self.transferFormats = transport == .serverSentEvents ? ["Text"] : ["Text", "Binary"]
    }

    /// The transport, or `nil` if it is unknown.
    package var transport: HubTransport? { HubTransport(rawValue: self.name) }

    /// Returns whether the transport can carry messages in a format.
    package func supports(_ format: HubFormat) -> Bool { self.transferFormats.contains(format.transferFormat) }
}

/// The reason why a negotiation failed, and what to do.
package struct NegotiateError: Error, Hashable, Sendable, CustomStringConvertible {
    package enum Code: Hashable, Sendable {
        /// The body isn't a JSON object.
        case notJSON
        /// The server is one for ASP.NET SignalR, before ASP.NET Core.
        case oldServer
        /// A part of the body is missing or invalid.
        case invalid
    }

    package let code: Code
    package let message: String

    package init(_ code: Code, _ message: String) {
        self.code = code
        self.message = message
    }

    package var description: String { self.message }
}
