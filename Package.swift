// swift-tools-version: 6.2
import PackageDescription

/// Warnings are errors in continuous integration and in `dev/check`, which set the environment variable.
let strict: [SwiftSetting] = Context.environment["REALTIME_STRICT"] == nil ? [] : [.treatAllWarnings(as: .error)]

/// Whether all tests exist, as in continuous integration and in `dev/check`, which set `REALTIME_ALL_TESTS`. Otherwise, the targets are left out
/// that a first run doesn't need: tests with other implementations, simulations, and copies of what is in the documentation.
let isComplete = ["REALTIME_ALL_TESTS", "REALTIME_PEERS", "REALTIME_PYTHON_PEERS", "REALTIME_ONLY"].contains {
    Context.environment[$0] != nil
}

/// Compiles the files of a module in one job, which takes a quarter less processor time than three that each check the same declarations.
let wholeModule = ["-wmo", "-no-emit-module-separately-wmo", "-num-threads", "2", "-disable-batch-mode"]

/// Builds that don't compile a module again after a change, as in continuous integration, set `REALTIME_WHOLE_MODULES`.
let compiledOnce: [SwiftSetting] =
    Context.environment["REALTIME_WHOLE_MODULES"] == nil ? [] : [.unsafeFlags(wholeModule, .when(configuration: .debug))]

let settings: [SwiftSetting] =
    [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ] + strict + compiledOnce

/// Each target of tests is compiled as a whole: macros, which take most of the time, are expanded once instead of three times. There is no debug
/// information, because a test names the line that fails, and the compiler doesn't check its own output. While you work on tests, set the environment
/// variable `REALTIME_DEBUG_TESTS`: only the files that have changed are compiled, and breakpoints can be set.
let testSettings: [SwiftSetting] =
    Context.environment["REALTIME_DEBUG_TESTS"] == nil
    ? [.unsafeFlags(wholeModule + ["-Xfrontend", "-gnone", "-Xfrontend", "-disable-llvm-verify"])] : []

/// A library in the folder of its layer.
func library(_ name: String, in folder: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "\(folder)/\(name)", swiftSettings: settings)
}

func tool(_ name: String, in folder: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: "\(folder)/\(name)", swiftSettings: settings)
}

func tests(_ name: String, in folder: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, path: "Tests/\(folder)/\(name)", swiftSettings: settings + testSettings)
}

/// Tests without the settings of this package, as in applications.
func applicationTests(_ name: String, in folder: String, _ mode: SwiftLanguageMode, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(
        name: name, dependencies: dependencies, path: "Tests/\(folder)/\(name)",
        swiftSettings: [.swiftLanguageMode(mode)] + strict + testSettings)
}

/// A libFuzzer program. libFuzzer brings `main`, so these targets exist only when the environment variable `FUZZ` is set; see
/// `dev/check fuzz`.
func fuzzer(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: "Fuzz\(name)", dependencies: dependencies, path: "Fuzz/\(name)",
        swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])])
}

/// The libraries of the core, which every target above it may use.
let coreLibraries: [Target.Dependency] = ["RealtimeCore", "RealtimeCoding", "RealtimeCrypto", "RealtimeEncoding", "RealtimeSystem"]
/// The dependencies of the tool and its benchmarks.
let programs: [Target.Dependency] = [
    "CommandLineSupport", "Processes", "PusherChannels", "SignalRHubs", "SignalRWire", "PrimusClient", "PrimusWire", "RealtimeSockets",
    "RealtimeCore", "RealtimeSystem",
]
/// The dependencies of tests beside the targets that they test.
let support: [Target.Dependency] = coreLibraries + ["RealtimeTesting", "TestSupport", "SimulationSupport", "PeerSupport", "Processes"]

/// The dependencies of the tests of the README of signalr-client-swift.
let readme: [Target.Dependency] = [
    "SignalRClient", "SignalRServer", "SignalRWire", "RealtimeTransports", "RealtimeSockets", "RealtimeCore", "RealtimeCoding",
    "RealtimeTesting", "TestSupport", "PeerSupport",
]

