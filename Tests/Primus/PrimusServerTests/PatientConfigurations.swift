import PrimusClient
import PrimusServer
import RealtimeCore
import RealtimeTransports

// Beside other work, and with sanitizers, each step of a client or a server may take long. None of these limits is reached by accident.

extension PrimusServerConfiguration {
    /// A server that waits long for its clients, and sends no pings of its own.
    static func patient(_ kind: BehaviorKind) -> PrimusServerConfiguration {
        var configuration = PrimusServerConfiguration()
        (configuration.transformer, configuration.version) = (kind.transformer, kind.version)
        (configuration.pingInterval, configuration.silenceTimeout) = (nil, nil)
        (configuration.enginePingInterval, configuration.enginePingTimeout) = (.seconds(600), .seconds(600))
        (configuration.sockJSHeartbeatInterval, configuration.sockJSDisconnectDelay) = (.seconds(600), .seconds(600))
        (configuration.authorizationTimeout, configuration.engineProbeTimeout) = (.seconds(600), .seconds(600))
        kind.configureServer(&configuration)
        return configuration
    }
}

extension PrimusConfiguration {
    /// A client of a server on sockets that waits long, and doesn't reconnect unless a test sets it.
    static func patient(_ address: ListenerAddress, _ kind: BehaviorKind) -> PrimusConfiguration {
        var configuration = PrimusConfiguration(Endpoint(scheme: "http", host: address.host, port: address.port), transports: .standard)
        (configuration.log, configuration.retry) = (.none, .none)
        (configuration.detectionTimeout, configuration.connectTimeout) = (.seconds(600), .seconds(600))
        (configuration.silenceLimit, configuration.pingInterval, configuration.probeTimeout) = (
            .seconds(3600), .seconds(3600), .seconds(600)
        )
        kind.configureClient(&configuration)
        return configuration
    }
}
