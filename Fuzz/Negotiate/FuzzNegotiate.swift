import RealtimeCore
import SignalRWire

/// Reads arbitrary bytes as the response to a negotiation, as that to a refresh, and as the query of a request. Reading must not crash, a response must survive
/// writing and reading, and endpoints must stay valid.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzNegotiate(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeRawBufferPointer(start: start, count: count))
    if let response = try? NegotiateResponse(parsing: bytes) {
        let again = try? NegotiateResponse(parsing: response.bytes)
        precondition(again == expected(response), "the written response can't be read")
        follow(response)
    }

    _ = (RefreshResponse(parsing: bytes), RefreshRejection(parsing: bytes))
    let text = String(decoding: bytes, as: UTF8.self)
    _ = try? HubNegotiation.Request(query: text)
    if let base = try? Endpoint(text) {
        let endpoint = HubNegotiation.endpoint(base, useStatefulReconnect: true)
        precondition((try? Endpoint(endpoint.origin + endpoint.target)) == endpoint, "the endpoint isn't a URL")
        precondition(endpoint.path.hasSuffix("/negotiate"), "the endpoint has another path")
    }
    return 0
}

/// The response as it is read from its written form: a lifetime is written as a whole number.
private func expected(_ response: NegotiateResponse) -> NegotiateResponse {
    func whole(_ lifetime: Double?) -> Double? { lifetime.flatMap { Int(exactly: $0.rounded(.down)) }.map { Double($0) } }
    switch response {
    case .connection(var connection):
        connection.tokenLifetime = whole(connection.tokenLifetime)
        return .connection(connection)
    case .redirect(var redirect):
        redirect.tokenLifetime = whole(redirect.tokenLifetime)
        return .redirect(redirect)
    case .error: return response
    }
}

private func follow(_ response: NegotiateResponse) {
    let base = Endpoint(scheme: "https", host: "example.com", port: 443, target: "/hub?a=b")
    switch response {
    case .connection(let connection):
        let endpoint = HubNegotiation.connectEndpoint(base, token: connection.token)
        precondition(endpoint.queryValue("id") == connection.token, "the token has changed")
    case .redirect(let redirect): _ = try? base.resolving(redirect.url)
    case .error(let text): precondition(!text.isEmpty, "an error without a text")
    }
}
