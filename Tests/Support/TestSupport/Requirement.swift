import Processes
import RealtimeSystem
package import Testing

/// Something that a test needs beside Swift, and that may be missing. A test without it is skipped, with a reason that names it.
///
/// All requirements are here, and tests are skipped with `requires(_:)` only, or some of their cases with ``cases(_:fileID:line:)``, so that
/// each skipped test names its requirement. `dev/skipped` fails if a test was skipped although its requirement is met. For this, it detects
/// each requirement by its name.
package struct Requirement: Sendable {
    private let name: String
    /// How to meet the requirement.
    private let advice: String
    private let detect: @Sendable () -> Bool

    private init(_ name: String, _ advice: String, _ detect: @escaping @Sendable () -> Bool) {
        (self.name, self.advice, self.detect) = (name, advice, detect)
    }

    /// Detecting it may start a process, and wait for it.
    fileprivate var isMet: Bool { self.detect() }

    fileprivate var reason: String { "requires \(self.name): \(self.advice)" }

    /// Returns cases of a test that have this requirement, or no cases if it isn't met. The other cases of the test run all the same.
    package func cases<Case>(_ cases: [Case], fileID: String = #fileID, line: Int = #line) -> [Case] {
        if self.isMet { return cases }
        let text = "Cases skipped at \(fileID):\(line): \"\(self.reason)\"\n"
        // In one call, so that the line isn't mixed with the output of the testing library.
        _ = write(STDERR_FILENO, text, text.utf8.count)
        return []
    }
}

extension Trait where Self == ConditionTrait {
    /// The trait of tests that are skipped unless a requirement is met.
    package static func requires(_ requirement: Requirement, sourceLocation: SourceLocation = #_sourceLocation) -> Self {
        .enabled(Comment(rawValue: requirement.reason), sourceLocation: sourceLocation) { try await onOwnThread { requirement.isMet } }
    }
}

extension Requirement {
    /// A run of everything: thousands of cycles, and costs of thousands of items, take longer than a first run should.
    package static let completeRun = Requirement("a complete run", "set the environment variable REALTIME_ALL_TESTS") {
        environment("REALTIME_ALL_TESTS") != nil
    }
}

// MARK: Programs

extension Requirement {
    private init(program: String, package: String? = nil) {
        self.init(program, "install the package \(package ?? program)") { Program.path(of: program) != nil }
    }

    package static let bash = Requirement(program: "bash")
    package static let zsh = Requirement(program: "zsh")
    package static let fish = Requirement(program: "fish")
    package static let nginx = Requirement(program: "nginx", package: "nginx-light")
    package static let tinyproxy = Requirement(program: "tinyproxy")
    package static let node = Requirement(program: "node", package: "nodejs")
    package static let python3 = Requirement(program: "python3")
    package static let groff = Requirement(program: "groff", package: "groff-base")

    /// Programs for manual pages, whose output `col` reads.
    package static let man = Requirement("man and col", "install the packages man-db and bsdextrautils") {
        guard let man = Program.path(of: "man"), Program.path(of: "col") != nil else { return false }
        // The containers of Ubuntu have a script in its place, which says that there are no pages.
        #if os(Linux)
        return !Program.isScript(man)
        #else
        return true
        #endif
    }
    package static let mandoc = Requirement("mandoc and col", "install the packages mandoc and bsdextrautils") {
        Program.path(of: "mandoc") != nil && Program.path(of: "col") != nil
    }
}

/// Programs that are installed on this machine.
package enum Program {
    /// Returns the path of a program, or `nil` if it isn't installed. Debian installs servers in a folder that isn't in everyone's `PATH`.
    package static func path(of name: String) -> String? {
        let folders = (environment("PATH") ?? "").split(separator: ":").map(String.init)
        return (folders + ["/usr/sbin", "/usr/local/sbin"]).map { "\($0)/\(name)" }.first { access($0, X_OK) == 0 }
    }

    fileprivate static func isScript(_ path: String) -> Bool {
        guard let file = fopen(path, "r") else { return false }
        defer { fclose(file) }
        return fgetc(file) == 0x23 && fgetc(file) == 0x21
    }
}

// MARK: Peers

extension Requirement {
    /// Third-party servers and clients that the command in `REALTIME_PEERS` must list.
    package static func peers(_ names: String...) -> Requirement {
        let kind = names.count == 1 ? "the peer" : "the peers"
        let advice = "set REALTIME_PEERS to a command that starts them, such as dev/peers/peers"
        return Requirement("\(kind) \(names.joined(separator: ", "))", advice) { PeerCommand.starts(names) }
    }