/// The dependencies of the tests of Primus-Objc's API.
let primusSwift: [Target.Dependency] = [
    "PrimusSwift", "PrimusTesting", "PrimusClient", "PrimusServer", "PrimusWire", "RealtimeTransports", "RealtimeSockets", "RealtimeCore",
    "RealtimeCoding", "RealtimeSystem", "RealtimeTesting", "TestSupport", "PeerSupport",
]

/// The dependencies of the tests of PusherSwift's API.
let pusherSwift: [Target.Dependency] = [
    "PusherSwift", "NWWebSocket", "PusherChannels", "PusherServer", "PusherWire", "RealtimeTransports", "RealtimeSockets", "RealtimeCore",
    "RealtimeCoding", "RealtimeSystem", "RealtimeTesting", "TestSupport", "PeerSupport",
]

// A folder of sources imports only folders above it in this file.

let core: [Target] = [
    library("RealtimeSystem", in: "Sources/Core"),
    library("RealtimeEncoding", in: "Sources/Core"),
    library("RealtimeCrypto", in: "Sources/Core"),
    library("RealtimeCoding", in: "Sources/Core", ["RealtimeEncoding", "RealtimeSystem"]),
    library("RealtimeCore", in: "Sources/Core", ["RealtimeEncoding", "RealtimeSystem"]),
    library("RealtimeTesting", in: "Sources/Core", ["RealtimeCore", "RealtimeSystem"]),

    tests("RealtimeEncodingTests", in: "Core", support),
    tests("RealtimeCryptoTests", in: "Core", support),
    tests("RealtimeCodingTests", in: "Core", support),
    tests("RealtimeCoreTests", in: "Core", support + ["RelayProtocol"]),
]

let network: [Target] = [
    .target(name: "CRealtimeSystem", path: "Sources/Network/CRealtimeSystem"),
    library("RealtimeSockets", in: "Sources/Network", ["CRealtimeSystem"] + coreLibraries),
    // For the resource, the package manager adds code that imports Foundation. Programs link this target on Apple platforms only.
    .target(
        name: "RealtimeURLSession", dependencies: coreLibraries, path: "Sources/Network/RealtimeURLSession",
        resources: [.copy("PrivacyInfo.xcprivacy")], swiftSettings: settings),
    library("RealtimeTransports", in: "Sources/Network", ["RealtimeCore", onApple("RealtimeURLSession"), onLinux("RealtimeSockets")]),

    tests("RealtimeSocketsTests", in: "Network", ["RealtimeSockets", "CRealtimeSystem", "ProxySupport"] + support),
    tests("RealtimeURLSessionTests", in: "Network", ["RealtimeURLSession", "RealtimeSockets"] + support),
    tests(
        "TransportConformanceTests", in: "Network",
        ["RealtimeSockets", "RealtimeURLSession", "RelayProtocol", "ProxySupport"] + support),
]

let pusher: [Target] = [
    library("PusherWire", in: "Sources/Pusher", coreLibraries),
    library("PusherChannels", in: "Sources/Pusher", ["PusherWire", "RealtimeTransports"] + coreLibraries),
    library("PusherServer", in: "Sources/Pusher", ["PusherWire", "RealtimeTransports"] + coreLibraries),
    library("NWWebSocket", in: "Sources/Pusher", ["RealtimeTransports"] + coreLibraries),
    library("PusherSwift", in: "Sources/Pusher", ["NWWebSocket", "PusherChannels", "PusherWire", "RealtimeTransports"] + coreLibraries),
    library(
        "PusherTesting", in: "Sources/Pusher", ["PusherChannels", "PusherServer", "RealtimeCore", "RealtimeCoding", "RealtimeTesting"]),

    tests("PusherWireTests", in: "Pusher", ["PusherWire"] + support),
    tests(
        "PusherChannelsTests", in: "Pusher",
        ["PusherTestSupport", "PusherTesting", "PusherChannels", "PusherServer", "PusherWire", "RealtimeSockets", "ProxySupport"] + support),
    tests(
        "PusherServerTests", in: "Pusher",
        ["PusherTestSupport", "PusherTesting", "PusherChannels", "PusherServer", "PusherWire", "RealtimeSockets"] + support),
    tests("PusherSwiftTests", in: "Pusher", pusherSwift),
]

