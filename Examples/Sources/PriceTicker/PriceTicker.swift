import PusherChannels
import PusherServer
import RealtimeSockets

/// A market publishes prices, two traders watch them and chat, and one of them loses its connection.
///
/// Server and clients share one process but communicate over real sockets, as on separate machines.
@main struct PriceTicker {
    static func main() async throws {
        let server = PusherServer(app: .random())
        let address = try await server.start(on: SocketListener())
        print("Server listening on port \(address.port)")

        let market = Market(server.app, address)
        let anna = try Trader("anna", server.app, address)
        let bert = try Trader("bert", server.app, address)
        async let annasDay = anna.watch()
        async let bertsDay = bert.watch()
        try await anna.enter()
        try await bert.enter()

        print("\nThe market opens")
        try await market.publish([Price("ACME", 12.5), Price("INIT", 80)])
        try await market.publish([Price("ACME", 14), Price("INIT", 78.5)])
        let reply = try await anna.ask("Did you see ACME?")
        print("anna receives the reply: \(reply)")

        print("\nThe server drops anna's connection; the client reconnects and resubscribes")
        let changes = anna.client.stateChanges
        if let socketID = anna.client.socketID { server.drop(socketID) }
        for await change in changes {
            print("anna is \(change.new.name)")
            if case .connected = change.new { break }
        }
        try await anna.prices.subscribed()

        print("\nThe market continues, then closes")
        try await market.publish([Price("ACME", 13.25), Price("INIT", 81)])
        try await market.close()

        for (name, day) in [("anna", try await annasDay), ("bert", try await bertsDay)] {
            let highest = day.highest.sorted { $0.key < $1.key }.map { "\($0.key) \($0.value)" }.joined(separator: ", ")
            print("\(name) received \(day.count) prices; highest: \(highest)")
        }
        print("Reconnects of anna's client: \(anna.client.counters.reconnects)")
        anna.client.disconnect()
        bert.client.disconnect()
        await server.stop()
    }
}