    package static let pythonPeers = Requirement(
        "peers for Python", "run dev/peers/python-peers setup, and set REALTIME_PYTHON_PEERS to dev/peers/python-peers"
    ) { PeerCommand.python != nil }

    package static let browserPeer = Requirement(
        "a peer in a browser",
        "install Chromium and the npm packages with dev/peers/peers setup, and set REALTIME_BROWSER_PEERS to dev/peers/peers"
    ) { PeerCommand.browser != nil }

    package static let feathersPeer = Requirement(
        "the peer feathers", "install the npm packages with dev/peers/peers setup, and set REALTIME_FEATHERS_PEERS to dev/peers/peers"
    ) { PeerCommand.feathers != nil }

    /// A server in a container doesn't print the number of its process.
    package static let sockudoProcess = Requirement(
        "the process of the peer sockudo", "set REALTIME_PEERS to a command that prints its number as pid"
    ) {
        guard PeerCommand.starts(["sockudo"]), let command = PeerCommand.all else { return false }
        guard let process = try? ChildProcess([command, "sockudo", "--port", "\(TestPort.next())"], errors: .discarded) else {
            return false
        }
        defer { process.end() }
        return process.readLine()?.contains("\"pid\"") == true
    }
}

/// The commands that start third-party servers and clients.
package enum PeerCommand {
    /// The command that starts all peers.
    package static let all = variable("REALTIME_PEERS")
    package static let python = variable("REALTIME_PYTHON_PEERS")
    /// The command that starts `signalr-browser`.
    package static let browser = variable("REALTIME_BROWSER_PEERS") ?? (starts(["signalr-browser"]) ? all : nil)
    /// The command that starts `feathers`.
    package static let feathers = variable("REALTIME_FEATHERS_PEERS") ?? (starts(["feathers"]) ? all : nil)

    /// Whether the command lists all of these peers.
    fileprivate static func starts(_ peers: [String]) -> Bool {
        guard self.all != nil else { return false }
        return self.names.map { $0.isSuperset(of: peers) } ?? true
    }

    /// The peers that the command lists, or `nil` if it can't list them.
    private static let names: Set<String>? = {
        guard let command = all, let process = try? ChildProcess([command, "list"], errors: .discarded) else { return nil }
        let lines = process.readOutput().split(separator: "\n")
        guard process.waitForEnd() == 0, !lines.isEmpty else { return nil }
        return Set(lines.compactMap { $0.split(separator: " ").first.map(String.init) })
    }()

    private static func variable(_ name: String) -> String? {
        environment(name).flatMap { $0.isEmpty ? nil : $0 }
    }
}

// MARK: The system and the build

extension Requirement {
    /// The library for TLS. The test loads it by itself: if the package couldn't, its tests must fail.
    package static let openSSL = Requirement("OpenSSL", "install the package libssl3, or set REALTIME_LIBSSL to the path of the library") {
        #if canImport(Darwin)
        let names = ["/opt/homebrew", "/usr/local"].flatMap { folder in
            ["opt/openssl@3/lib/libssl.3", "lib/libssl.3", "opt/openssl@1.1/lib/libssl.1.1"].map { "\(folder)/\($0).dylib" }
        }
        #else
        let names = ["libssl.so.3", "libssl.so.1.1"]
        #endif
        return (environment("REALTIME_LIBSSL").map { [$0] } ?? names).contains { dlopen($0, RTLD_LAZY | RTLD_LOCAL) != nil }
    }

    package static let deviceFull = Requirement("/dev/full", "use Linux") { access("/dev/full", W_OK) == 0 }

    /// Simulations need task executors.
    package static let simulations = Requirement("task executors", "use macOS 15 or later") {
        if #available(macOS 15, iOS 18, tvOS 18, watchOS 11, visionOS 2, *) { true } else { false }
    }

    /// Tests of the memory that a process uses.
    package static let usualMemory = Requirement("a build without a sanitizer", "sanitizers use additional memory") {
        #if canImport(Glibc)
        !ProcessUsage.hasSanitizer
        #else
        true
        #endif
    }

    /// A simulation without invariants, whose trace would be long.
    package static let manySeeds = Requirement("more than one seed", "unset REALTIME_TEST_SEED") { chosenSeed == nil }

    /// The tool in the folder of the test bundle.
    package static func tool(_ path: String?) -> Requirement {
        Requirement("the tool in the folder of the tests", "build the product realtime") { path != nil }
    }
}
