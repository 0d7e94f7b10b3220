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
