import PusherChannels
import PusherServer
import RealtimeSockets

/// A user who has joined a presence channel.
nonisolated struct Arrival: Sendable {
    let user: String
    let channel: String
}

/// The part of an application server that receives webhooks and verifies them.
nonisolated final class WebhookReceiver: ListenerHandler {
    /// The secrets of the apps, by their keys.
    private let secrets: [String: String]
    private let arrivals: AsyncStream<Arrival>.Continuation

    init(secrets: [String: String], arrivals: AsyncStream<Arrival>.Continuation) {
        self.secrets = secrets
        self.arrivals = arrivals
    }

    func received(_ request: HTTPRequestHead, body: [UInt8], responder: any HTTPResponder) {
        do {
            let webhook = try PusherWebhook(
                key: request.headers["X-Pusher-Key"], signature: request.headers["X-Pusher-Signature"], body: body,
                secrets: self.secrets)
            for event in webhook.events {
                switch event {
                case .channelOccupied(let channel): print("\(channel) is occupied")
                case .memberAdded(let channel, let user): self.arrivals.yield(Arrival(user: user, channel: channel))
                default: break
                }
            }
            // The service repeats a request that receives no response in time, so the arrivals are handled elsewhere.
            responder.respond(HTTPResponse(status: 200))
        } catch {
            responder.respond(HTTPResponse(status: error.code == .invalidSignature ? 401 : 400))
        }
    }
}

/// An application server that greets each member who joins a room. The Pusher server and the clients run in the same process.
@main struct Webhooks {
    static func main() async throws {
        let app = PusherApp.random()
        let (arrivals, continuation) = AsyncStream<Arrival>.makeStream()
        let listener = SocketListener()
        let receiver = try await listener.start(WebhookReceiver(secrets: [app.key: app.secret], arrivals: continuation))
        let webhooks = PusherServerWebhooks([Endpoint(scheme: "http", host: receiver.host, port: receiver.port, target: "/webhooks")])
        let server = PusherServer(app: app, webhooks: webhooks)
        let address = try await server.start(on: SocketListener())
        let publisher = PusherPublisher(
            appID: app.id, key: app.key, secret: app.secret,
            endpoint: Endpoint(scheme: "http", host: address.host, port: address.port))

        let anna = Self.client("anna", app, address)
        let greetings = try anna.subscribe("presence-room").events("greeting")
        anna.connect()
        let bert = Self.client("bert", app, address)
        for await arrival in arrivals {
            print("\(arrival.user) joined \(arrival.channel)")
            let count = try await publisher.users(of: arrival.channel).count
            let text = "Welcome, \(arrival.user). There \(count == 1 ? "is 1 user" : "are \(count) users")."
            try await publisher.publish("greeting", to: arrival.channel, data: text)
            for await greeting in greetings.prefix(1) { print("anna received: \(greeting.data ?? "")") }
            if arrival.user == "bert" { break }
            try bert.subscribe("presence-room")
            bert.connect()
        }
        anna.disconnect()
        bert.disconnect()
        await server.stop()
        await listener.stop()
    }

    private static func client(_ user: String, _ app: PusherApp, _ address: ListenerAddress) -> PusherClient {
        var configuration = PusherConfiguration(key: app.key, host: address.host, port: address.port, useTLS: false)
        configuration.authorizer = .secret(app.secret, userID: user)
        configuration.log = .none
        return PusherClient(configuration)
    }
}
