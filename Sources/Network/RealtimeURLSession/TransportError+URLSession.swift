internal import Foundation
internal import RealtimeCore

#if canImport(FoundationNetworking)
internal import FoundationNetworking
#endif

extension TransportError {
    /// Converts an error of the URL loading system.
    init(_ error: any Error, _ endpoint: Endpoint) {
        let origin = endpoint.origin
        if let code = (error as? URLError)?.code {
            switch code {
            case .badURL, .unsupportedURL: self.init(.invalidURL, "Invalid URL: \(endpoint).")
            case .cannotFindHost, .dnsLookupFailed:
                self.init(.nameNotFound, "The host \(endpoint.host) was not found. Check the name and the network.")
            case .cannotConnectToHost: self.init(.refused, Self.refused(origin))
            case .notConnectedToInternet, .internationalRoamingOff, .dataNotAllowed, .callIsActive:
                self.init(.unreachable, "No route to \(origin): the device is offline.")
            case .timedOut: self.init(.timedOut, Self.timedOut(origin))
            case .networkConnectionLost: self.init(.reset, Self.lost(origin))
            case .cancelled: self.init(.cancelled, "The connection to \(origin) was cancelled.")
            case .serverCertificateHasBadDate, .serverCertificateUntrusted, .serverCertificateHasUnknownRoot, .serverCertificateNotYetValid:
                self.init(.certificateRejected, "The certificate of \(origin) was rejected. Check its dates, host name and issuer.")
            case .secureConnectionFailed:
                let hint = "If the server does not use TLS on this port, use ws:// or http://."
                self.init(.tlsFailed, "The TLS handshake with \(origin) failed. \(hint)")
            case .clientCertificateRejected, .clientCertificateRequired:
                self.init(.tlsFailed, "The TLS handshake with \(origin) failed: the server requires another client certificate.")
            case .appTransportSecurityRequiresSecureConnection:
                self.init(
                    .unsupported,
                    "App Transport Security blocked the unencrypted connection to \(origin). Use wss or https, or allow it in Info.plist.")
            case .badServerResponse, .cannotParseResponse: self.init(.protocolViolation, Self.invalidResponse(origin))
            case .dataLengthExceedsMaximum: self.init(.tooLarge, "The response of \(origin) exceeds the size limit.")
            default: self.init(.system, "The connection to \(origin) failed (URLError \(code.rawValue)).")
            }
            return
        }
        let error = error as NSError
        guard error.domain == NSPOSIXErrorDomain, let code = POSIXErrorCode(rawValue: Int32(truncatingIfNeeded: error.code)) else {
            self.init(.system, "The connection to \(origin) failed (\(error.domain) \(error.code)).")
            return
        }
        switch code {
        case .EMSGSIZE: self.init(.tooLarge, "A message from \(origin) exceeds the size limit. Increase the message limit.")
        case .ECONNREFUSED: self.init(.refused, Self.refused(origin))
        case .ECONNRESET, .ECONNABORTED, .ENOTCONN, .EPIPE: self.init(.reset, Self.lost(origin))
        case .ENETDOWN, .ENETUNREACH, .EHOSTUNREACH, .EHOSTDOWN: self.init(.unreachable, "No route to \(origin).")
        case .ETIMEDOUT: self.init(.timedOut, Self.timedOut(origin))
        case .EPROTO: self.init(.protocolViolation, Self.invalidResponse(origin))
        default: self.init(.system, "The connection to \(origin) failed (system error \(code.rawValue)).")
        }
    }

    private static func refused(_ origin: String) -> String {
        "\(origin) refused the connection. Check that the server is running and that the port is correct."
    }

    private static func timedOut(_ origin: String) -> String { "\(origin) did not respond in time. Check the server and the network." }

    private static func lost(_ origin: String) -> String { "The connection to \(origin) was lost." }

    private static func invalidResponse(_ origin: String) -> String { "\(origin) sent an invalid response." }
}
