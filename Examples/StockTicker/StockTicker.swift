import RealtimeSockets
import SignalRHubs
import SignalRServer

nonisolated struct Quote: Codable, Sendable {
    let symbol: String
    let price: Double
}

/// Prints the prices that a hub streams, of two stocks at the same time. The server runs in the same process, on a port.
@main struct StockTicker {
    static func main() async throws {
        let server = SignalRServer(log: .none)
        let hub = server.hub("/stocks")
        hub.stream("Quotes") { (caller, symbol: String, start: Double) in
            guard start > 0 else { throw HubException("A price is greater than zero.") }
            return AsyncStream { continuation in
                for step in 0..<1000 { continuation.yield(Quote(symbol: symbol, price: start + Double(step) / 4)) }
                continuation.finish()
            }
        }
        let address = try await server.start(on: SocketListener())

        let client = HubClient(try HubConfiguration(url: "http://\(address.host):\(address.port)/stocks"))
        try await client.start()
        async let acme = Self.quotes(of: "ACME", from: 12.5, until: 13.25, client)
        async let other = Self.quotes(of: "INIT", from: 80, until: 80.5, client)
        for quote in try await acme + other { print(quote.symbol, quote.price) }

        do {
            for try await quote in try client.stream("Quotes", "NULL", 0.0, of: Quote.self) { print(quote) }
        } catch {
            print(error.serverMessage ?? error.message)
        }
        client.stop()
        await server.stop()
    }

    /// Leaving the loop ends the stream, so that the server doesn't send the rest.
    private static func quotes(
        of symbol: String, from start: Double, until end: Double, _ client: HubClient
    ) async throws -> [Quote] {
        var quotes: [Quote] = []
        for try await quote in try client.stream("Quotes", symbol, start, of: Quote.self) {
            quotes.append(quote)
            if quote.price >= end { break }
        }
        return quotes
    }
}
