package import RealtimeCoding
import RealtimeCore
import RealtimeTransports
import TestSupport

/// The `/control` API of the peer `aspnet`.
package struct ASPNETControl: Sendable {
    package let port: Int

    package init(port: Int) { self.port = port }

    /// Sends a request, and returns what the server answers. Throws a ``Peer/Failure`` if its status isn't 200.
    ///
    /// It doesn't use `#require`, which would also fail a test that tries again after an error.
    @discardableResult
    package func callAsFunction(_ target: String, _ method: String = "POST") async throws -> JSONValue {
        let endpoint = Endpoint(scheme: "http", host: "127.0.0.1", port: self.port, target: "/control/\(target)")
        let response = try await Transports.standard.http.send(HTTPRequest(method, endpoint))
        guard response.head.status == 200 else {
            throw Peer.Failure(description: "/control/\(target) answered with the status \(response.head.status)")
        }
        return try JSONValue(parsing: response.body)
    }

    /// Cuts the connections of all clients.
    ///
    /// A client may be between two polls. And if a request ends while the server cuts it, the server answers with an empty body or with the
    /// status 500, and may have cut only some of the connections.
    ///
    /// - Returns: How often it has cut connections.
    @discardableResult
    package func cut() async throws -> Int {
        var count = 0
        try await eventually("a cut connection") {
            count += 1
            return (try? await self("cut"))?["cut"]?.int ?? 0 > 0
        }
        return count
    }
}
