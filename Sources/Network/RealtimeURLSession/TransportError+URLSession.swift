internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

extension TransportError {
    /// What the system's loading of URLs says, in our words.
    init(_ error: any Error, _ endpoint: Endpoint) {
        let place = endpoint.origin
        if let code = (error as? URLError)?.code {
            switch code {
            case .badURL, .unsupportedURL: self.init(.invalidURL, "The address \(endpoint) was not understood.")
            case .cannotFindHost, .dnsLookupFailed:
                self.init(.nameNotFound, "The host \(endpoint.host) has no address; check the name and the network.")
            case .cannotConnectToHost: self.init(.refused, "Nothing listens at \(place); check host and port.")
            case .notConnectedToInternet, .internationalRoamingOff, .dataNotAllowed, .callIsActive:
                self.init(.unreachable, "There is no way to \(place): this device has no network.")
            case .timedOut: self.init(.timedOut, "\(place) did not answer in time.")
            case .networkConnectionLost: self.init(.reset, "The connection to \(place) was lost.")
            case .cancelled: self.init(.cancelled, "The connection to \(place) was taken back.")
            case .serverCertificateHasBadDate, .serverCertificateUntrusted, .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid:
                self.init(.certificateRejected, "The certificate of \(place) was not accepted; check its date, its name and who issued it.")
            case .secureConnectionFailed, .clientCertificateRejected, .clientCertificateRequired:
                self.init(.tlsFailed, "\(place) and this device did not agree on an encrypted connection.")
            case .appTransportSecurityRequiresSecureConnection:
                self.init(
                    .unsupported, "App Transport Security forbids the unencrypted \(place); use wss or https, or allow it in Info.plist.")
            case .badServerResponse, .cannotParseResponse:
                self.init(.protocolViolation, "\(place) answered with something that is not of the protocol.")
            case .dataLengthExceedsMaximum: self.init(.tooLarge, "\(place) sent more than is accepted.")
            default: self.init(.system, "The connection to \(place) failed (URLError \(code.rawValue)).")
            }
            return
        }
        let error = error as NSError
        guard error.domain == NSPOSIXErrorDomain, let code = POSIXErrorCode(rawValue: Int32(truncatingIfNeeded: error.code)) else {
            self.init(.system, "The connection to \(place) failed (\(error.domain) \(error.code)).")
            return
        }
        switch code {
        case .EMSGSIZE: self.init(.tooLarge, "\(place) sent a message over the limit; raise the limit or have it send less.")
        case .ECONNREFUSED: self.init(.refused, "Nothing listens at \(place); check host and port.")
        case .ECONNRESET, .ECONNABORTED, .ENOTCONN, .EPIPE: self.init(.reset, "The connection to \(place) was lost.")
        case .ENETDOWN, .ENETUNREACH, .EHOSTUNREACH, .EHOSTDOWN: self.init(.unreachable, "There is no way to \(place).")
        case .ETIMEDOUT: self.init(.timedOut, "\(place) did not answer in time.")
        case .EPROTO: self.init(.protocolViolation, "\(place) sent what the protocol does not allow.")
        default: self.init(.system, "The connection to \(place) failed (system error \(code.rawValue)).")
        }
    }
}
