import PusherSwift
import TestSupport
import Testing

/// The client of PusherChannels in a file that only imports PusherSwift, with the settings of an application.
@Suite(.usesSockets, .timeLimit(.minutes(10))) struct OneImportTests {
    @Test func `a file that only imports PusherSwift uses the client of PusherChannels`() async throws {
        try await ReadmeServer.with { server in
            let pusher = server.pusher(PusherClientOptions())
            let client: PusherClient = pusher.client
            let prices = try client.subscribe("private-prices")
            let events = prices.events("price")
            pusher.connect()
            try await prices.subscribed()
            server.publish("price", to: "private-prices", data: "1")
            for await event in events {
                #expect(event.data == "1")
                break
            }
            client.disconnect()
        }
    }

    @Test func `transports are options`() {
        let options = PusherClientOptions()
        if options.transports != nil { Issue.record("there are transports") }
        options.transports = Transports.standard
        if options.transports == nil { Issue.record("there are no transports") }
    }
}
