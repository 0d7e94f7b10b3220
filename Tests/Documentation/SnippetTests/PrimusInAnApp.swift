import Observation
import PrimusTesting
import TestSupport
import Testing

#if canImport(SwiftUI)
import SwiftUI
#else
import DocumentationStubs
#endif

/// The snippets of the article PrimusInAnApp.
@available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
private enum PrimusInAnApp {
    // snippet:primus-app-model
    struct Reading: Codable, Sendable {
        let sensor: Int
        let celsius: Double
    }

    @MainActor @Observable
    final class Dashboard {
        private(set) var readings: [Int: Double] = [:]
        private(set) var status = ""
        private let primus: PrimusConnection

        init(_ primus: PrimusConnection) {
            self.primus = primus
        }

        func watchReadings() async {
            let readings = self.primus.messages(as: Reading.self)
            self.primus.open()
            for await reading in readings {
                self.readings[reading.sensor] = reading.celsius
            }
        }

        func watchStatus() async {
            for await state in self.primus.states {
                switch state {
                case .closed(nil): self.status = "not connected"
                case .closed(let error?): self.status = error.message
                case .opening, .reconnecting: self.status = "connecting"
                case .open: self.status = "connected"
                }
            }
        }
    }
    // end

    // snippet:primus-app-callback
    @MainActor @Observable
    final class LatestReading {
        private(set) var text = ""
        private var observation: PrimusObservation?

        func watch(_ primus: PrimusConnection) {
            self.observation = primus.onMessage { [weak self] message in
                guard let reading = try? message.decode(as: Reading.self) else { return }
                self?.text = "\(reading.sensor): \(reading.celsius)"
            }
        }
    }
    // end

    // snippet:primus-app-view
    struct DashboardView: View {
        let dashboard: Dashboard

        var body: some View {
            List(self.dashboard.readings.keys.sorted(), id: \.self) { sensor in
                Text("\(sensor): \(self.dashboard.readings[sensor] ?? 0)")
            }
            .navigationTitle(self.dashboard.status)
            .task { await self.dashboard.watchStatus() }
            .task { await self.dashboard.watchReadings() }
        }
    }
    // end

    // snippet:primus-app-scene
    struct ReadingsApp: App {
        @Environment(\.scenePhase) private var phase
        @State private var primus: PrimusConnection
        @State private var dashboard: Dashboard

        init() {
            let endpoint = Endpoint(scheme: "https", host: "example.org", port: 443, target: "/primus")
            let primus = PrimusConnection(PrimusConfiguration(endpoint))
            self.primus = primus
            self.dashboard = Dashboard(primus)
        }

        var body: some Scene {
            WindowGroup { DashboardView(dashboard: self.dashboard) }
                .onChange(of: self.phase) { _, phase in
                    if phase == .active { self.primus.checkConnection() }
                }
        }
    }
    // end
}

@available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
extension PrimusInAnApp {
    struct Tokens: Sendable {
        var token = "token"

        func current() async throws -> String { self.token }
    }

    // snippet:primus-app-account
    @MainActor @Observable
    final class Account {
        private(set) var dashboard: Dashboard?
        private var primus: PrimusConnection?

        func signIn(_ tokens: Tokens, at server: PrimusConfiguration) {
            var configuration = server
            configuration.credentials = { ["Authorization": "Bearer \(try await tokens.current())"] }
            let primus = PrimusConnection(configuration)
            self.primus = primus
            self.dashboard = Dashboard(primus)
        }

        func signOut() {
            self.primus?.end()
            self.primus = nil
            self.dashboard = nil
        }
    }
    // end

    static func changeCredentials(of primus: PrimusConnection, _ tokens: Tokens) throws {
        // snippet:primus-app-update
        try primus.update { $0.credentials = { ["Authorization": "Bearer \(try await tokens.current())"] } }
        primus.end()
        primus.open()
        // end
    }

    // snippet:primus-app-preview
    @MainActor @Observable
    final class DashboardPreview {
        private(set) var dashboard: Dashboard?

