import RealtimeCoding

/// The first message in each direction, which selects the format. It is JSON for all formats.
///
/// Source: HubProtocol.md of ASP.NET Core, "HandshakeRequest Message" and "HandshakeResponse Message".
package enum HubHandshake {
    /// The separator after each JSON text: the control character U+001E.
    package static let separator: UInt8 = 0x1E
    /// The maximum size of a handshake in bytes, which a peer that speaks another protocol would exceed.
    package static let sizeLimit = 16384

    private static let keys = JSONKeys("error", "type", "protocol", "version")

    /// Returns the client's request.
    ///
    /// - Parameters:
    ///   - format: The format of the messages after the handshake.
    ///   - version: The version of the protocol: 2 with stateful reconnect, 1 otherwise.
    package static func request(_ format: HubFormat, version: Int) -> [UInt8] {
        Array(#"{"protocol":"\#(format.protocolName)","version":\#(version)}"#.utf8) + [Self.separator]
    }

    /// Returns the server's response.
    ///
    /// - Parameter error: The reason why the server rejects the request, or `nil` to accept it.
    package static func response(error: String?) -> [UInt8] {
        var json = JSONWriter()
        json.beginObject()
        if let error {
            json.key("error")
            json.value(error)
        }
        json.endObject()
        return json.bytes + [Self.separator]
    }

    /// Parses the server's response.
    ///
    /// - Parameter bytes: The bytes received so far. The response may be followed by messages.
    /// - Returns: The error with which the server rejects the request, or `nil` if it accepts, and the number of bytes that the response
    ///   occupies. `nil` if the response isn't complete.
    /// - Throws: ``HubMessageError`` if the bytes aren't a response.
    package static func parseResponse(_ bytes: UnsafeRawBufferPointer) throws(HubMessageError) -> (error: String?, consumed: Int)? {
        guard let (scan, text) = try Self.scan(bytes, "response") else { return nil }
        switch scan[0].kind {
        case .missing, .null: return (nil, text.count + 1)
        case .string, .escapedString: return (JSONText.string(scan[0], in: text), text.count + 1)
        default: throw HubMessageError("invalid handshake response: \"error\" must be a string")
        }
    }

    /// Parses the client's request.
    ///
    /// - Parameter bytes: The bytes received so far. The request may be followed by messages.
    /// - Returns: The name of the format, the version, and the number of bytes that the request occupies. `nil` if the request isn't
    ///   complete.
    /// - Throws: ``HubMessageError`` if the bytes aren't a request.
    package static func parseRequest(
        _ bytes: UnsafeRawBufferPointer
    ) throws(HubMessageError) -> (protocolName: String, version: Int, consumed: Int)? {
        guard let (scan, text) = try Self.scan(bytes, "request") else { return nil }
        guard scan[2].kind.isString else { throw HubMessageError("invalid handshake request: \"protocol\" must be a string") }
        guard scan[3].kind.isNumber, let version = JSONText.integer(scan[3], in: text).flatMap({ Int(exactly: $0) }) else {
            throw HubMessageError("invalid handshake request: \"version\" must be an integer")
        }
        return (JSONText.string(scan[2], in: text), version, text.count + 1)
    }

    /// Collects a handshake from the data that a connection receives, which may divide it anywhere, and may contain messages behind it.
    ///
    /// It copies and searches each byte once, and keeps no more than a handshake may have.
    package struct Buffer: Sendable {
        /// The handshake, with its separator if it is complete.
        package private(set) var bytes: [UInt8] = []

        package init() {}

        /// Adds the next data of the connection.
        ///
        /// - Returns: The number of bytes that belong to the handshake; the remaining ones are messages. `nil` if the handshake isn't
        ///   complete.
        /// - Throws: ``HubMessageError`` if the handshake exceeds ``HubHandshake/sizeLimit``.
        package mutating func append(_ data: UnsafeRawBufferPointer) throws(HubMessageError) -> Int? {
            let data = UnsafeRawBufferPointer(rebasing: data.prefix(HubHandshake.sizeLimit - self.bytes.count))
            let end = data.firstIndex(of: HubHandshake.separator)
            self.bytes += end.map { UnsafeRawBufferPointer(rebasing: data[...$0]) } ?? data
            if end == nil, self.bytes.count >= HubHandshake.sizeLimit {
                throw HubMessageError("no end of the handshake within \(HubHandshake.sizeLimit) bytes")
            }
            return end.map { $0 + 1 }
        }
    }

    /// Scans the text before the first separator, or returns `nil` if there is no separator.
    private static func scan(
        _ bytes: UnsafeRawBufferPointer, _ name: String
    ) throws(HubMessageError) -> (JSONObjectScan, UnsafeRawBufferPointer)? {
        guard let end = bytes.prefix(Self.sizeLimit).firstIndex(of: Self.separator) else {
            if bytes.count >= Self.sizeLimit { throw HubMessageError("the handshake \(name) exceeds \(Self.sizeLimit) bytes") }
            return nil
        }
        let text = UnsafeRawBufferPointer(rebasing: bytes[..<end])
        let scan: JSONObjectScan
        do throws(JSONError) {
            scan = try JSONObjectScan(text, keys: Self.keys)
        } catch {
            throw HubMessageError("invalid handshake \(name): \(error.message)")
        }
        // Without this check, a ping or another message would be taken for a response that accepts.
        if scan[1].kind != .missing {
            let type = scan[1].kind.isNumber ? JSONText.integer(scan[1], in: text).flatMap { Int(exactly: $0) } : nil
            throw HubMessageError("expected a handshake \(name), received a hub message", type: type)
        }
        return (scan, text)
    }
}
