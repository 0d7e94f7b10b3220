import RealtimeSystem
package import RealtimeCore

/// The OpenSSL library, version 3 or 1.1.1, which is loaded at run time. It is not required to build the package, nor for connections
/// without TLS.
package final class OpenSSL: Sendable {
    let functions: OpenSSLFunctions
    /// A `BIO_METHOD`. `nonisolated(unsafe)` is safe because it is never modified or freed after initialization.
    nonisolated(unsafe) let socketMethod: OpaquePointer

    /// The library, which is loaded on first use. It is never unloaded, because OpenSSL's thread-local data would outlive it.
    private static let loaded = Result<OpenSSL, TransportError> { () throws(TransportError) in
        if let path = OpenSSL.environmentPath { return try OpenSSL(names: [path]) }
        return try OpenSSL(names: OpenSSL.defaultNames)
    }

    /// The loaded library, for C callbacks without a context. They are called only by the library itself.
    static let current = try? OpenSSL.loaded.get()

    /// Returns the library.
    ///
    /// - Throws: `TransportError` with the code `tlsUnavailable` if it cannot be loaded.
    package static func shared(_ library: TLSLibrary = .system) throws(TransportError) -> OpenSSL {
        switch library {
        case .system: try Self.loaded.get()
        case .absent: throw Self.notFound(Self.defaultNames)
        }
    }

    /// Loads the first library that exists. Apart from `shared`, only tests of failures may call this, because callbacks use one library.
    init(names: [String]) throws(TransportError) {
        guard let symbols = names.lazy.compactMap({ OpenSSLSymbols($0) }).first else { throw Self.notFound(names) }
        self.functions = try OpenSSLFunctions(symbols)
        // OpenSSL's exit handler would free memory that other threads still use while the process exits.
        let initialized = self.functions.OPENSSL_init_ssl(OpenSSLConstant.initWithoutExitHandler, nil)
        guard initialized == 1, let method = SocketBIO.makeMethod(self.functions) else {
            throw TransportError(.tlsUnavailable, "TLS is not available: \(symbols.name) could not be initialized.")
        }
        self.socketMethod = method
    }

    /// The path from the environment. A process with elevated privileges ignores it, because it must not load code that its user chose.
    private static var environmentPath: String? {
        guard getuid() == geteuid(), getgid() == getegid(), let path = getenv("REALTIME_LIBSSL") else { return nil }
        return String(cString: path)
    }

    // Full paths, because Apple's own libssl terminates a process that loads it.
    #if canImport(Darwin)
    static let defaultNames = ["/opt/homebrew", "/usr/local"].flatMap {
        ["\($0)/opt/openssl@3/lib/libssl.3.dylib", "\($0)/lib/libssl.3.dylib", "\($0)/opt/openssl@1.1/lib/libssl.1.1.dylib"]
    }
    private static let advice = "Run `brew install openssl@3`"
    #else
    static let defaultNames = ["libssl.so.3", "libssl.so.1.1"]
    private static let advice = "Install the package libssl3 (Debian, Ubuntu, Alpine) or openssl-libs (Fedora, RHEL, Amazon Linux)"
    #endif

    private static func notFound(_ names: [String]) -> TransportError {
        TransportError(
            .tlsUnavailable,
            "TLS is not available: none of the OpenSSL libraries \(names.joined(separator: ", ")) could be loaded. \(Self.advice), "
                + "or set the environment variable REALTIME_LIBSSL to the path of the library.")
    }
}

/// The symbols of a loaded libssl, including those of the libcrypto that it is linked with, so that the two always match.
struct OpenSSLSymbols {
    let name: String
    private let handle: UnsafeMutableRawPointer

    init?(_ name: String) {
        guard let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { return nil }
        self.name = name
        self.handle = handle
    }

    /// Returns the function with this name. The caller states its C type.
    func find<Function>(_ name: String) throws(TransportError) -> Function {
        guard let symbol = dlsym(self.handle, name) else {
            throw TransportError(.tlsUnavailable, "TLS is not available: \(self.name) has no symbol \(name). Install OpenSSL 3 or 1.1.1.")
        }
        return unsafeBitCast(symbol, to: Function.self)
    }
}

// MARK: Errors

/// An error from OpenSSL's error queue.
struct OpenSSLReason {
    /// The number `SSL_R_…` of an error of libssl, or 0 for an error of another library.
    var number: UInt
    /// OpenSSL's description of the error.
    var text: String
    /// Whether it repeats an error of the operating system, as OpenSSL 3.2 and later do for socket errors.
    var isSystemError: Bool
}

extension OpenSSL {
    /// Clears this thread's error queue, in which other users of OpenSSL may have left errors.
    @inline(__always)
    func clearErrors() {
        if self.functions.ERR_peek_error() != 0 { self.functions.ERR_clear_error() }
    }

    /// Clears this thread's error queue and returns the oldest error. Later ones are consequences of it.
    func takeReason() -> OpenSSLReason? {
        let code = self.functions.ERR_peek_error()
        guard code != 0 else { return nil }
        defer { self.functions.ERR_clear_error() }
        let text = self.functions.ERR_reason_error_string(code).map { String(cString: $0) }
        return OpenSSLReason(
            number: self.library(of: code) == 20 ? code & 0xfff : 0, text: text ?? "OpenSSL error 0x\(String(code, radix: 16))",
            isSystemError: code & 0x8000_0000 != 0 && self.isVersion3)
    }

    /// Whether the last error is that no further PEM block was found (PEM_R_NO_START_LINE).
    var isEndOfPEM: Bool {
        let code = self.functions.ERR_peek_error()
        return self.library(of: code) == 9 && code & 0xfff == 108
    }

    /// The number of the library in an error code, which OpenSSL 3.0 moved by one bit.
    private func library(of code: UInt) -> UInt {
        (self.isVersion3 ? code >> 23 : code >> 24) & 0xff
    }

    private var isVersion3: Bool { self.functions.OpenSSL_version_num() >= 0x3000_0000 }
}