        func run() async throws {
            let primus = try await InMemoryPrimus(clock: ManualClock(standstillLimit: nil))
            let events = primus.server.events
            self.dashboard = Dashboard(primus.client())
            for await case .connected(let id) in events {
                try primus.server.spark(id)?.write(Reading(sensor: 7, celsius: 21.5))
            }
        }
    }

    struct DashboardViewPreview: View {
        @State private var preview = DashboardPreview()

        var body: some View {
            Group {
                if let dashboard = self.preview.dashboard { DashboardView(dashboard: dashboard) }
            }
            .task { try? await self.preview.run() }
        }
    }
    // end
}

@Suite(.timeLimit(.minutes(10))) struct PrimusInAnAppTests {
    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test @MainActor func `the model of the preview in the article receives the first message`() async throws {
        let preview = PrimusInAnApp.DashboardPreview()
        let running = Task { try await preview.run() }
        try await eventually { preview.dashboard != nil }
        let dashboard = try #require(preview.dashboard)
        let watching = [Task { await dashboard.watchStatus() }, Task { await dashboard.watchReadings() }]
        try await eventually { dashboard.readings == [7: 21.5] && dashboard.status == "connected" }
        for task in watching { task.cancel() }
        running.cancel()
        try await running.value
    }

    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test @MainActor func `the callback of the article receives a message until its model is released`() async throws {
        let primus = try await InMemoryPrimus()
        let client = primus.client()
        var latest: PrimusInAnApp.LatestReading? = PrimusInAnApp.LatestReading()
        weak var released: PrimusInAnApp.LatestReading?
        released = latest
        latest?.watch(client)
        client.open()
        try await client.opened()
        try primus.server.write(PrimusInAnApp.Reading(sensor: 7, celsius: 21.5))
        try await eventually { latest?.text == "7: 21.5" }
        latest = nil
        try await eventually { released == nil }
    }

    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test @MainActor func `the account of the article signs a user in and out, and shows a refusal`() async throws {
        var configuration = PrimusServerConfiguration()
        configuration.authorize = { $0.headers["Authorization"] == "Bearer token" ? .accept : .reject("Unknown token.") }
        let primus = try await InMemoryPrimus(configuration: configuration)
        let account = PrimusInAnApp.Account()
        for (tokens, isAccepted) in [(PrimusInAnApp.Tokens(), true), (PrimusInAnApp.Tokens(token: "expired"), false)] {
            account.signIn(tokens, at: primus.configuration())
            let dashboard = try #require(account.dashboard)
            let watching = [Task { await dashboard.watchStatus() }, Task { await dashboard.watchReadings() }]
            if isAccepted {
                try await eventually { dashboard.status == "connected" && primus.server.sparks.count == 1 }
            } else {
                try await eventually { dashboard.status.contains("Check the credentials.") }
            }
            account.signOut()
            #expect(account.dashboard == nil)
            if isAccepted { try await eventually { dashboard.status == "not connected" } }
            try await eventually { primus.server.sparks.isEmpty }
            for task in watching { task.cancel() }
        }
    }

    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test func `changed credentials apply when the client is opened again, and its sequences continue`() async throws {
        var configuration = PrimusServerConfiguration()
        configuration.authorize = { head in head.headers["Authorization"] == "Bearer expired" ? .reject("Unknown token.") : .accept }
        let primus = try await InMemoryPrimus(configuration: configuration)
        let client = primus.client()
        let messages = client.messages(as: PrimusInAnApp.Reading.self)
        client.open()
        try await client.opened()
        let first = try await client.id()
        try PrimusInAnApp.changeCredentials(of: client, PrimusInAnApp.Tokens())
        try await client.opened()
        #expect(try await client.id() != first)
        try primus.server.write(PrimusInAnApp.Reading(sensor: 7, celsius: 21.5))
        #expect(await messages.first { _ in true }?.celsius == 21.5)
        try PrimusInAnApp.changeCredentials(of: client, PrimusInAnApp.Tokens(token: "expired"))
        let error = await #expect(throws: PrimusError.self) { try await client.opened() }
        #expect(error?.code == .unauthorized)
    }
}