let signalR: [Target] = [
    library("SignalRWire", in: "Sources/SignalR", coreLibraries),
    library("SignalRHubs", in: "Sources/SignalR", ["SignalRWire", "RealtimeTransports"] + coreLibraries),
    library("SignalRClient", in: "Sources/SignalR", ["SignalRHubs", "SignalRWire", "RealtimeTransports"] + coreLibraries),
    library("SignalRServer", in: "Sources/SignalR", ["SignalRWire", "RealtimeTransports"] + coreLibraries),
    library("SignalRTesting", in: "Sources/SignalR", ["SignalRHubs", "SignalRServer", "RealtimeCore", "RealtimeTesting"]),

    tests("SignalRWireTests", in: "SignalR", ["SignalRWire"] + support),
    tests("SignalRHubsTests", in: "SignalR", ["SignalRHubs", "SignalRWire", "RealtimeSockets", "RealtimeTransports"] + support),
    tests(
        "SignalRClientTests", in: "SignalR",
        ["SignalRTesting", "SignalRClient", "SignalRHubs", "SignalRServer", "SignalRWire", "RealtimeSockets", "ProxySupport"] + support),
    tests("SignalRServerTests", in: "SignalR", ["SignalRServer", "SignalRWire", "RealtimeSockets", "ProxySupport"] + support),
]

let primus: [Target] = [
    library("PrimusWire", in: "Sources/Primus", coreLibraries),
    library("PrimusClient", in: "Sources/Primus", ["PrimusWire", "RealtimeTransports"] + coreLibraries),
    library("PrimusSwift", in: "Sources/Primus", ["PrimusClient", "PrimusWire", "RealtimeTransports"] + coreLibraries),
    library("PrimusServer", in: "Sources/Primus", ["PrimusWire", "RealtimeTransports"] + coreLibraries),
    library("PrimusTesting", in: "Sources/Primus", ["PrimusClient", "PrimusServer", "RealtimeCore", "RealtimeTesting"]),

    tests("PrimusWireTests", in: "Primus", ["PrimusWire"] + support),
    tests(
        "PrimusClientTests", in: "Primus",
        ["PrimusTesting", "PrimusClient", "PrimusServer", "PrimusWire", "RealtimeSockets", "RealtimeTransports", "ProxySupport"] + support),
    tests(
        "PrimusServerTests", in: "Primus",
        ["PrimusTesting", "PrimusClient", "PrimusServer", "PrimusWire", "RealtimeSockets", "ProxySupport"] + support),
    tests("PrimusSwiftTests", in: "Primus", primusSwift),
]

let commandLine: [Target] = [
    library("Processes", in: "Benchmarks", ["RealtimeSystem"]),
    library("CommandLineSupport", in: "Sources/Tool", ["RealtimeCore", "RealtimeCoding", "RealtimeSystem"]),
    library(
        "RealtimeBenchmarks", in: "Benchmarks",
        programs + ["PusherServer", "PusherWire", "SignalRServer", "PrimusServer", "CRealtimeSystem", "RealtimeEncoding", "RealtimeCoding"]),
    // Counts instructions; see `dev/check instructions`. It isn't a product.
    .target(name: "CAllocations", path: "Benchmarks/CAllocations"),
    tool("instruction-counts", in: "Benchmarks", ["RealtimeBenchmarks", "RealtimeSystem", "CAllocations"]),
    tool(
        "realtime", in: "Sources/Tool",
        programs + [
            "PusherServer", "PusherWire", "SignalRServer", "PrimusServer", "RealtimeTransports",
            "RealtimeCoding", "RealtimeCrypto", "RealtimeEncoding", "RealtimeBenchmarks",
        ]),

    tests(
        "CommandLineTests", in: "Tool",
        [
            "realtime", "RealtimeBenchmarks", "PusherTesting", "PusherChannels", "PusherServer", "PusherWire", "SignalRHubs",
            "SignalRServer", "SignalRWire", "PrimusClient", "PrimusServer", "PrimusWire", "RealtimeSockets", "CommandLineSupport",
            "ProxySupport",
        ] + support),
    .target(name: "CTestSupport", path: "Tests/Support/CTestSupport"),
    library(
        "TestSupport", in: "Tests/Support",
        ["CTestSupport", "RealtimeSockets", "RealtimeCore", "RealtimeSystem", "RealtimeTesting", "Processes"]),
    library(
        "ProxySupport", in: "Tests/Support",
        ["RealtimeSockets", "RealtimeCore", "RealtimeSystem", "PeerSupport", "Processes", "TestSupport"]),
    library("RelayProtocol", in: "Tests/Support", ["RealtimeCore", "RealtimeSystem"]),
    library("SimulationSupport", in: "Tests/Support", ["TestSupport", "RealtimeCore", "RealtimeSystem"]),
    tests("SimulationSupportTests", in: "Support", support),
    library(
        "PeerSupport", in: "Tests/Support",
        ["RealtimeCore", "RealtimeCoding", "RealtimeSystem", "RealtimeTransports", "TestSupport", "Processes"]),
    library(
        "PusherTestSupport", in: "Tests/Support",
        [
            "PusherTesting", "PusherChannels", "PusherServer", "PusherWire", "RealtimeCore", "RealtimeCoding", "RealtimeSystem",
            "RealtimeTesting", "TestSupport",
        ]),
    library("CommonNames", in: "Tests/Support"),
    library("DocumentationStubs", in: "Tests/Support"),
]

