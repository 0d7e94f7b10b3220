import Testing

@testable import PusherSwift

@Suite struct PusherSwiftRedactionTests {
    @Test func `the text of settings and authorizations contains no secrets`() {
        let method = AuthMethod.inline(secret: "hunter2")
        let values: [Any] = [
            method, PusherAuth(auth: "key:hunter2", channelData: "hunter2", sharedSecret: "hunter2"),
            PusherClientOptions(authMethod: method), OCAuthMethod(secret: "hunter2"), Pusher(key: "key"),
            AuthMethod.endpoint(authEndpoint: "https://host/auth?token=hunter2"),
        ]
        for value in values {
            var dumped = ""
            dump(value, to: &dumped)
            for text in ["\(value)", String(reflecting: value), dumped] { #expect(!text.contains("hunter2")) }
        }
    }
}
