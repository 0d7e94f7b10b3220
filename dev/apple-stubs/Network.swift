// A stub of Apple's Network module for type-checking: the declarations that this package uses, written from its documentation.
import Dispatch

public struct NWPath: Equatable, Sendable {
    public enum Status: Sendable {
        case satisfied, unsatisfied, requiresConnection
    }

    public let status: Status
}

public final class NWPathMonitor: @unchecked Sendable {
    public var pathUpdateHandler: (@Sendable (_ newPath: NWPath) -> Void)?

    public init() {}
    public func start(queue: DispatchQueue) {}
    public func cancel() {}
}