/// The tests that exist only if `isComplete`: with other implementations, the simulations, and the snippets of the documentation and of the
/// READMEs of the libraries that this package replaces, these in the language modes of Swift 6 and 5. The sources of the latter are links.
let completeOnly: [Target] = [
    tests("PusherPeerTests", in: "Pusher", ["PusherChannels", "PusherServer", "RealtimeSockets", "ProxySupport"] + support),
    tests(
        "SignalRPeerTests", in: "SignalR",
        ["SignalRClient", "SignalRHubs", "SignalRWire", "RealtimeSockets", "RealtimeTransports", "ProxySupport"] + support),
    tests(
        "PrimusPeerTests", in: "Primus",
        ["PrimusClient", "PrimusServer", "PrimusWire", "RealtimeSockets", "RealtimeTransports", "ProxySupport"] + support),
    tests(
        "SnippetTests", in: "Documentation",
        [
            "PusherChannels", "PusherServer", "PusherTesting", "PusherWire", "PusherSwift", "PrimusSwift", "SignalRHubs",
            "SignalRClient",
            "SignalRServer", "SignalRTesting", "PrimusClient", "PrimusServer", "PrimusTesting", "RealtimeSockets", "CommonNames",
            "DocumentationStubs",
        ] + support),
    tests("PusherSimulationTests", in: "Pusher", ["PusherChannels", "PusherServer", "PusherWire"] + support),
    tests("SignalRSimulationTests", in: "SignalR", ["SignalRHubs", "SignalRServer", "SignalRWire"] + support),
    tests("PrimusSimulationTests", in: "Primus", ["PrimusClient", "PrimusServer", "PrimusWire"] + support),
    applicationTests("PusherSwiftReadmeTests", in: "Pusher", .v6, pusherSwift),
    applicationTests("SignalRReadmeTests", in: "SignalR", .v6, readme),
    applicationTests("PrimusSwiftReadmeTests", in: "Primus", .v6, primusSwift),
    applicationTests("PusherSwiftReadmeSwift5Tests", in: "Pusher", .v5, pusherSwift),
    applicationTests("PrimusSwiftReadmeSwift5Tests", in: "Primus", .v5, primusSwift),
    applicationTests("SignalRReadmeSwift5Tests", in: "SignalR", .v5, readme),
]

