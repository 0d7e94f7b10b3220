import PusherChannels
import PusherServer

/// A summary of the prices that a trader received.
struct Day: Sendable {
    var count = 0
    var highest: [String: Double] = [:]
}

/// The data of the client events that traders exchange.
struct ChatMessage: Codable {
    let text: String
}

/// A client that watches prices and chats on a presence channel.
final class Trader: Sendable {
    let name: String
    let client: PusherClient
    let prices: PusherChannel
    private let room: PusherChannel
    private let priceEvents: EventSequence<PusherEvent>
    private let messages: EventSequence<PusherEvent>
    private let memberChanges: EventSequence<PusherMemberChange>

    init(_ name: String, _ app: PusherApp, _ address: ListenerAddress) throws {
        var configuration = PusherConfiguration(key: app.key, host: address.host, port: address.port, useTLS: false)
        // An app that is distributed must not contain the secret. It uses .endpoint(…) to ask its own server for authorization.
        configuration.authorizer = .secret(app.secret, userID: name)
        configuration.backoff = Backoff(base: .milliseconds(200), cap: .seconds(5))
        self.name = name
        self.client = PusherClient(configuration)
        // The client subscribes to both channels when it connects, and again after each reconnect.
        self.prices = try self.client.subscribe("prices")
        self.room = try self.client.subscribe("presence-traders")
        // Sequences buffer events from here on, before they are iterated.
        self.priceEvents = self.prices.events()
        self.messages = self.room.events("client-message")
        self.memberChanges = self.room.memberChanges
    }

    /// Connects, and returns when both channels are subscribed.
    func enter() async throws {
        self.client.connect()
        try await self.prices.subscribed()
        try await self.room.subscribed()
    }

    /// Sends a question to the other traders, and returns the first reply.
    func ask(_ question: String) async throws -> String {
        let replies = self.room.events("client-message")
        try self.room.trigger("client-message", ChatMessage(text: question))
        return try await replies.first { _ in true }?.decode(ChatMessage.self).text ?? "none"
    }

    /// Handles all events until the market closes.
    func watch() async throws -> Day {
        try await withThrowingTaskGroup(of: Day?.self) { group in
            group.addTask { try await self.watchPrices() }
            group.addTask { try await self.answerQuestions() }
            group.addTask { await self.watchMembers() }
            defer { group.cancelAll() }
            for try await case let day? in group { return day }
            return Day()
        }
    }

    private func watchPrices() async throws -> Day {
        var day = Day()
        for await event in self.priceEvents {
            guard event.name == "price" else { break }
            let price = try event.decode(Price.self)
            print("\(self.name) receives \(price.symbol) at \(price.value)")
            day.count += 1
            day.highest[price.symbol] = max(price.value, day.highest[price.symbol] ?? price.value)
        }
        return day
    }

    private func answerQuestions() async throws -> Day? {
        for await event in self.messages {
            let message = try event.decode(ChatMessage.self)
            guard message.text.hasSuffix("?") else { continue }
            // On a presence channel, the service adds the ID of the user who triggered the event.
            let sender = event.userID ?? "unknown"
            print("\(self.name) receives from \(sender): \(message.text)")
            try self.room.trigger("client-message", ChatMessage(text: "Yes, \(sender)."))
        }
        return nil
    }

    private func watchMembers() async -> Day? {
        for await change in self.memberChanges {
            switch change {
            case .subscribed(let members): print("\(self.name) joins the room; members: \(members.map(\.id).joined(separator: ", "))")
            case .joined(let member): print("\(self.name) sees \(member.id) join")
            case .left(let member): print("\(self.name) sees \(member.id) leave")
            }
        }
        return nil
    }
}
