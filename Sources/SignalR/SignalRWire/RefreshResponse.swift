import RealtimeCoding
import RealtimeCore

/// The body of the response to a refresh of the authentication, if the server accepted it.
///
/// Source: ASP.NET Core 11, `POST [endpoint-base]/refresh`.
package struct RefreshResponse: Hashable, Sendable, Redacting {
    /// The public ID of the connection.
    package var connectionID: String?
    /// A new token for the requests of the transport, if they have another one than the application's.
    package var accessToken: String?
    /// The lifetime of the new authentication in seconds, if it expires.
    package var tokenLifetime: Double?

    package init(connectionID: String? = nil, accessToken: String? = nil, tokenLifetime: Double? = nil) {
        (self.connectionID, self.accessToken, self.tokenLifetime) = (connectionID, accessToken, tokenLifetime)
    }

    /// Parses the body of a response, whose members are all optional. Returns `nil` if it isn't a JSON object.
    package init?(parsing bytes: [UInt8]) {
        guard let body = try? JSONValue(parsing: bytes), body.object != nil else { return nil }
        self.connectionID = body["connectionId"]?.string
        self.accessToken = body["accessToken"]?.string.flatMap { $0.isEmpty ? nil : $0 }
        self.tokenLifetime = body["tokenLifetimeSeconds"]?.double
    }

    /// The body as JSON.
    package var bytes: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        for (name, value) in [("connectionId", self.connectionID), ("accessToken", self.accessToken)] {
            guard let value else { continue }
            json.key(name)
            json.value(value)
        }
        json.append(tokenLifetime: self.tokenLifetime)
        json.endObject()
        return json.bytes
    }

    package var visibleFields: [(name: String, value: Any?)] {
        [
            ("connectionID", self.connectionID), ("accessToken", Redacted.optional(self.accessToken)),
            ("tokenLifetime", self.tokenLifetime),
        ]
    }
}

/// The body of the response to a refresh of the authentication that the server rejected.
package struct RefreshRejection: Hashable, Sendable {
    /// The code of the reason, such as `invalid_token`.
    package var error: String
    /// A text that describes the reason.
    package var description: String?

    package init(_ error: String, _ description: String?) {
        (self.error, self.description) = (error, description)
    }

    /// Parses the body of a response. Returns `nil` if it contains no code.
    package init?(parsing bytes: [UInt8]) {
        guard let body = try? JSONValue(parsing: bytes), let error = body["error"]?.string else { return nil }
        self.init(error, body["error_description"]?.string)
    }

    /// The body as JSON.
    package var bytes: [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        json.key("error")
        json.value(self.error)
        if let description {
            json.key("error_description")
            json.value(description)
        }
        json.endObject()
        return json.bytes
    }
}

extension JSONWriter {
    /// Appends the lifetime of an authentication to an object, as a whole number, as every server writes it.
    mutating func append(tokenLifetime lifetime: Double?) {
        guard let lifetime = lifetime.flatMap({ Int(exactly: $0.rounded(.down)) }) else { return }
        self.key("tokenLifetimeSeconds")
        self.value(lifetime)
    }
}
