import Foundation
import NWWebSocket
import TestSupport
import Testing

@testable import PusherSwift

#if canImport(Network)
import Network
#endif

/// The text of the public values of these modules.
@Suite struct PusherSwiftRedactionTests {
    /// A part of every secret in these tests.
    private static let marker = "hunter2"

    private final class Builder: AuthRequestBuilderProtocol {}

    private static var methods: [AuthMethod] {
        [
            .inline(secret: marker), .endpoint(authEndpoint: "https://host/auth?token=\(marker)"),
            .authRequestBuilder(authRequestBuilder: Builder()), .noMethod,
        ]
    }

    private static func options(_ method: AuthMethod) -> PusherClientOptions {
        let options = PusherClientOptions(authMethod: method)
        options.authHeaders = ["Authorization": Self.marker]
        options.authParameters = ["token": Self.marker]
        return options
    }

    /// Values that contain the marker wherever they can contain a secret.
    private static func secretValues() -> [String: [Any]] {
        let pushers = Self.methods.map { Pusher(key: "key", options: Self.options($0)) }
        let auth = PusherAuth(auth: "key:\(Self.marker)", channelData: Self.marker, sharedSecret: Self.marker)
        return [
            "AuthMethod": Self.methods,
            "OCAuthMethod": Self.methods.map { $0.toObjc() },
            "PusherAuth": [auth],
            "PusherClientOptions": Self.methods.map { Self.options($0) },
            "NativePusher": pushers.map(\.nativePusher),
        ]
    }

    /// Values of the types that contain no secrets, or that can be extended.
    private static func otherValues() -> [String: [Any]] {
        let event = PusherConnectionEvent(name: "error", data: PusherConnectionEvent.ErrorData(code: 1, message: ""))
        var values: [String: [Any]] = [
            "ConnectionState": [ConnectionState.connected],
            "EventHandler": [EventHandler(id: "1", callback: { _ in })],
            "OCPusherHost": [OCPusherHost()],
            "PusherChannelType": [PusherChannelType.private],
            "PusherConnectionEvent": [event],
            "PusherConnectionEvent.ErrorData": [event.data as Any].compactMap { $0 as? PusherConnectionEvent.ErrorData },
            "PusherConnectionPhase": [PusherConnectionPhase.connected],
            "PusherHost": [PusherHost.defaultHost],
            "PusherPresenceChannelMember": [PusherPresenceChannelMember(userId: "a")],
            "QueuedClientEvent": [QueuedClientEvent(name: "client-a", data: "")],
            "NWError": [NWError.posix(.ECONNRESET)],
            "NWProtocolWebSocket.CloseCode": [NWProtocolWebSocket.CloseCode.privateCode(4000)],
            "NWProtocolWebSocket.CloseCode.Defined": [NWProtocolWebSocket.CloseCode.Defined.normalClosure],
            "NWProtocolWebSocket.Options": [NWWebSocket.defaultOptions],
        ]
        // A namespace.
        values["NWProtocolWebSocket"] = []
        // Only for Objective-C.
        values["FormerConnectionState"] = []
        return values
    }

    @Test func `the text of settings and authorizations contains no secrets`() {
        for (name, values) in Self.secretValues() {
            for value in values {
                expectEqual(PrintedText.typeName(of: value), name)
                let leak = PrintedText.texts(of: value).first { $0.contains(Self.marker) }
                expectNil(leak, "\(name)")
            }
        }
    }

    @Test func `every public type of these modules is in the lists of this test`() throws {
        let others = Self.otherValues()
        for (name, values) in others { for value in values { expectEqual(PrintedText.typeName(of: value), name) } }
        // Open classes aren't found, because their modifier isn't `public`.
        let listed = Set(Self.secretValues().keys).subtracting(["NativePusher"]).union(others.keys)
        let folders = ["PusherSwift", "NWWebSocket"]
        let declared = Set(try folders.flatMap { try PublicDeclarations.types(in: "Sources/Pusher/\($0)") })
        expectEqual(declared.subtracting(listed).sorted(), [], "add a value of each new type to one of the lists")
        expectEqual(listed.subtracting(declared).sorted(), [], "remove the types that no longer exist")
    }
}
