import PusherChannels
import PusherServer

/// What a trader saw.
struct Day: Sendable {
    var count = 0
    var highest: [String: Double] = [:]
}

/// What traders say to each other.
struct Remark: Codable {
    let text: String
}

/// Somebody who watches prices and sits in a room with others.
final class Trader: Sendable {
    let name: String
    let client: PusherClient
    let prices: PusherChannel
    private let room: PusherChannel
    private let news: EventSequence<PusherEvent>
    private let remarks: EventSequence<PusherEvent>
    private let people: EventSequence<PusherMemberChange>

    init(_ name: String, _ app: PusherApp, _ address: ListenerAddress) throws {
        var configuration = PusherConfiguration(key: app.key, host: address.host, port: address.port, useTLS: false)
        // An app that is given to others asks its own server, with .endpoint(…): it must not hold the secret.
        configuration.authorizer = .secret(app.secret, userID: name)
        configuration.backoff = Backoff(base: .milliseconds(200), cap: .seconds(5))
        self.name = name
        self.client = PusherClient(configuration)
        // Both are only wanted by now. They are subscribed once the client is connected, and again after each loss.
        self.prices = try self.client.subscribe("prices")
        self.room = try self.client.subscribe("presence-traders")
        // A sequence hears everything from here on, whenever its loop begins.
        self.news = self.prices.events()
        self.remarks = self.room.events("client-remark")
        self.people = self.room.memberChanges
    }

    func enter() async throws {
        self.client.connect()
        try await self.prices.subscribed()
        try await self.room.subscribed()
    }

    /// Says something to the others, and waits for what they answer.
    func ask(_ question: String) async throws -> String {
        let answers = self.room.events("client-remark")
        try self.room.trigger("client-remark", Remark(text: question))
        return try await answers.first { _ in true }?.decode(Remark.self).text ?? "nothing"
    }

    /// Until the market closes.
    func watch() async throws -> Day {
        try await withThrowingTaskGroup(of: Day?.self) { group in
            group.addTask { try await self.watchPrices() }
            group.addTask { try await self.answerQuestions() }
            group.addTask { await self.watchPeople() }
            defer { group.cancelAll() }
            for try await case let day? in group { return day }
            return Day()
        }
    }

    private func watchPrices() async throws -> Day {
        var day = Day()
        for await event in self.news {
            guard event.name == "price" else { break }
            let price = try event.decode(Price.self)
            print("\(self.name) sees \(price.symbol) at \(price.value)")
            day.count += 1
            day.highest[price.symbol] = max(price.value, day.highest[price.symbol] ?? price.value)
        }
        return day
    }

    private func answerQuestions() async throws -> Day? {
        for await event in self.remarks {
            let remark = try event.decode(Remark.self)
            guard remark.text.hasSuffix("?") else { continue }
            // On a presence channel the service says who sent the event.
            let sender = event.userID ?? "somebody"
            print("\(self.name) is asked by \(sender): \(remark.text)")
            try self.room.trigger("client-remark", Remark(text: "Yes, \(sender)."))
        }
        return nil
    }

    private func watchPeople() async -> Day? {
        for await change in self.people {
            switch change {
            case .subscribed(let members): print("\(self.name) enters the room of \(members.map(\.id).joined(separator: ", "))")
            case .joined(let member): print("\(self.name) sees \(member.id) come in")
            case .left(let member): print("\(self.name) sees \(member.id) leave")
            }
        }
        return nil
    }
}
