import RealtimeSystem
import RealtimeCore
import TestSupport
import Testing

@testable import RealtimeSockets

/// Tests that observe the whole process, each in its own process.
@Suite(.usesSockets, .requires(.openSSL)) struct TLSProcessTests {
    @Test func `a write after the peer has closed the connection does not raise SIGPIPE`() async {
        await #expect(processExitsWith: .success) {
            signal(SIGPIPE, SIG_DFL)
            let pair = try TLSPair.connected()
            pair.sockets.closeSecond()
            expectEqual(pair.client.write([1]).failure?.code, .reset)

            let other = try TLSPair.connected()
            other.sockets.closeFirst()
            expectEqual(other.server.shutdown().failure?.code, .reset)
        }
    }

    /// Shows that the test above would detect the signal.
    @Test func `a write to a closed connection without TLS raises SIGPIPE`() async {
        await #expect(processExitsWith: .signal(SIGPIPE)) {
            signal(SIGPIPE, SIG_DFL)
            let sockets = SocketPair()
            sockets.closeSecond()
            _ = write(sockets.first, "x", 1)
        }
    }

    @Test func `the environment can set the system's root certificates`() async {
        await #expect(processExitsWith: .success) {
            setenv("SSL_CERT_FILE", TestCertificates.path("root"), 1)
            let pair = try TLSPair(TLSConfiguration())
            expectEqual(pair.handshake().client, .done(0))
        }
    }

    @Test func `the environment can set the path of the library`() async {
        await #expect(processExitsWith: .success) {
            setenv("REALTIME_LIBSSL", "/nowhere/libssl.so", 1)
            let error = try #require(throws: TransportError.self) { try TLSContext.client(TLSConfiguration()) }
            expectEqual(error.code, .tlsUnavailable)
            expect(error.message.contains("/nowhere/libssl.so"))
        }
    }

    #if os(Linux)
    @Test func `TLS works after a shortage of descriptors at its first use`() async {
        await #expect(processExitsWith: .success) {
            setenv("SSL_CERT_FILE", TestCertificates.path("root"), 1)
            let error = try DescriptorShortage.during {
                try #require(throws: TransportError.self) { try TLSContext.client(TLSConfiguration()) }
            }
            expect(error.code == .system && error.message.contains("Too many open files"), "\(error.message)")
            let pair = try TLSPair(TLSConfiguration())
            expectEqual(pair.handshake().client, .done(0))
        }
    }

    @Test func `a shortage of descriptors while the system's roots are loaded is an error that passes`() async {
        await #expect(processExitsWith: .success) {
            setenv("SSL_CERT_FILE", TestCertificates.path("root"), 1)
            _ = try OpenSSL.shared()
            let error = try DescriptorShortage.during {
                try #require(throws: TransportError.self) { try TLSContext.client(TLSConfiguration()) }
            }
            expect(error.code == .system && error.message.contains("root certificates"), "\(error.message)")
            let pair = try TLSPair(TLSConfiguration())
            expectEqual(pair.handshake().client, .done(0))
        }
    }

    @Test func `root certificates in the environment that cannot be loaded are an error`() async {
        await #expect(processExitsWith: .success) {
            setenv("SSL_CERT_DIR", "/nowhere", 1)
            for path in ["/nowhere/roots.pem", TestCertificates.path("server-key")] {
                setenv("SSL_CERT_FILE", path, 1)
                let error = try #require(throws: TransportError.self) { try TLSContext.client(TLSConfiguration()) }
                expect(error.code == .invalidTLSConfiguration && error.message.contains(path), "\(error.message)")
                expect(error.message.contains("SSL_CERT_FILE"), "\(error.message)")
            }
        }
    }

    @Test(.requires(.usualMemory))
    func `thousands of sessions leak no descriptors and no memory`() async {
        await #expect(processExitsWith: .success) {
            let contexts = (client: try TLSContext.client(.trustingTestRoot), server: try TLSContext.server(.test))
            func run(_ count: Int) throws {
                for number in 0..<count {
                    let pair = try TLSPair(contexts: contexts)
                    switch number % 4 {
                    case 0: break
                    case 1: _ = pair.client.handshake()
                    case 2: pair.handshake()
                    default:
                        pair.handshake()
                        _ = pair.client.write(Array(repeating: 1, count: 40_000))
                        _ = pair.server.read()
                        _ = pair.client.shutdown()
                    }
                }
            }
            try run(100)
            let before = ProcessUsage.now().residentKiB << 10
            let descriptors = ProcessUsage.now().descriptors
            try run(2_000)
            let growth = ProcessUsage.now().residentKiB << 10 - before
            // The test runner itself can open or close a few.
            let more = ProcessUsage.now().descriptors - descriptors
            expect(more < 10, "\(more) more descriptors are open")
            expect(growth < 2 << 20, "\(growth) more bytes are in use")
        }
    }

    @Test(.requires(.usualMemory))
    func `an idle pair of sessions uses less than 80 KiB`() async {
        await #expect(processExitsWith: .success) {
            let contexts = (client: try TLSContext.client(.trustingTestRoot), server: try TLSContext.server(.test))
            var pairs = try (0..<20).map { _ in try TLSPair(contexts: contexts) }
            for pair in pairs { pair.handshake() }
            let before = ProcessUsage.now().residentKiB << 10
            let more = try (0..<300).map { _ in try TLSPair(contexts: contexts) }
            for pair in more {
                pair.handshake()
                _ = pair.client.write(Array(repeating: 1, count: 1_000))
                _ = pair.server.read()
                _ = pair.client.read()
            }
            pairs += more
            let bytes = (ProcessUsage.now().residentKiB << 10 - before) / more.count
            // OpenSSL 3.0 uses 34 KB, and 3.5 with its keys for post-quantum key exchange 65 KB. Buffers that are not released would add
            // 64 KB.
            expect(bytes < 80 << 10, "a client's and a server's session use \(bytes) bytes")
        }
    }
    #endif
}
