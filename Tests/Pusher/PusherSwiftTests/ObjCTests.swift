import Foundation
import PusherSwift
import TestSupport
import Testing

/// The API of PusherSwift for Objective-C, which Swift code can use as well.
@Suite struct ObjCTests {
    @Test func `the initializers for Objective-C are on all platforms`() throws {
        let host = OCPusherHost(cluster: "eu")
        let version7 = PusherClientOptions(
            ocAuthMethod: OCAuthMethod(authEndpoint: "https://host/auth"), attemptToReturnJSONObject: false, autoReconnect: false,
            ocHost: host, port: 6001, encrypted: false, activityTimeout: 7)
        expect(version7.authEndpoint == "https://host/auth" && !version7.attemptToReturnJSONObject && !version7.autoReconnect)
        expect(version7.host == "ws-eu.pusher.com" && version7.port == 6001 && !version7.useTLS && version7.activityTimeout == 7)
        let version5 = PusherClientOptions(ocAuthMethod: OCAuthMethod(), encrypted: false)
        expect(version5.port == 80 && version5.activityTimeout == nil)
        let version10 = PusherClientOptions(ocAuthMethod: OCAuthMethod(secret: "s"), ocHost: OCPusherHost(host: "h"), activityTimeout: 5)
        expect(version10.host == "h" && version10.useTLS && version10.activityTimeout == 5)
        expect(!PusherClientOptions(ocAuthMethod: OCAuthMethod(), attemptToReturnJSONObject: false).attemptToReturnJSONObject)
        let options = PusherClientOptions(authMethod: OCAuthMethod(secret: "secret"))
        guard case .inline("secret") = options.authMethod else { Issue.record("\(options.authMethod)"); return }
        options.setAuthMethod(authMethod: OCAuthMethod(authEndpoint: "https://other"))
        expectEqual(options.authEndpoint, "https://other")
        let connection = Pusher(key: "key", options: options).connection
        expect(connection.OCReconnectAttemptsMax == nil && connection.OCMaxReconnectGapInSeconds == 120)
        connection.OCReconnectAttemptsMax = 3
        connection.OCMaxReconnectGapInSeconds = nil
        expect(connection.reconnectAttemptsMax == 3 && connection.maxReconnectGapInSeconds == nil)
    }
}
