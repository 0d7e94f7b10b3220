import PusherChannels

// The snippets of the article Reconnection.

func reloadSnippet(_ client: PusherClient, _ reload: () async throws -> Void) async throws {
    // snippet:reconnection-reload
    for await state in client.states {
        if case .connected = state { try await reload() }
    }
    // end
}

func settingsSnippet() {
    // snippet:reconnection-settings
    var configuration = PusherConfiguration(key: "app-key", cluster: "eu")
    configuration.backoff = Backoff(base: .milliseconds(500), cap: .seconds(30))
    configuration.activityTimeout = .seconds(30)
    configuration.pongTimeout = .seconds(10)
    // end
    _ = configuration
}

func recoverySnippet() {
    // snippet:reconnection-recovery
    var configuration = PusherConfiguration(key: "app-key", host: "127.0.0.1", port: 6001, useTLS: false)
    configuration.recovery = .sockudo
    // end
    _ = configuration
}

func recoveryFailureSnippet(_ channel: PusherChannel) async {
    func reload(changedWithin duration: Duration) async {}
    // snippet:reconnection-recovery-failure
    for await gap in channel.gaps {
        if let failure = gap.recoveryFailure { print("Loading again, because \(failure)") }
        await reload(changedWithin: gap.duration + .seconds(10))
    }
    // end
}

func checkSnippet(_ client: PusherClient) {
    // snippet:reconnection-check
    client.checkConnection()
    // end
}

func delaySnippet(_ client: PusherClient) async {
    // snippet:reconnection-delays
    for await delay in client.connectingIn { print("Next attempt in \(delay)") }
    // end
}

func retrySnippet(_ configuration: inout PusherConfiguration) {
    // snippet:reconnection-retry
    configuration.retry = .custom { context in
        guard context.elapsed < .seconds(600) else { return nil }
        return context.retryCount == 0 ? .zero : .seconds(5)
    }
    // end
}

func updateSnippet(_ client: PusherClient) throws {
    // snippet:reconnection-update
    try client.update { configuration in
        configuration.authorizer = try? .endpoint("https://example.org/other/auth")
        configuration.retry = .delays([.zero, .seconds(2), .seconds(10)])
    }
    // end
}

func switchSnippet(_ client: PusherClient) throws {
    // snippet:reconnection-switch
    try client.switchCluster("us3", key: "other-key")
    try client.switchServer {
        $0.host = "ws.example.org"
        $0.authorizer = .secret("another-secret")
    }
    // end
}

func updateReferenceSnippet(_ client: PusherClient) throws {
    // snippet:reference-update
    try client.update { $0.authorizer = .secret("another-secret") }
    // end
}

func switchReferenceSnippet(_ client: PusherClient) throws {
    // snippet:reference-switch
    try client.switchServer {
        $0.key = "other-key"
        $0.host = "ws.example.org"
    }
    // end
}
