public import Foundation
public import PrimusClient

/// The domain of errors of a client as `NSError`.
public let PrimusErrorDomain = "com.seegno.primus"

/// The codes of errors of a client as `NSError`, besides the statuses of HTTP.
#if canImport(ObjectiveC)
@objc(PrimusErrorCode)
#endif
public enum PrimusErrorCode: Int, Sendable {
    /// The connection was lost, or the attempts to reconnect failed.
    #if canImport(ObjectiveC)
    @objc(kPrimusErrorUnableToRetry)
    #endif
    case unableToRetry = 1000
    /// An attempt to connect exceeded its time limit.
    #if canImport(ObjectiveC)
    @objc(kPrimusErrorConnectionTimeout)
    #endif
    case connectionTimeout = 1001
    /// Another error, which the description tells.
    #if canImport(ObjectiveC)
    @objc(kPrimusErrorOther)
    #endif
    case other = 1002
}

/// As an `NSError`, an error has the status of HTTP with which the server has refused the connection as its code.
extension PrimusError: CustomNSError {
    /// ``PrimusErrorDomain``.
    public static var errorDomain: String { PrimusErrorDomain }

    /// The status of HTTP, or one of ``PrimusErrorCode``.
    public var errorCode: Int {
        if let status = self.status { return status }
        let code: PrimusErrorCode =
            switch self.code {
            case .timedOut: .connectionTimeout
            case .connectionLost, .serverSilent: .unableToRetry
            default: .other
            }
        return code.rawValue
    }

    /// The description of the error.
    public var errorUserInfo: [String: Any] { [NSLocalizedDescriptionKey: self.message] }
}
