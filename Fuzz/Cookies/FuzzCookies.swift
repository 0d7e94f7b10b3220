import RealtimeCore

/// Reads arbitrary bytes as the cookies and the redirect of a response. Reading must not crash, and what follows must be valid, limited, and
/// sent only where it belongs.
@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzCookies(_ start: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let lines = String(decoding: UnsafeRawBufferPointer(start: start, count: count), as: UTF8.self)
        .split(separator: "\n", omittingEmptySubsequences: false).map { String($0) }
    var head = HTTPResponseHead(status: 307)
    head.headers["Location"] = lines.first
    for line in lines.dropFirst() { head.headers.add("Set-Cookie", line) }

    let origin = Endpoint(scheme: "https", host: "example.com", port: 443, target: "/chat/negotiate")
    var jar = CookieJar()
    jar.store(head.headers, from: origin, now: Instant(nanoseconds: 0))
    let cookies = jar.headers([:], for: origin)["Cookie"] ?? ""
    precondition(cookies.utf8.allSatisfy { (0x20...0x7E).contains($0) }, "the field is invalid")
    precondition(cookies.utf8.count <= 8000, "the field is too large")
    var other = origin
    other.host = "elsewhere.example"
    precondition(jar.headers([:], for: other)["Cookie"] == nil, "a cookie is sent to another host")
    jar.removeExpired(now: Instant(nanoseconds: .max))

    let request = HTTPRequest("POST", origin, headers: ["Authorization": "Bearer token", "Cookie": "a=b"], body: [1])
    if let next = try? request.redirected(by: head) {
        precondition(next.endpoint.scheme == "https" && next.method == "POST", "the redirect isn't allowed")
        let isSame = next.endpoint.origin == origin.origin
        precondition((next.headers["Authorization"] != nil) == isSame && (next.headers["Cookie"] != nil) == isSame, "credentials")
    }
    return 0
}
