import CommandLineSupport
import RealtimeCore
import RealtimeSystem

/// The Pusher Channels service that a command connects to.
enum PusherService: Sendable, Equatable {
    case endpoint(Endpoint)
    /// A cluster of Pusher's own service, by name.
    case cluster(String)

    /// Creates the service from the positional `URL` or the option `--cluster`.
    ///
    /// The scheme of the URL only selects whether TLS is used, so that every command accepts the URL that a server prints.
    ///
    /// - Parameters:
    ///   - arguments: The command's arguments.
    ///   - next: The positional that follows `URL`. With `--cluster`, it holds a URL that was specified as well.
    /// - Throws: `UsageError` when the URL or the name of the cluster is invalid, or when both are specified.
    init(_ arguments: Arguments, next: String) throws(UsageError) {
        if let cluster = arguments.string("cluster") {
            guard cluster.utf8.allSatisfy({ (0x61...0x7A).contains($0) || (0x30...0x39).contains($0) || $0 == 0x2D }) else {
                throw arguments.usageError("Invalid value '\(cluster)' for '--cluster': use only lowercase letters, digits and dashes")
            }
            if let first = arguments.positional(next), first.containsText("://") {
                throw arguments.usageError("Specify either URL or '--cluster', not both")
            }
            self = .cluster(cluster)
            return
        }
        do throws(TransportError) {
            self = .endpoint(try Endpoint(arguments.required(positional: "URL")))
        } catch {
            throw arguments.usageError(error.message)
        }
    }
}

extension PusherService: CustomStringConvertible {
    var description: String {
        switch self {
        case .endpoint(let endpoint): endpoint.origin
        case .cluster(let name): "cluster \(name)"
        }
    }
}
