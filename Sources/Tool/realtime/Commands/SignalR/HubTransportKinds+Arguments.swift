import CommandLineSupport
import SignalRWire

extension OptionSpec {
    /// The transports of a client or a server, which ``SignalRWire/HubTransportKinds/init(_:)`` reads.
    ///
    /// - Parameter help: What the transports are for. The option's help continues with the values.
    static func transports(_ help: String) -> OptionSpec {
        .value(
            "transport", "NAMES", "\(help) webSockets, serverSentEvents, longPolling, several with commas, or any, which is the default.",
            completion: .values(HubTransportKinds.names.map(\.name) + ["any"]))
    }
}

extension HubTransportKinds {
    fileprivate static var names: [(name: String, kind: HubTransportKinds)] {
        [("webSockets", .webSockets), ("serverSentEvents", .serverSentEvents), ("longPolling", .longPolling)]
    }

    /// Creates the set that the option `transport` names, in any letter case: several names with commas, or `any`. Without the option, it is
    /// all of them.
    init(_ arguments: Arguments) throws(UsageError) {
        let text = arguments.string("transport") ?? "any"
        self = []
        for part in text.split(separator: ",", omittingEmptySubsequences: false) {
            let name = part.lowercased()
            let named = name == "any" ? .all : Self.names.first { $0.name.lowercased() == name }?.kind
            guard let named else {
                throw arguments.usageError(
                    "Invalid value '\(text)' for '--transport': must be webSockets, serverSentEvents or longPolling, several of them with "
                        + "commas, or any")
            }
            self.formUnion(named)
        }
    }
}
