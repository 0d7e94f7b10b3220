import Foundation
import RealtimeCore
import RealtimeTesting
import SignalRClient
import SignalRTesting
import TestSupport
import Testing

/// The errors that the code of the application throws, and the texts of errors.
@Suite(.timeLimit(.minutes(10))) struct ApplicationErrorTests {
    enum AuthError: Error, Equatable { case loginRequired }

    @Test func `what the factory of tokens throws is thrown by start as it is`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        var options = HttpConnectionOptions()
        options.accessTokenFactory = { throw AuthError.loginRequired }
        let connection = signalR.connectionBuilder("/chat").withUrl(url: signalR.url("/chat"), options: options).build()
        await #expect(throws: AuthError.loginRequired) { try await connection.start() }
        let error = await #expect(throws: HubError.self) { try await connection.client.start() }
        expect(error?.code == .tokenFailed && error?.cause as? AuthError == .loginRequired)
        guard case .stopped(let stored?) = connection.client.state else { return expect(false, "it should be stopped") }
        expect(stored == error && stored.cause == nil)
    }

    @Test func `what an HttpClient throws is thrown by start as it is, and is a cause`() async throws {
        struct Client: HttpClient {
            func send(request: HttpRequest) async throws -> (StringOrData, HttpResponse) { throw AuthError.loginRequired }
        }
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        var options = HttpConnectionOptions()
        options.httpClient = Client()
        let connection = signalR.connectionBuilder("/chat").withUrl(url: signalR.url("/chat"), options: options).build()
        await #expect(throws: AuthError.loginRequired) { try await connection.start() }
        let error = await #expect(throws: HubError.self) { try await connection.client.start() }
        let cause = try #require(error?.cause as? TransportError)
        expectEqual(cause.cause as? AuthError, .loginRequired)
        expectEqual("\(String(reflecting: cause))".contains("loginRequired"), false)
        guard case .stopped(let stored?) = connection.client.state else { return expect(false, "it should be stopped") }
        expect((stored.cause as? TransportError)?.cause == nil && stored == error)
    }

    @Test func `what a policy for reconnects throws is the cause of the end`() async throws {
        let signalR = try await InMemorySignalR()
        _ = signalR.server.hub("/chat")
        let client = signalR.client("/chat") { $0.retry = .custom { _ in throw AuthError.loginRequired } }
        let connection = HubConnection(client)
        let closed = EventRecorder<AuthError?>()
        connection.onClosed { closed.record($0 as? AuthError) }
        try await connection.start()
        signalR.network.cut()
        try await eventually { closed.all == [.loginRequired] }
    }

    @Test func `an error that has lost its type is described by its message`() {
        let errors: [any Error] = [HubError(.timedOut, "too late"), SignalRError.invalidOperation("too late")]
        expectEqual(errors.map(\.localizedDescription), ["too late", "too late"])
        expectEqual(SignalRError.connectionAborted.localizedDescription, SignalRError.connectionAborted.description)
    }
}
