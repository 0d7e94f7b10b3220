/// The TLS settings of a client.
///
/// By default, a client requires TLS 1.2 or later, and a certificate that the system trusts and that matches the host.
///
/// ```swift
/// var tls = TLSConfiguration()
/// tls.trustRoots = .only([.file("/etc/myservice/root.pem")])
/// ```
public struct TLSConfiguration: Hashable, Sendable {
    /// The root certificates that a client trusts.
    public enum TrustRoots: Hashable, Sendable {
        /// The root certificates of the system. The environment variables `SSL_CERT_FILE` and `SSL_CERT_DIR` override their location.
        case system
        /// Only the given certificates. They are trusted even if another authority signed them, so a server's own certificate can be
        /// used.
        case only([PEM])
        /// The root certificates of the system and the given certificates.
        case systemAnd([PEM])
    }

    /// The verification of a server's certificate.
    public enum Verification: Hashable, Sendable {
        /// The certificate must be currently valid, chain to one of ``TLSConfiguration/trustRoots``, and match the host.
        case full
        /// Certificates aren't verified, so an attacker on the network can read and modify all data. Use it only for experiments.
        case dangerouslyAcceptAnyCertificate
    }

    /// The trusted root certificates. By default, the system's root certificates.
    public var trustRoots: TrustRoots = .system
    /// The verification of the server's certificate. The default is ``Verification/full``.
    public var verification: Verification = .full
    /// The oldest version that the client accepts. The default is TLS 1.2.
    public var minimumVersion: TLSVersion = .tls12
    /// The name that is sent to the server and that its certificate must match. The default, `nil`, is the endpoint's host.
    public var serverName: String?
    /// The client's own certificate, for servers that require one. The default is `nil`.
    public var identity: TLSIdentity?

    /// The name of ``trustRoots`` in the words of the application's user, for messages.
    package var nameOfTrustRoots = "`TLSConfiguration.trustRoots` of the transports"
    /// The name of ``identity``, for messages; `nil` if the application's user can't set it.
    package var nameOfIdentity: String? = "`TLSConfiguration.identity` of the transports"
    package var maximumVersion: TLSVersion?
    package var library: TLSLibrary = .system

    /// Creates the default configuration.
    public init() {}
}

/// The TLS settings of a server.
public struct TLSServerConfiguration: Hashable, Sendable {
    /// Whether clients must have a certificate.
    public enum ClientCertificates: Hashable, Sendable {
        /// The server doesn't request certificates.
        case notRequested
        /// Clients must have a certificate that chains to one of the given roots.
        case required(roots: [PEM])
    }

    /// The server's certificate and key.
    public var identity: TLSIdentity
    /// The oldest version that the server accepts. The default is TLS 1.2.
    public var minimumVersion: TLSVersion = .tls12
    /// Whether clients must have a certificate. The default is ``ClientCertificates/notRequested``.
    public var clientCertificates: ClientCertificates = .notRequested

    package var maximumVersion: TLSVersion?
    package var library: TLSLibrary = .system

    /// Creates a configuration with default settings.
    ///
    /// - Parameter identity: The server's certificate and key.
    public init(_ identity: TLSIdentity) {
        self.identity = identity
    }
}

/// A version of the TLS protocol.
public struct TLSVersion: Hashable, Sendable, Comparable, CustomStringConvertible {
    /// The version number in the protocol.
    let number: Int

    /// TLS 1.2 (RFC 5246).
    public static let tls12 = TLSVersion(number: 0x0303)
    /// TLS 1.3 (RFC 8446).
    public static let tls13 = TLSVersion(number: 0x0304)

    /// Returns whether the left version is older than the right one.
    public static func < (lhs: Self, rhs: Self) -> Bool { lhs.number < rhs.number }

    /// The name of the version, such as "TLS 1.3".
    public var description: String { "TLS 1.\(self.number - 0x0301)" }
}

/// The library to load. With `absent`, tests can simulate a missing library without affecting other tests.
package enum TLSLibrary: Hashable, Sendable {
    case system, absent
}

/// Certificates or a private key in PEM format ("-----BEGIN …").
///
/// A file is read when a transport or listener first uses the configuration.
public enum PEM: Hashable, Sendable {
    /// The PEM text in UTF-8.
    case bytes([UInt8])
    /// The path of a file with the PEM text.
    case file(String)

    /// Creates a value from PEM text.
    public static func text(_ text: String) -> PEM { .bytes(Array(text.utf8)) }
}

/// A certificate and its private key. Descriptions of the value don't contain the key.
public struct TLSIdentity: Hashable, Sendable {
    /// The certificate, followed by the intermediate certificates.
    public var certificateChain: PEM
    /// The private key of the certificate, unencrypted.
    public var privateKey: PEM

    /// Creates an identity.
    ///
    /// - Parameters:
    ///   - certificateChain: The certificate, followed by the intermediate certificates.
    ///   - privateKey: The private key of the certificate, unencrypted.
    public init(certificateChain: PEM, privateKey: PEM) {
        self.certificateChain = certificateChain
        self.privateKey = privateKey
    }
}

extension PEM: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The path or the number of bytes. The text is omitted because it can be a key.
    public var description: String {
        switch self {
        case .bytes(let bytes): "PEM of \(bytes.count) bytes"
        case .file(let path): "PEM in \(path)"
        }
    }

    /// The same as ``description``.
    public var debugDescription: String { self.description }

    /// An empty mirror, because the text can be a key.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
