// A stub of Apple's Network module for type-checking: the declarations that this package uses, written from its documentation.
import Dispatch
import Foundation

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

public enum NWError: Error, Equatable, Sendable, CustomDebugStringConvertible {
    case posix(POSIXErrorCode)
    case dns(Int32)
    case tls(Int32)

    public var debugDescription: String { "" }
}

public class NWProtocolWebSocket {
    public class Options {
        public init() {}
        public var autoReplyPing = false
        public var maximumMessageSize = 0
    }

    public enum CloseCode: Equatable, Sendable {
        public enum Defined: UInt16, Equatable, Sendable {
            case normalClosure = 1000
            case goingAway, protocolError, unsupportedData
            case noStatusReceived = 1005
            case abnormalClosure, invalidFramePayloadData, policyViolation, messageTooBig, mandatoryExtension, internalServerError
            case tlsHandshake = 1015
        }

        case protocolCode(Defined)
        case applicationCode(UInt16)
        case privateCode(UInt16)
    }
}
