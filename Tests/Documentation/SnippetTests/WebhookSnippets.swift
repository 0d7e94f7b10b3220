import PusherTesting
import RealtimeCore
import RealtimeSockets
import Testing

// The snippets of the article Webhooks, and those about webhooks and several apps in documentation comments.

// snippet:webhook-respond
func respond(to request: HTTPRequestHead, body: [UInt8], publisher: PusherPublisher) -> Int {
    do {
        let webhook = try publisher.webhook(
            key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body)
        for event in webhook.events {
            switch event {
            case .memberAdded(let channel, let userID): print("\(userID) joined \(channel)")
            case .memberRemoved(let channel, let userID): print("\(userID) left \(channel)")
            default: print("\(event.name ?? "an event") on \(event.channel ?? "no channel")")
            }
        }
        return 200
    } catch {
        print(error.message)
        return error.code == .invalidSignature ? 401 : 400
    }
}
// end

private func severalKeys(key: String?, signature: String?, body: [UInt8]) throws {
    // snippet:webhook-keys
    let webhook = try PusherWebhook(key: key, signature: signature, body: body, secrets: ["key-1": "secret-1", "key-2": "secret-2"])
    print("App \(webhook.key) reports \(webhook.events.count) events")
    // end
}

private func reference(request: HTTPRequestHead, body: [UInt8], publisher: PusherPublisher) throws {
    // snippet:webhook
    let webhook = try publisher.webhook(
        key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body)
    for event in webhook.events {
        if case .channelVacated(let channel) = event { print(channel, "is empty") }
    }
    // end
}

private func server(app: PusherApp) throws {
    // snippet:server-webhooks-setting
    let webhooks = PusherServerWebhooks([try Endpoint("http://127.0.0.1:3000/pusher/webhooks")])
    let server = PusherServer(app: app, webhooks: webhooks)
    // end
    _ = server
}

private func apps(_ apps: [PusherApp]) async throws {
    // snippet:server-router
    let servers = apps.map { PusherServer(app: $0) }
    let listener = SocketListener(port: 8080)
    let address = try await listener.start(PusherServerRouter(servers))
    // end
    _ = address
}

@Suite struct WebhookSnippets {
    /// The application server of the article.
    private final class Application: ListenerHandler {
        let publisher: PusherPublisher
        let statuses = EventRecorder<Int>()

        init(_ publisher: PusherPublisher) {
            self.publisher = publisher
        }

        func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
            let status = respond(to: request, body: body, publisher: self.publisher)
            self.statuses.record(status)
            responder.respond(HTTPResponse(status: status))
        }
    }

    @Test func `the application server of the article accepts webhooks with the right secret only`() async throws {
        for (secret, status) in [("secret", 200), ("wrong", 401)] {
            let application = Application(PusherPublisher(appID: "1", key: "key", secret: secret, cluster: "eu"))
            // snippet:webhook-test
            let webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: "app", port: 80, target: "/pusher/webhooks")])
            let pusher = try await InMemoryPusher(webhooks: webhooks)
            let address = try await pusher.network.listener(host: "app", port: 80).start(application)
            let client = pusher.client(userID: "anna")
            client.connect()
            try client.subscribe("presence-room")
            client.disconnect()
            pusher.clock.advance(by: .seconds(3))
            // end
            _ = address
            try await eventually { application.statuses.all.count >= 4 }
            #expect(application.statuses.all.allSatisfy { $0 == status })
        }
    }
}
