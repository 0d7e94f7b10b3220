import Foundation
package import RealtimeCore
#if canImport(Network)
package import Network
#endif

extension NWProtocolWebSocket.CloseCode {
    /// Creates a close code from its number.
    package init(_ code: CloseCode) {
        switch code.rawValue {
        case 4000...4999: self = .privateCode(code.rawValue)
        default: self = Defined(rawValue: code.rawValue).map { .protocolCode($0) } ?? .applicationCode(code.rawValue)
        }
    }

    /// The number of the close code.
    package var number: CloseCode {
        switch self {
        case .protocolCode(let code): CloseCode(rawValue: code.rawValue)
        case .applicationCode(let code), .privateCode(let code): CloseCode(rawValue: code)
        #if canImport(Network)
        @unknown default: .abnormal
        #endif
        }
    }
}

extension NWError {
    /// Creates the error that describes the failure of a transport best.
    init(_ error: TransportError) {
        self =
            switch error.code {
            case .nameNotFound: .dns(-65554)
            case .tlsFailed, .tlsUnavailable, .certificateRejected, .invalidTLSConfiguration: .tls(-9800)
            case .refused: .posix(.ECONNREFUSED)
            case .unreachable: .posix(.EHOSTUNREACH)
            case .timedOut: .posix(.ETIMEDOUT)
            case .reset: .posix(.ECONNRESET)
            case .invalidURL: .posix(.EINVAL)
            default: .posix(.ECONNABORTED)
            }
    }
}
