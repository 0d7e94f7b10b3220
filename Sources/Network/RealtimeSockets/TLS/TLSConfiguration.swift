/// How a client speaks TLS.
///
/// The default asks for TLS 1.2 or newer and for a certificate that names the host and that the system trusts.
///
/// ```swift
/// var tls = TLSConfiguration()
/// tls.trustRoots = .only([.file("/etc/myservice/root.pem")])
/// ```
public struct TLSConfiguration: Hashable, Sendable {
    /// Which authorities may vouch for a server.
    public enum TrustRoots: Hashable, Sendable {
        /// Those of the system. `SSL_CERT_FILE` and `SSL_CERT_DIR` in the environment replace them.
        case system
        /// These and no other. A certificate in the list is trusted even when another authority signed it,
        /// so a server's own certificate will do.
        case only([PEM])
        /// Those of the system and these.
        case systemAnd([PEM])
    }

    /// What is asked of the server's certificate.
    public enum Verification: Hashable, Sendable {
        /// It has to be valid now, lead to one of ``TLSConfiguration/trustRoots`` and name the host.
        case full
        /// Nothing: whoever is on the way to the server can read and change everything. Only for an experiment.
        case dangerouslyAcceptAnyCertificate
    }

    /// Which authorities may vouch for a server.
    public var trustRoots: TrustRoots = .system
    /// What is asked of the server's certificate.
    public var verification: Verification = .full
    /// The oldest version that is spoken. A server that only speaks older ones is refused.
    public var minimumVersion: TLSVersion = .tls12
    /// The name that the server is asked for and that its certificate has to have, in place of the endpoint's host.
    public var serverName: String?
    /// The client's own certificate, for servers that ask for one.
    public var identity: TLSIdentity?
    /// What is offered by ALPN, the favourite first; nothing when empty. A server may pick none.
    public var applicationProtocols: [String] = []

    package var maximumVersion: TLSVersion?
    package var library: TLSLibrary = .system

    /// The default; change what you need.
    public init() {}
}

/// How a server speaks TLS.
public struct TLSServerConfiguration: Hashable, Sendable {
    /// What clients are asked for.
    public enum ClientCertificates: Hashable, Sendable {
        /// No certificate.
        case notAsked
        /// A certificate that leads to one of these; a client without one is refused.
        case required(roots: [PEM])
    }

    /// The server's certificate and key.
    public var identity: TLSIdentity
    /// The oldest version that is spoken. A client that only speaks older ones is refused.
    public var minimumVersion: TLSVersion = .tls12
    /// Whether clients need a certificate.
    public var clientCertificates: ClientCertificates = .notAsked
    /// What may be picked by ALPN, the favourite first; when empty, the client's wishes are not looked at. A client
    /// that wishes for none of these is refused, one that has no wish is not.
    public var applicationProtocols: [String] = []

    package var maximumVersion: TLSVersion?
    package var library: TLSLibrary = .system

    /// A server with this certificate; change what else you need.
    public init(_ identity: TLSIdentity) {
        self.identity = identity
    }
}

/// A version of TLS.
public struct TLSVersion: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The number on the wire.
    let number: Int

    /// TLS 1.2 (RFC 5246).
    public static let tls12 = TLSVersion(number: 0x0303)
    /// TLS 1.3 (RFC 8446).
    public static let tls13 = TLSVersion(number: 0x0304)
    /// No longer safe: for tests of refusing it.
    package static let tls11 = TLSVersion(number: 0x0302)

    /// Whether the left one is older.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.number < rhs.number }

    /// As in "TLS 1.3".
    public var description: String { "TLS 1.\(self.number - 0x0301)" }
}

/// Whether OpenSSL is looked for. Tests say it is absent without taking it from those that run beside them.
package enum TLSLibrary: Hashable, Sendable {
    case system, absent
}
