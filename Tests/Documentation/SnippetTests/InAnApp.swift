import Observation
import PusherChannels
import PusherServer
import RealtimeTesting
import Testing

#if canImport(SwiftUI)
import SwiftUI
#else
import DocumentationStubs
#endif

/// The snippets of the article InAnApp.
@available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
private enum InAnApp {
    // snippet:app-model
    @MainActor @Observable
    final class PriceBoard {
        private(set) var prices: [String: Double] = [:]
        private(set) var status: String
        private let client: PusherClient

        init(client: PusherClient) {
            self.client = client
            self.status = client.state.name
        }

        func watchPrices() async {
            guard let channel = try? self.client.subscribe("prices") else { return }
            for await price in channel.events("price", as: Price.self) {
                self.prices[price.symbol] = price.value
            }
        }

        func watchStatus() async {
            for await state in self.client.states { self.status = state.name }
        }
    }
    // end

    // snippet:app-view
    struct PriceList: View {
        let board: PriceBoard

        var body: some View {
            List(self.board.prices.keys.sorted(), id: \.self) { symbol in
                Text("\(symbol): \(self.board.prices[symbol] ?? 0)")
            }
            .navigationTitle(self.board.status)
            .task { await self.board.watchPrices() }
            .task { await self.board.watchStatus() }
        }
    }
    // end

    // snippet:app-scene
    struct PricesApp: App {
        @Environment(\.scenePhase) private var phase
        @State private var client: PusherClient
        @State private var board: PriceBoard

        init() {
            let client = PusherClient(key: "app-key", cluster: "eu")
            client.connect()
            self.client = client
            self.board = PriceBoard(client: client)
        }

        var body: some Scene {
            WindowGroup { PriceList(board: self.board) }
                .onChange(of: self.phase) { _, phase in
                    if phase == .active { self.client.checkConnection() }
                }
        }
    }
    // end
}

@available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
extension InAnApp {
    @MainActor
    static func preview() -> some View {
        // snippet:app-preview
        let board = PriceBoard(client: PusherClient(key: "preview", cluster: "eu"))
        return PriceList(board: board)
        // end
    }

    @MainActor
    static func previewWithServer() async throws -> PriceBoard {
        // snippet:app-preview-server
        let network = InMemoryNetwork(clock: ManualClock())
        let server = PusherServer(app: .random(), network: network)
        let address = try await server.start(on: network.listener())

        var configuration = PusherConfiguration(key: server.app.key, host: address.host, port: address.port, useTLS: false)
        configuration.transports = network.transports()
        let client = PusherClient(configuration)
        client.connect()
        let board = PriceBoard(client: client)
        // end
        let watching = Task { await board.watchPrices() }
        while client.channel("prices") == nil { await Task.yield() }
        server.publish("price", to: "prices", data: #"{"symbol":"ACME","value":12.5}"#)
        while board.prices.isEmpty { await Task.yield() }
        watching.cancel()
        await watching.value
        return board
    }
}

@Suite struct InAnAppTests {
    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test @MainActor func `the model of the article receives prices`() async throws {
        let board = try await InAnApp.previewWithServer()
        #expect(board.prices == ["ACME": 12.5])
        #expect(board.status == "connected")
    }
}