let fuzzers: [Target] = [
    fuzzer("JSON", ["RealtimeCoding"]),
    fuzzer("MessagePack", ["RealtimeCoding"]),
    fuzzer("HTTPHead", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("ChunkedBody", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("Cookies", ["RealtimeCore"]),
    fuzzer("ServerSentEvents", ["RealtimeCore"]),
    fuzzer("ProxyHandshake", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("WebSocketFrames", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("PusherFrames", ["PusherWire", "RealtimeCore", "RealtimeCoding"]),
    fuzzer("EncryptedPayload", ["PusherWire"]),
    fuzzer("FossilDelta", ["PusherWire"]),
    fuzzer("HubMessages", ["SignalRWire", "RealtimeCore"]),
    fuzzer("HubMessageBuffer", ["SignalRWire", "RealtimeCore"]),
    fuzzer("Negotiate", ["SignalRWire", "RealtimeCore"]),
    fuzzer("HubSession", ["SignalRHubs", "SignalRWire", "RealtimeCore", "RealtimeSystem", "RealtimeTesting"]),
    fuzzer("PrimusParsers", ["PrimusWire", "RealtimeCore", "RealtimeCoding"]),
    fuzzer("EngineIOPackets", ["PrimusWire", "RealtimeCore", "RealtimeCoding"]),
    fuzzer("SockJSFrames", ["PrimusWire", "RealtimeCore"]),
    fuzzer("SockJSStream", ["PrimusWire", "RealtimeCore"]),
    fuzzer("EngineIOUpgrade", ["PrimusClient", "PrimusWire", "RealtimeCore", "RealtimeSystem", "RealtimeTesting"]),
    fuzzer("PrimusPlugins", ["PrimusWire", "RealtimeCore", "RealtimeCoding"]),
    fuzzer("PrimusSession", ["PrimusClient", "PrimusWire", "RealtimeCore", "RealtimeCoding", "RealtimeSystem", "RealtimeTesting"]),
    fuzzer("PusherSession", ["PusherChannels", "PusherServer", "RealtimeCore", "RealtimeCoding", "RealtimeSystem", "RealtimeTesting"]),
]

func onApple(_ name: String) -> Target.Dependency {
    .target(name: name, condition: .when(platforms: [.iOS, .macOS, .tvOS, .watchOS, .visionOS, .macCatalyst]))
}

func onLinux(_ name: String) -> Target.Dependency { .target(name: name, condition: .when(platforms: [.linux])) }

/// Returns the targets that the environment variable `REALTIME_ONLY` names, with their dependencies; all targets without it. For a quick build
/// while you work on a part: `REALTIME_ONLY="PusherServerTests realtime" swift test`.
func selected(_ targets: [Target]) -> [Target] {
    guard let only = Context.environment["REALTIME_ONLY"] else { return targets }
    var names: Set<String> = []
    var pending = only.split(separator: " ").map(String.init)
    while let name = pending.popLast() {
        guard names.insert(name).inserted, let target = targets.first(where: { $0.name == name }) else { continue }
        for dependency in target.dependencies {
            switch dependency {
            case .targetItem(let name, _), .byNameItem(let name, _): pending.append(name)
            default: break
            }
        }
    }
    return targets.filter { names.contains($0.name) }
}

let targets = selected(
    core + network + pusher + signalR + primus + commandLine + (isComplete ? completeOnly : [])
        + (Context.environment["FUZZ"] == nil ? [] : fuzzers))

let libraries: [(name: String, targets: [String])] = [
    ("PusherChannels", ["PusherChannels"]),
    ("PusherServer", ["PusherServer"]),
    ("PusherTesting", ["PusherTesting"]),
    ("PusherSwift", ["PusherSwift", "NWWebSocket"]),
    ("SignalRHubs", ["SignalRHubs"]),
    ("SignalRServer", ["SignalRServer"]),
    ("SignalRTesting", ["SignalRTesting"]),
    ("SignalRClient", ["SignalRClient"]),
    ("PrimusClient", ["PrimusClient"]),
    ("PrimusSwift", ["PrimusSwift"]),
    ("PrimusServer", ["PrimusServer"]),
    ("PrimusTesting", ["PrimusTesting"]),
    ("RealtimeCore", ["RealtimeCore"]),
    ("RealtimeCoding", ["RealtimeCoding"]),
    ("RealtimeSockets", ["RealtimeSockets"]),
    ("RealtimeTesting", ["RealtimeTesting"]),
]

let names = Set(targets.map(\.name))

let package = Package(
    name: "swift-realtime",
    platforms: [.iOS(.v16), .macOS(.v13), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: libraries.filter { names.isSuperset(of: $0.targets) }.map { .library(name: $0.name, targets: $0.targets) }
        + (names.contains("realtime") ? [.executable(name: "realtime", targets: ["realtime"])] : []),
    targets: targets
)
