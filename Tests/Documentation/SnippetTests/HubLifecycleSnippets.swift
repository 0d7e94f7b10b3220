import RealtimeSockets
import SignalRClient

// The snippets of the articles HubReconnection and HubAuthentication.

private func policies() throws {
    // snippet:hub-retry
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.retry = .backoff(Backoff(base: .seconds(1), cap: .seconds(30)))
    configuration.retriesFirstStart = true
    // end
    // snippet:hub-retry-custom
    configuration.retry = .custom { context in
        context.reason.code == .unauthorized || context.elapsed > .seconds(300) ? nil : .seconds(5)
    }
    // end
    // snippet:hub-allowed-transports
    configuration.allowedTransports = [.webSockets, .longPolling]
    // end
    // snippet:hub-stateful-reconnect
    configuration.statefulReconnect = HubStatefulReconnect()
    // end
    _ = configuration
}

private func updates(_ client: HubClient) async {
    // snippet:hub-updates
    for await update in client.updates() {
        switch update {
        case .reconnecting(let error): print("lost: \(error.message)")
        case .connectingIn(let delay): print("next attempt in \(delay)")
        case .reconnected: print("connected again")
        case .closed(let error): print("ended: \(error?.message ?? "stopped")")
        case .error(let error), .authenticationRefreshFailed(let error): print(error.message)
        case .state, .transport, .resumed, .authenticationRefreshed: break
        }
    }
    // end
}

private func reload(_ client: HubClient) async throws {
    // snippet:hub-reload
    for await case .connected in client.states {
        try await client.invoke("JoinRoom", "lobby")
    }
    // end
}

private func timing(_ configuration: inout HubConfiguration) {
    // snippet:hub-timing
    configuration.keepAliveInterval = .seconds(10)
    configuration.serverTimeout = .seconds(60)
    configuration.connectTimeout = .seconds(30)
    // end
}

private func foreground(_ client: HubClient) {
    // snippet:hub-foreground
    client.checkConnection()
    // end
}

private func token(_ session: UserSession) async throws {
    // snippet:hub-token
    var configuration = try HubConfiguration(url: "https://example.org/chat")
    configuration.accessToken = { try await session.token() }
    // end
    // snippet:hub-headers
    configuration.headers["X-Api-Key"] = "key"
    configuration.headers["Cookie"] = "session=abc"
    // end
    // snippet:hub-refresh-automatically
    configuration.refreshesAuthentication = true
    configuration.refreshBeforeExpiration = .seconds(120)
    // end
}

private func refresh(_ client: HubClient) async {
    // snippet:hub-refresh
    do {
        let lifetime = try await client.refreshAuthentication()
        print("valid for \(lifetime ?? .zero)")
    } catch {
        print(error.status ?? 0, error.serverCode ?? "", error.message)
    }
    // end
    // snippet:hub-refresh-updates
    for await update in client.updates() {
        switch update {
        case .authenticationRefreshed(let lifetime): print("refreshed for \(lifetime ?? .zero)")
        case .authenticationRefreshFailed(let error): print(error.message)
        default: break
        }
    }
    // end
}

private func refreshConnection(_ options: HttpConnectionOptions) async throws {
    // snippet:hub-refresh-connection
    let connection = HubConnectionBuilder()
        .withUrl(url: "https://example.org/chat", options: options)
        .withAuthenticationRefresh(refreshBeforeExpiration: 120)
        .build()
    connection.onAuthenticationRefreshed { lifetime in print("refreshed for \(lifetime ?? 0) seconds") }
    connection.onAuthenticationRefreshFailed { error in print(error) }
    try await connection.start()
    try await connection.refreshAuthentication()
    // end
}

private func tokenFactory(_ session: UserSession) {
    // snippet:hub-token-factory
    var options = HttpConnectionOptions()
    options.accessTokenFactory = { try await session.token() }
    options.headers = ["X-Api-Key": "key"]
    let connection = HubConnectionBuilder()
        .withUrl(url: "https://example.org/chat", options: options)
        .build()
    // end
    _ = connection
}

private func refused(_ client: HubClient) async {
    // snippet:hub-unauthorized
    do {
        try await client.start()
    } catch {
        if error.code == .unauthorized { print("Sign in again. Status: \(error.status ?? 0)") }
    }
    // end
}

private func connectionTLS() {
    // snippet:hub-connection-tls
    var tls = TLSConfiguration()
    tls.trustRoots = .systemAnd([.file("/etc/myservice/root.pem")])

    var transports = Transports.standard
    transports.webSocket = SocketWebSocketTransport(tls: tls)
    transports.http = SocketHTTPTransport(tls: tls)
    let connection = HubConnectionBuilder()
        .withUrl(url: "https://example.org/chat")
        .withTransports(transports)
        .build()
    // end
    _ = connection
}

private func insecure() throws {
    // snippet:hub-skip-negotiation
    var configuration = try HubConfiguration(url: "wss://example.org/chat")
    configuration.allowedTransports = .webSockets
    configuration.skipsNegotiation = true
    // end
    _ = configuration
}
