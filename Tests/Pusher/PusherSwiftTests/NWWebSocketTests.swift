import Foundation
import NWWebSocket
import PusherServer
import struct RealtimeCore.CloseCode
import class RealtimeSockets.SocketListener
import RealtimeTesting
import TestSupport
import Testing

#if canImport(FoundationNetworking)
import FoundationNetworking
#endif
#if canImport(Network)
import Network
#endif

/// The socket on its own.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct NWWebSocketTests {
    private final class SocketDelegate: WebSocketConnectionDelegate {
        let calls = EventRecorder<String>()

        func webSocketDidConnect(connection: any WebSocketConnection) { self.calls.record("connected") }
        func webSocketDidDisconnect(
            connection: any WebSocketConnection, closeCode: NWProtocolWebSocket.CloseCode, reason: Data?
        ) {
            self.calls.record("disconnected \(closeCode) \(reason.map { String(decoding: $0, as: UTF8.self) } ?? "nil")")
        }
        func webSocketViabilityDidChange(connection: any WebSocketConnection, isViable: Bool) {}
        func webSocketDidAttemptBetterPathMigration(result: Result<any WebSocketConnection, NWError>) {}
        func webSocketDidReceiveError(connection: any WebSocketConnection, error: NWError) { self.calls.record("error \(error)") }
        func webSocketDidReceivePong(connection: any WebSocketConnection) { self.calls.record("pong") }
        func webSocketDidReceiveMessage(connection: any WebSocketConnection, string: String) { self.calls.record("text \(string)") }
        func webSocketDidReceiveMessage(connection: any WebSocketConnection, data: Data) { self.calls.record("data") }
    }

    private func withServer(_ body: (_ url: String, PusherServer) async throws -> Void) async throws {
        let server = PusherServer(app: PusherApp(id: "1", key: "key", secret: "secret"), log: .none)
        let address = try await server.start(on: SocketListener(limits: .forTests))
        do {
            try await body("ws://\(address.host):\(address.port)/app/key?protocol=7", server)
        } catch {
            await server.stop()
            throw error
        }
        await server.stop()
    }

    @Test func `a socket connects, sends, receives and pings, and can be used again after it was disconnected`() async throws {
        try await self.withServer { url, _ in
            let delegate = SocketDelegate()
            let socket = NWWebSocket(url: try #require(URL(string: url)))
            socket.delegate = delegate
            for _ in 1...2 {
                socket.connect()
                socket.connect()
                try await eventually { delegate.calls.all.count == 2 }
                expect(delegate.calls.all[0] == "connected" && delegate.calls.all[1].contains("pusher:connection_established"))
                socket.send(string: #"{"event":"pusher:ping","data":{}}"#)
                try await eventually { delegate.calls.all.count == 3 }
                expect(delegate.calls.all[2].hasPrefix(#"text {"event":"pusher:pong""#))
                socket.ping()
                try await eventually { delegate.calls.all.last == "pong" }
                socket.ping(interval: 0.01)
                try await eventually { delegate.calls.all.count >= 6 }
                socket.disconnect()
                try await eventually { delegate.calls.all.last?.hasPrefix("disconnected protocolCode") == true }
                _ = delegate.calls.take()
            }
        }
    }

    @Test func `the close code and the reason of a server are reported`() async throws {
        try await self.withServer { url, server in
            let delegate = SocketDelegate()
            var request = URLRequest(url: try #require(URL(string: url)))
            request.setValue("1", forHTTPHeaderField: "X-Test")
            let socket = NWWebSocket(request: request, connectAutomatically: true)
            socket.delegate = delegate
            try await eventually { server.socketIDs.count == 1 }
            server.close(server.socketIDs[0], CloseCode(rawValue: 4200), reason: "bye")
            try await eventually { delegate.calls.all.last == "disconnected privateCode(4200) bye" }
        }
    }

    @Test(arguments: ["test", "ftp://host", "ws://127.0.0.1:1/app"])
    func `a socket that can't connect reports an error`(url: String) async throws {
        let delegate = SocketDelegate()
        let socket = NWWebSocket(url: try #require(URL(string: url)))
        socket.delegate = delegate
        socket.connect()
        try await eventually { delegate.calls.all.count == 1 }
        expect(delegate.calls.all[0].hasPrefix("error "))
        socket.send(string: "dropped")
        socket.disconnect()
        expectEqual(delegate.calls.all.count, 1)
    }

    @Test func `close codes have the numbers of the protocol`() {
        for number in [1000, 1001, 1006, 3000, 4000, 4999] as [UInt16] {
            expectEqual(NWProtocolWebSocket.CloseCode(CloseCode(rawValue: number)).number.rawValue, number)
        }
        expectEqual(NWProtocolWebSocket.CloseCode(CloseCode(rawValue: 4200)), .privateCode(4200))
        expectEqual(NWProtocolWebSocket.CloseCode(CloseCode(rawValue: 1000)), .protocolCode(.normalClosure))
    }
}
