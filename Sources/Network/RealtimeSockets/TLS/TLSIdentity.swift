/// Certificates or a key as PEM text ("-----BEGIN …"), at hand or in a file.
///
/// A file is read each time a transport or listener begins to use the configuration, not before.
public enum PEM: Hashable, Sendable {
    /// The text as bytes.
    case bytes([UInt8])
    /// The path of a file.
    case file(String)

    /// The text.
    public static func text(_ text: String) -> PEM { .bytes(Array(text.utf8)) }
}

/// A certificate and its private key. Printing it does not show the key.
public struct TLSIdentity: Hashable, Sendable {
    /// The certificate, followed by those of the authorities between it and the root.
    public var certificateChain: PEM
    /// The certificate's key, without a password.
    public var privateKey: PEM

    /// A certificate and its key.
    ///
    /// - Parameters:
    ///   - certificateChain: the certificate, followed by those of the authorities between it and the root.
    ///   - privateKey: the certificate's key, without a password.
    public init(certificateChain: PEM, privateKey: PEM) {
        self.certificateChain = certificateChain
        self.privateKey = privateKey
    }
}

extension PEM: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// The path or the number of bytes: the text may be a key.
    public var description: String {
        switch self {
        case .bytes(let bytes): "PEM of \(bytes.count) bytes"
        case .file(let path): "PEM in \(path)"
        }
    }

    /// As ``description``.
    public var debugDescription: String { self.description }

    /// Empty, for the same reason.
    public var customMirror: Mirror { Mirror(self, children: []) }
}
