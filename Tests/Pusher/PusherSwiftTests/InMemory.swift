import Foundation
import PusherServer
import RealtimeCore
import RealtimeTesting

@testable import PusherSwift

/// Waits for some turns of the main queue: events of the network, and what a socket reports while the library calls it, are handled in later
/// ones.
@MainActor func settle() async {
    for _ in 1...20 {
        await withCheckedContinuation { (continuation: CheckedContinuation<Void, Never>) in
            DispatchQueue.main.async { continuation.resume() }
        }
    }
}

extension DispatchQueue {
    /// Suspends a serial queue after the blocks that it has begun or still waits to run.
    ///
    /// `suspend()` alone lets a block that runs go on, and that block may take what the test adds afterwards.
    func suspendBetweenBlocks() {
        self.sync {}
        self.suspend()
    }
}

/// A server, a network and a clock, with clients whose handlers run on the main queue.
///
/// On the main actor, the effects of a call are complete after `settle()`.
struct InMemory {
    let clock = ManualClock(standstillLimit: nil)
    let network: InMemoryNetwork
    let server: PusherServer
    let address: ListenerAddress

    init(configure: (inout PusherApp) -> Void = { _ in }) async throws {
        var app = PusherApp(id: "1", key: "key", secret: "secret")
        app.encryptionMasterKey = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
        configure(&app)
        self.network = InMemoryNetwork(clock: self.clock)
        self.server = PusherServer(app: app, network: self.network, log: .none)
        self.address = try await self.server.start(on: self.network.listener())
    }

    func options(_ method: AuthMethod = .inline(secret: "secret"), activityTimeout: TimeInterval? = nil) -> PusherClientOptions {
        let options = PusherClientOptions(
            authMethod: method, host: .host(self.address.host), port: self.address.port, useTLS: false, activityTimeout: activityTimeout)
        var transports = self.network.transports()
        transports.webSocket = LaterTransport(transport: transports.webSocket)
        options.transports = transports
        return options
    }

    @MainActor func pusher(_ options: PusherClientOptions? = nil, key: String = "key") -> Pusher {
        Pusher(key: key, options: options ?? self.options())
    }
}
