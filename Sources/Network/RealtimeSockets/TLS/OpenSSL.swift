import RealtimeSystem
package import RealtimeCore

/// OpenSSL 3 or 1.1.1, found at run time: nothing is needed to build, and plain connections work without it.
package final class OpenSSL: Sendable {
    let functions: OpenSSLFunctions
    /// A `BIO_METHOD`. `nonisolated(unsafe)`: it is made here, never changed and never freed.
    nonisolated(unsafe) let socketMethod: OpaquePointer

    /// Loaded when it is first asked for, and never unloaded: OpenSSL's threads' data would outlive it.
    private static let loaded = Result<OpenSSL, TransportError> { () throws(TransportError) in
        if let path = OpenSSL.chosenPath { return try OpenSSL(names: [path]) }
        return try OpenSSL(names: OpenSSL.usualNames)
    }

    /// The library of this process, for C callbacks, which carry nothing: they only run when it is there.
    static let current = try? OpenSSL.loaded.get()

    package static func shared(_ library: TLSLibrary = .system) throws(TransportError) -> OpenSSL {
        switch library {
        case .system: try Self.loaded.get()
        case .absent: throw Self.notFound(Self.usualNames)
        }
    }

    /// Tries the names in order. Only `shared` and tests of a failure call it, because callbacks know one library alone.
    init(names: [String]) throws(TransportError) {
        guard let symbols = names.lazy.compactMap({ OpenSSLSymbols($0) }).first else { throw Self.notFound(names) }
        self.functions = try OpenSSLFunctions(symbols)
        // Without an exit handler of its own: it would free what other threads still use while the process ends.
        let initialized = self.functions.OPENSSL_init_ssl(OpenSSLNumber.initWithoutExitHandler, nil)
        guard initialized == 1, let method = SocketBIO.makeMethod(self.functions) else {
            throw TransportError(.tlsUnavailable, "\(symbols.name) could not be initialized, so TLS cannot be used.")
        }
        self.socketMethod = method
    }

    /// A program that runs with more rights than its user takes no library from the user's environment.
    private static var chosenPath: String? {
        guard getuid() == geteuid(), getgid() == getegid(), let path = getenv("REALTIME_LIBSSL") else { return nil }
        return String(cString: path)
    }

    // Apple's own libssl ends a process that loads it, hence the full paths.
    #if canImport(Darwin)
    static let usualNames = ["/opt/homebrew", "/usr/local"].flatMap {
        ["\($0)/opt/openssl@3/lib/libssl.3.dylib", "\($0)/lib/libssl.3.dylib", "\($0)/opt/openssl@1.1/lib/libssl.1.1.dylib"]
    }
    private static let advice = "run `brew install openssl@3`"
    #else
    static let usualNames = ["libssl.so.3", "libssl.so.1.1"]
    private static let advice = "install the package libssl3 (Debian, Ubuntu, Alpine) or openssl-libs (Fedora, RHEL, Amazon Linux)"
    #endif

    private static func notFound(_ names: [String]) -> TransportError {
        TransportError(
            .tlsUnavailable,
            "TLS needs the OpenSSL library, and none of \(names.joined(separator: ", ")) could be loaded: \(Self.advice), "
                + "or name the file in the environment variable REALTIME_LIBSSL.")
    }
}

/// One loaded library. Looking a name up in libssl also looks in the libcrypto that it was linked with, and so the
/// two always fit.
struct OpenSSLSymbols {
    let name: String
    private let handle: UnsafeMutableRawPointer

    init?(_ name: String) {
        guard let handle = dlopen(name, RTLD_NOW | RTLD_LOCAL) else { return nil }
        self.name = name
        self.handle = handle
    }

    /// The function with this name, as the C type that the caller states.
    func find<Function>(_ name: String) throws(TransportError) -> Function {
        guard let symbol = dlsym(self.handle, name) else {
            throw TransportError(.tlsUnavailable, "\(self.name) has no \(name), so TLS cannot be used: install OpenSSL 3 or 1.1.1.")
        }
        return unsafeBitCast(symbol, to: Function.self)
    }
}
