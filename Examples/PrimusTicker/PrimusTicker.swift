import PrimusClient
import PrimusServer
import RealtimeSockets

nonisolated struct Quote: Codable, Sendable {
    let symbol: String
    let price: Double
}

/// Prints prices of two stocks, each on a channel of primus-multiplex, before and after the connection is lost. The server runs in the same
/// process, on a port.
@main struct PrimusTicker {
    static func main() async throws {
        var settings = PrimusServerConfiguration()
        settings.plugins = .multiplex
        let server = PrimusServer(configuration: settings, log: .none)
        let (joins, joined) = AsyncStream.makeStream(of: PrimusSparkChannel.self)
        let registrations = ["ACME", "INIT"].map { symbol in
            server.onChannel(symbol) { event in
                if case .joined(let channel) = event { joined.yield(channel) }
            }
        }
        async let market: Void = Self.publish(to: joins)
        let address = try await server.start(on: SocketListener())

        var configuration = try PrimusConfiguration(url: "http://\(address.host):\(address.port)/primus")
        configuration.plugins = [.multiplex]
        configuration.retry = .backoff(PrimusBackoff(minimum: .milliseconds(100), maximum: .seconds(1)))
        configuration.log = .none
        let primus = PrimusConnection(configuration)
        let (acme, other) = (primus.channel("ACME"), primus.channel("INIT"))
        // From now on, so that no message is missed.
        let (acmeQuotes, otherQuotes) = (acme.messages, other.messages)
        let updates = primus.updates()
        primus.open()
        try await Self.show(2, of: acmeQuotes)
        try await Self.show(2, of: otherQuotes)

        server.forEach { $0.end(reconnects: true) }
        for await update in updates {
            if case .reconnecting(let error) = update { print(error.message) }
            if case .reconnected(let retry) = update {
                print("Reconnected at attempt \(retry.attempt).")
                break
            }
        }
        try await Self.show(2, of: acmeQuotes)
        try await Self.show(2, of: otherQuotes)

        other.leave()
        print("ACME: \(acme.isJoined ? "joined" : "left"), INIT: \(other.isJoined ? "joined" : "left")")
        primus.end()
        joined.finish()
        await market
        for registration in registrations { registration.cancel() }
        await server.stop()
    }

    /// Sends two prices to each client that joins a channel, also when it joins again.
    private static func publish(to joins: AsyncStream<PrimusSparkChannel>) async {
        var prices = ["ACME": 12.5, "INIT": 80.0]
        for await channel in joins {
            for _ in 0..<2 {
                let price = prices[channel.name] ?? 0
                try? channel.write(Quote(symbol: channel.name, price: price))
                prices[channel.name] = price + 0.25
            }
        }
    }

    private static func show(_ count: Int, of messages: EventSequence<PrimusPluginMessage>) async throws {
        for await message in messages.prefix(count) {
            let quote = try message.decode(as: Quote.self)
            print(quote.symbol, quote.price)
        }
    }
}
