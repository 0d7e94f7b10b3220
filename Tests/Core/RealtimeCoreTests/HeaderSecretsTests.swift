import RealtimeCore
import TestSupport
import Testing

@Suite struct HeaderSecretsTests {
    @Test(arguments: [
        ("Authorization", "Bearer token-1", ["token-1"]), ("Authorization", "token-1", ["token-1"]),
        ("Proxy-Authorization", "Basic dXNlcjpwdw==", ["dXNlcjpwdw=="]), ("Content-Type", "application/json", []),
        ("Cookie", "session=abcdef; theme=dark", ["session=abcdef", "abcdef", "theme=dark"]), ("X-Key", "short", []),
        ("X-Keys", "one-key, two-key", ["one-key", "two-key"]),
    ])
    func `the parts of a field that a text must not contain are found`(name: String, value: String, secrets: [String]) {
        var headers = HTTPHeaders()
        headers.add(name, value)
        expectEqual(headers.secrets, secrets)
    }
}
