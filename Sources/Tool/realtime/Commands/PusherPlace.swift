internal import CommandLineSupport
internal import RealtimeCore

/// Where a Pusher Channels service is: an address, or the name of one of Pusher's own clusters.
enum PusherPlace: Sendable, Equatable {
    case endpoint(Endpoint)
    case cluster(String)

    static let cluster = OptionSpec.value("cluster", "NAME", "One of Pusher's own clusters, such as eu, instead of URL.")

    /// The scheme says no more than whether to use TLS: the address that a server prints serves every command.
    ///
    /// - Parameter next: the positional that follows URL, for a hint when both are given.
    init(_ arguments: Arguments, next: String) throws(UsageError) {
        if let cluster = arguments.text("cluster") {
            guard cluster.utf8.allSatisfy({ (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D }) else {
                throw arguments.wrong("The name of a cluster has small letters, digits and dashes only, not '\(cluster)'")
            }
            if let first = arguments.positional(next), first.contains("://") {
                throw arguments.wrong("Give either a URL or --cluster, not both")
            }
            self = .cluster(cluster)
            return
        }
        let endpoint: Endpoint
        do throws(TransportError) {
            endpoint = try Endpoint(arguments.required(positional: "URL"))
        } catch {
            throw arguments.wrong(String(error.message.dropLast()))
        }
        self = .endpoint(endpoint)
    }
}

extension PusherPlace: CustomStringConvertible {
    /// For messages.
    var description: String {
        switch self {
        case .endpoint(let endpoint): endpoint.origin
        case .cluster(let name): "the cluster \(name)"
        }
    }
}
