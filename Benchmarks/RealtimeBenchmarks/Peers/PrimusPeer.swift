import CommandLineSupport
import PrimusWire
import RealtimeCoding

/// Primus's client for JavaScript, which `REALTIME_PEERS` starts, for comparison.
final class PrimusPeer {
    static let missing = "needs REALTIME_PEERS, and a client for Primus with it"

    private let peer: CommandPeer

    /// Starts the client and connects it to the load generator; `nil` without `REALTIME_PEERS`, or if that doesn't start this client.
    init?(
        _ port: Int, _ coding: PrimusCoding, over transformer: PrimusTransformerKind = .websockets, usesWebSockets: Bool = true
    ) throws(ToolFailure) {
        guard let peers = Console.environment("REALTIME_PEERS") else { return nil }
        self.peer = try CommandPeer(
            [
                peers, "primus-client", "--transformer", "\(transformer)", "--parser", "\(coding.kind)", "--pathname",
                LoadPrimus.path(of: coding),
            ], named: "JavaScript client")
        let options = #""pingTimeout":600000,"strategy":false,"websockets":\#(usesWebSockets)"#
        let open = #"{"do":"open","id":1,"url":"http://127.0.0.1:\#(port)/","options":{\#(options)}}"#
        do throws(ToolFailure) { _ = try self.peer.run(open) } catch { return nil }
        try self.peer.wait { $0["event"]?.string == "open" }
    }

    /// Receives messages, and returns the processor time per message in nanoseconds.
    func receive(_ messages: Int) throws(ToolFailure) -> Double {
        let result = try self.peer.run(#"{"do":"receive","id":2,"n":\#(messages),"write":{"burst":\#(messages)}}"#)
        return (result["cpu_us"]?.double ?? .nan) * 1000 / Double(messages)
    }
}
