internal import CommandLineSupport
internal import Processes
internal import RealtimeCore

extension BenchCommand: Command {
    func run(_ console: Console) async throws(ToolFailure) {
        FileLimit.raise()
        #if DEBUG
        console.remark(.init("This is a debug build: its figures mean nothing. Build with -c release.", .warning))
        #endif
        let bed = try BenchFixture(console, messages: self.messages, connections: self.connections)
        defer { bed.load.end() }
        for name in self.names where !Task.isCancelled {
            switch name {
            case .receive: try await ReceiveBench(bed)()
            case .channels: try await ChannelsBench(bed)()
            case .roundTrip: try await RoundTripBench(bed)()
            case .send: try await SendBench(bed)()
            case .idle: try await self.runIdle(bed)
            }
        }
        if let size = ToolSize.bytes { bed.say(BenchResult("size of this tool", Double(size) / 1e6, "MB")) }
    }

    private func runIdle(_ bed: BenchFixture) async throws(ToolFailure) {
        let idle = IdleBench(bed, tls: false)
        for count in self.connections.map({ [$0] }) ?? [1_000, 10_000] {
            try await idle(count)
            // The time limits for goodbyes pass before the next one counts who wakes the loop.
            try? await Task.sleep(for: .seconds(6))
        }
        guard let certificate = BenchCertificate.make() else {
            return bed.skip("idle, TLS", "it needs the openssl command, for a certificate")
        }
        defer { certificate.remove() }
        let secure = try BenchFixture(bed.console, messages: nil, connections: nil, tls: certificate.arguments)
        defer { secure.load.end() }
        try await IdleBench(secure, tls: true)(min(self.connections ?? 1_000, 1_000))
    }
}
