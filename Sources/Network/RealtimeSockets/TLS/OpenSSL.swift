import RealtimeSystem
package import RealtimeCore

/// The OpenSSL library, version 3 or 1.1.1, which is loaded at run time. It is not required to build the package, nor for connections
/// without TLS.
package final class OpenSSL: Sendable {
    let functions: OpenSSLFunctions
    /// A `BIO_METHOD`. `nonisolated(unsafe)` is safe because it is never modified or freed after initialization.
    nonisolated(unsafe) let socketMethod: OpaquePointer

    /// The library, which is loaded on first use. It is never unloaded, because OpenSSL's thread-local data would outlive it. A failure is
    /// not stored: it may be temporary.
    private static let loaded = Lock<OpenSSL?>(nil)

    /// The loaded library, for C callbacks without a context. They are called only by the library itself, so it has been loaded.
    static let current = OpenSSL.loaded.withLock { $0 }

    /// Returns the library.
    ///
    /// - Throws: `TransportError` with the code `tlsUnavailable` if it cannot be loaded, or `system` if the process is out of descriptors.
    package static func shared(_ library: TLSLibrary = .system) throws(TransportError) -> OpenSSL {
        if library == .absent { throw Self.notFound(Self.defaultNames) }
        // The lock is held while the library is loaded, so that it is loaded once.
        return try Self.loaded.withLock { loaded throws(TransportError) in
            if let loaded { return loaded }
            try Self.checkDescriptors()
            do throws(TransportError) {
                let openSSL = try OpenSSL(names: Self.environmentPath.map { [$0] } ?? Self.defaultNames)
                loaded = openSSL
                return openSSL
            } catch {
                // The process may have run out of descriptors since.
                try Self.checkDescriptors()
                throw error
            }
        }
    }

    /// Checks that libraries and OpenSSL's configuration can be opened. Without the check, a library that cannot be opened would look as if
    /// it were missing, and OpenSSL would ignore a configuration that it cannot open for the rest of the process.
    private static func checkDescriptors() throws(TransportError) {
        var descriptors: [Int32] = []
        defer { for descriptor in descriptors { close(descriptor) } }
        for _ in 0..<8 {
            let descriptor = open("/dev/null", O_RDONLY | O_CLOEXEC)
            guard descriptor >= 0 else {
                let error = SystemError.last
                // The file may be missing, as in a container.
                if error.isShortage { throw .system(error.number, "load OpenSSL") }
                return
            }
            descriptors.append(descriptor)
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

/// The symbols of a loaded libssl, including the symbols of the libcrypto that it is linked with, so that the two always match.
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
