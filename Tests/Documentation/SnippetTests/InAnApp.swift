import Observation
import PusherChannels
import PusherTesting
import TestSupport
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

    // snippet:app-preview-server
    @MainActor @Observable
    final class PricePreview {
        private(set) var board: PriceBoard?

        func run() async throws {
            let pusher = try await InMemoryPusher()
            let subscriptions = pusher.server.events
            let client = pusher.client()
            client.connect()
            self.board = PriceBoard(client: client)
            for await case .subscribed(_, let channel, _) in subscriptions {
                pusher.server.publish("price", to: channel, data: #"{"symbol":"ACME","value":12.5}"#)
            }
        }
    }

    struct PriceListPreview: View {
        @State private var preview = PricePreview()

        var body: some View {
            Group {
                if let board = self.preview.board { PriceList(board: board) }
            }
            .task { try? await self.preview.run() }
        }
    }
    // end
}

@Suite struct InAnAppTests {
    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test @MainActor func `the model of the preview in the article receives a price`() async throws {
        let preview = InAnApp.PricePreview()
        let running = Task { try await preview.run() }
        try await eventually { preview.board != nil }
        let board = try #require(preview.board)
        let watching = [Task { await board.watchPrices() }, Task { await board.watchStatus() }]
        try await eventually { board.prices == ["ACME": 12.5] && board.status == "connected" }
        for task in watching { task.cancel() }
        running.cancel()
        try await running.value
    }
}
