internal import RealtimeCore

extension BenchCommand: Command {
    func run(_ console: Console) async throws(ToolFailure) {
        FileLimit.raise()
        #if DEBUG
        console.remark(.init("This is a debug build: its figures mean nothing. Build with -c release.", .warning))
        #endif
        let bed = try BenchBed(console, messages: self.messages, connections: self.connections)
        defer { bed.load.end() }
        let names = self.names.isEmpty ? BenchName.allCases : self.names.compactMap { BenchName(rawValue: $0) }
        for name in names where !Task.isCancelled {
            switch name {
            case .receive: try await ReceiveBench(bed)()
            }
        }
    }
}
