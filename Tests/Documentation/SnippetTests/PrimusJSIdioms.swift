import PrimusClient
import RealtimeCore
import RealtimeSockets

// The code in the tables of the article PrimusJSOptions. A test checks that each piece is in this file.

private func options(
    _ configuration: inout PrimusConfiguration, _ url: @escaping @Sendable (Endpoint) async throws -> Endpoint
) {
    configuration.connectTimeout = .seconds(10)
    configuration.silenceLimit = .seconds(45)
    configuration.retry = .backoff(PrimusBackoff(minimum: .milliseconds(500), maximum: .seconds(30), retries: 10))
    configuration.retry = .primus
    configuration.reconnectTimeout = .seconds(30)
    configuration.strategies = [.disconnect, .online]
    configuration.strategies = []
    configuration.queue = .dropOldest(100)
    configuration.allowedTransports = .polling
    configuration.transports.networkPath = nil
    configuration.transformer = .engineIO
    configuration.parser = .msgpack
    configuration.plugins = [.emitter]
    configuration.requestURL = { endpoint in try await url(endpoint) }
}

private func open(_ primus: PrimusConnection) { primus.open() }

private func optionsOfTransport(_ configuration: inout PrimusConfiguration, _ tls: TLSConfiguration, _ proxy: ProxyConfiguration) {
    configuration.headers["X-Version"] = "1"
    configuration.allowedTransports = .webSockets
    configuration.startsWithPolling = true
    configuration.transports.webSocket = SocketWebSocketTransport(tls: tls)
    configuration.transports.http = SocketHTTPTransport(proxy: proxy)
    configuration.messageLimit = 1 << 20
}
