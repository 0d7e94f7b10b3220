import Observation
import PusherChannels

/// The data of a price event.
struct Price: Decodable {
    let symbol: String
    let value: Double
}

/// The model of a view that shows the latest prices. In an app, it is part of the app's target.
@MainActor @Observable final class PriceBoard {
    private(set) var prices: [String: Double] = [:]
    private(set) var isConnected = false
    /// Whether no price has arrived for a minute.
    private(set) var isStale = false
    private(set) var failure: String?

    private let client: PusherClient
    private let clock: any Clock<Duration>
    private var staleness: Task<Void, any Error>?

    init(client: PusherClient, clock: any Clock<Duration> = ContinuousClock()) {
        self.client = client
        self.clock = clock
    }

    /// Shows prices until the client is disconnected or the task is cancelled, for example by the `task` modifier of a view.
    func run() async {
        self.failure = nil
        defer { self.staleness?.cancel() }
        do throws(PusherError) {
            let channel = try self.client.subscribe("private-prices")
            let prices = channel.events("price", as: Price.self)
            self.client.connect()
            async let connection: Void = self.watch()
            try await channel.subscribed()
            for await price in prices { self.show(price) }
            await connection
        } catch {
            self.failure = error.message
        }
    }

    private func watch() async {
        for await state in self.client.states {
            self.isConnected = false
            switch state {
            case .connected: self.isConnected = true
            case .failed(let error), .disconnected(let error?):
                self.failure = error.message
                return
            case .disconnected(nil): return
            case .initialized, .connecting, .unavailable: break
            }
        }
    }

    private func show(_ price: Price) {
        self.prices[price.symbol] = price.value
        self.isStale = false
        self.staleness?.cancel()
        self.staleness = Task { [clock] in
            try await clock.sleep(for: .seconds(60))
            self.isStale = true
        }
    }
}
