import Observation
import SignalRHubs
import SignalRTesting
import TestSupport
import Testing

#if canImport(SwiftUI)
import SwiftUI
#else
import DocumentationStubs
#endif

/// The snippets of the article HubInAnApp.
@available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
private enum HubInAnApp {
    // snippet:hub-app-model
    @MainActor @Observable
    final class ChatRoom {
        private(set) var messages: [String] = []
        private(set) var status = ""
        private let client: HubClient

        init(client: HubClient) {
            self.client = client
        }

        func connect() async {
            do {
                try await self.client.run()
            } catch {
                self.status = error.message
            }
        }

        func watchMessages() async {
            for await call in self.client.invocations(of: "ReceiveMessage") {
                guard let (user, text) = try? call.decode(String.self, String.self) else { continue }
                self.messages.append("\(user): \(text)")
            }
        }

        func watchStatus() async {
            for await state in self.client.states {
                switch state {
                case .stopped: self.status = "not connected"
                case .connecting, .reconnecting: self.status = "connecting"
                case .connected: self.status = "connected"
                }
            }
        }
    }
    // end

    // snippet:hub-app-view
    struct ChatView: View {
        let room: ChatRoom

        var body: some View {
            List(self.room.messages, id: \.self) { message in
                Text(message)
            }
            .navigationTitle(self.room.status)
            .task { await self.room.watchMessages() }
            .task { await self.room.watchStatus() }
            .task { await self.room.connect() }
        }
    }
    // end

    // snippet:hub-app-scene
    struct ChatApp: App {
        @Environment(\.scenePhase) private var phase
        @State private var client: HubClient
        @State private var room: ChatRoom

        init() {
            var configuration = HubConfiguration(Endpoint(scheme: "https", host: "example.org", port: 443, target: "/chat"))
            configuration.retry = .backoff(Backoff(base: .seconds(1), cap: .seconds(30)))
            configuration.retriesFirstStart = true
            let client = HubClient(configuration)
            self.client = client
            self.room = ChatRoom(client: client)
        }

        var body: some Scene {
            WindowGroup { ChatView(room: self.room) }
                .onChange(of: self.phase) { _, phase in
                    if phase == .active { self.client.checkConnection() }
                }
        }
    }
    // end
}

@available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
extension HubInAnApp {
    // snippet:hub-app-preview-server
    @MainActor @Observable
    final class ChatPreview {
        private(set) var room: ChatRoom?

        func run() async throws {
            let signalR = try await InMemorySignalR()
            let hub = signalR.server.hub("/chat")
            let client = signalR.client("/chat")
            self.room = ChatRoom(client: client)
            for await case .connected in client.states {
                try await hub.clients.all.send("ReceiveMessage", "anna", "Hello")
            }
        }
    }

    struct ChatViewPreview: View {
        @State private var preview = ChatPreview()

        var body: some View {
            Group {
                if let room = self.preview.room { ChatView(room: room) }
            }
            .task { try? await self.preview.run() }
        }
    }
    // end

    // snippet:hub-app-dialog
    @MainActor
    final class Dialogs {
        func answer(_ client: HubClient) {
            client.on("Confirm") { (question: String) in
                await self.ask(question)
            }
        }

        private func ask(_ question: String) async -> Bool {
            // Show an alert, and wait until the user has chosen.
            question.hasSuffix("?")
        }
    }
    // end
}

@Suite(.timeLimit(.minutes(10))) struct HubInAnAppTests {
    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test @MainActor func `the model of the preview in the article receives a message`() async throws {
        let preview = HubInAnApp.ChatPreview()
        let running = Task { try await preview.run() }
        try await eventually { preview.room != nil }
        let room = try #require(preview.room)
        let watching = [
            Task { await room.watchMessages() }, Task { await room.watchStatus() }, Task { await room.connect() },
        ]
        try await eventually { room.messages == ["anna: Hello"] && room.status == "connected" }
        for task in watching { task.cancel() }
        running.cancel()
        try await running.value
    }

    @available(iOS 17, macOS 14, tvOS 17, watchOS 10, *)
    @Test @MainActor func `the dialog of the article answers the server`() async throws {
        let signalR = try await InMemorySignalR()
        let hub = signalR.server.hub("/chat")
        let client = signalR.client("/chat")
        let dialogs = HubInAnApp.Dialogs()
        dialogs.answer(client)
        try await client.start()
        let caller = hub.clients.client(try #require(client.connectionID))
        #expect(try await caller.invoke("Confirm", "Delete it?", returning: Bool.self))
    }
}
