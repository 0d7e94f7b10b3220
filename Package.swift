// swift-tools-version: 6.2
import PackageDescription

/// Warnings are errors in continuous integration and in `dev/check`, which set the environment variable.
let strict: [SwiftSetting] = Context.environment["REALTIME_STRICT"] == nil ? [] : [.treatAllWarnings(as: .error)]

let settings: [SwiftSetting] =
    [
        .swiftLanguageMode(.v6),
        .enableUpcomingFeature("ExistentialAny"),
        .enableUpcomingFeature("MemberImportVisibility"),
        .enableUpcomingFeature("InternalImportsByDefault"),
        .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    ] + strict

/// A library in the folder of its layer.
func library(_ name: String, in folder: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, path: "\(folder)/\(name)", swiftSettings: settings)
}

func tool(_ name: String, in folder: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(name: name, dependencies: dependencies, path: "\(folder)/\(name)", swiftSettings: settings)
}

func tests(_ name: String, in folder: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, path: "Tests/\(folder)/\(name)", swiftSettings: settings)
}

/// A libFuzzer program. libFuzzer brings `main`, so these targets exist only when the environment variable `FUZZ` is set; see
/// `dev/check fuzz`.
func fuzzer(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: "Fuzz\(name)", dependencies: dependencies, path: "Fuzz/\(name)",
        swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])])
}

/// The libraries of the core, which every target above it may use.
let coreLibraries: [Target.Dependency] = ["RealtimeCore", "RealtimeJSON", "RealtimeCrypto", "RealtimeEncoding", "RealtimeSystem"]
/// What the tool and its benchmarks use.
let programs: [Target.Dependency] = [
    "CommandLineSupport", "Processes", "PusherChannels", "SignalRCore", "SignalRWire", "RealtimeSockets", "RealtimeCore",
    "RealtimeSystem",
]
/// What tests use beside the targets that they test.
let support: [Target.Dependency] = coreLibraries + ["RealtimeTesting", "TestSupport", "SimulationSupport", "PeerSupport", "Processes"]

/// What the tests of the README of signalr-client-swift use.
let readme: [Target.Dependency] = [
    "SignalRClient", "SignalRServer", "RealtimeTransports", "RealtimeSockets", "RealtimeCore", "RealtimeJSON", "RealtimeTesting",
    "TestSupport", "PeerSupport",
]

/// What the tests of the API of PusherSwift use.
let pusherSwift: [Target.Dependency] = [
    "PusherSwift", "NWWebSocket", "PusherServer", "PusherWire", "RealtimeTransports", "RealtimeSockets", "RealtimeCore", "RealtimeJSON",
    "RealtimeSystem", "RealtimeTesting", "TestSupport", "PeerSupport",
]

// A folder of sources imports only folders above it in this file.

let core: [Target] = [
    library("RealtimeSystem", in: "Sources/Core"),
    library("RealtimeEncoding", in: "Sources/Core"),
    library("RealtimeCrypto", in: "Sources/Core"),
    library("RealtimeJSON", in: "Sources/Core", ["RealtimeEncoding", "RealtimeSystem"]),
    library("RealtimeCore", in: "Sources/Core", ["RealtimeEncoding", "RealtimeSystem"]),
    library("RealtimeTesting", in: "Sources/Core", ["RealtimeCore", "RealtimeSystem"]),

    tests("RealtimeEncodingTests", in: "Core", support),
    tests("RealtimeCryptoTests", in: "Core", support),
    tests("RealtimeJSONTests", in: "Core", support),
    tests("RealtimeCoreTests", in: "Core", support + ["RelayProtocol"]),
]

let network: [Target] = [
    .target(name: "CRealtimeSystem", path: "Sources/Network/CRealtimeSystem"),
    library("RealtimeSockets", in: "Sources/Network", ["CRealtimeSystem"] + coreLibraries),
    library("RealtimeURLSession", in: "Sources/Network", coreLibraries),
    library("RealtimeTransports", in: "Sources/Network", ["RealtimeCore", onApple("RealtimeURLSession"), onLinux("RealtimeSockets")]),

    tests("RealtimeSocketsTests", in: "Network", ["RealtimeSockets", "CRealtimeSystem", "ProxySupport"] + support),
    tests("RealtimeURLSessionTests", in: "Network", ["RealtimeURLSession", "RealtimeSockets"] + support),
    tests("TransportConformanceTests", in: "Network", ["RealtimeSockets"] + support),
]

let pusher: [Target] = [
    library("PusherWire", in: "Sources/Pusher", coreLibraries),
    library("PusherChannels", in: "Sources/Pusher", ["PusherWire", "RealtimeTransports"] + coreLibraries),
    library("PusherServer", in: "Sources/Pusher", ["PusherWire", "RealtimeTransports"] + coreLibraries),
    library("NWWebSocket", in: "Sources/Pusher", ["RealtimeTransports"] + coreLibraries),
    library("PusherSwift", in: "Sources/Pusher", ["NWWebSocket", "PusherChannels", "PusherWire", "RealtimeTransports"] + coreLibraries),
    library(
        "PusherTesting", in: "Sources/Pusher", ["PusherChannels", "PusherServer", "RealtimeCore", "RealtimeJSON", "RealtimeTesting"]),

    tests(
        "PusherTests", in: "Pusher",
        ["PusherTesting", "PusherChannels", "PusherServer", "PusherWire", "RealtimeSockets", "ProxySupport"] + support),
    tests("PusherSwiftTests", in: "Pusher", pusherSwift),
    // The same sources in both language modes, without the settings of this package, as in applications.
    .testTarget(
        name: "PusherSwiftReadmeTests",
        dependencies: pusherSwift, path: "Tests/Pusher/PusherSwiftReadmeTests", swiftSettings: [.swiftLanguageMode(.v6)] + strict),
    .testTarget(
        name: "PusherSwiftReadmeSwift5Tests",
        dependencies: pusherSwift, path: "Tests/Pusher/PusherSwiftReadmeSwift5Tests", swiftSettings: [.swiftLanguageMode(.v5)] + strict),
    tests("PusherSimulationTests", in: "Pusher", ["PusherChannels", "PusherServer", "PusherWire"] + support),
    tests("PusherPeerTests", in: "Pusher", ["PusherChannels", "PusherServer", "RealtimeSockets"] + support),
]

let signalR: [Target] = [
    library("SignalRWire", in: "Sources/SignalR", coreLibraries),
    library("SignalRCore", in: "Sources/SignalR", ["SignalRWire", "RealtimeTransports"] + coreLibraries),
    library("SignalRClient", in: "Sources/SignalR", ["SignalRCore", "SignalRWire", "RealtimeTransports"] + coreLibraries),
    library("SignalRServer", in: "Sources/SignalR", ["SignalRWire", "RealtimeTransports"] + coreLibraries),
    library("SignalRTesting", in: "Sources/SignalR", ["SignalRClient", "SignalRServer", "RealtimeCore", "RealtimeTesting"]),

    tests("SignalRWireTests", in: "SignalR", ["SignalRWire"] + support),
    tests("SignalRCoreTests", in: "SignalR", ["SignalRCore", "SignalRWire", "RealtimeSockets", "RealtimeTransports"] + support),
    tests(
        "SignalRClientTests", in: "SignalR",
        ["SignalRTesting", "SignalRClient", "SignalRCore", "SignalRServer", "SignalRWire", "RealtimeSockets"] + support),
    // The same sources in both language modes, without the settings of this package, as in applications.
    .testTarget(
        name: "SignalRReadmeTests",
        dependencies: readme, path: "Tests/SignalR/SignalRReadmeTests", swiftSettings: [.swiftLanguageMode(.v6)] + strict),
    .testTarget(
        name: "SignalRReadmeSwift5Tests",
        dependencies: readme, path: "Tests/SignalR/SignalRReadmeSwift5Tests", swiftSettings: [.swiftLanguageMode(.v5)] + strict),
    tests("SignalRServerTests", in: "SignalR", ["SignalRServer", "SignalRWire", "RealtimeSockets"] + support),
    tests(
        "SignalRPeerTests", in: "SignalR",
        ["SignalRClient", "SignalRCore", "SignalRWire", "RealtimeSockets", "RealtimeTransports"] + support),
    tests("SignalRSimulationTests", in: "SignalR", ["SignalRCore", "SignalRServer", "SignalRWire"] + support),
]

let commandLine: [Target] = [
    library("Processes", in: "Sources/Tool", ["RealtimeSystem"]),
    library("CommandLineSupport", in: "Sources/Tool", ["RealtimeCore", "RealtimeJSON", "RealtimeSystem"]),
    library(
        "RealtimeBenchmarks", in: "Benchmarks",
        programs + ["PusherServer", "PusherWire", "CRealtimeSystem", "RealtimeEncoding", "RealtimeJSON"]),
    tool(
        "realtime", in: "Sources/Tool",
        programs + ["PusherServer", "PusherWire", "SignalRServer", "RealtimeTransports", "RealtimeJSON", "RealtimeBenchmarks"]),

    tests(
        "CommandLineTests", in: "Tool",
        [
            "realtime", "RealtimeBenchmarks", "PusherTesting", "PusherChannels", "PusherServer", "PusherWire", "SignalRCore",
            "SignalRServer", "SignalRWire", "RealtimeSockets", "CommandLineSupport", "ProxySupport",
        ] + support),
    tests(
        "SnippetTests", in: "Documentation",
        [
            "PusherChannels", "PusherServer", "PusherTesting", "PusherWire", "PusherSwift", "SignalRClient", "SignalRServer",
            "SignalRTesting", "RealtimeSockets", "CommonNames", "DocumentationStubs",
        ] + support),
    library("TestSupport", in: "Tests/Support", ["RealtimeCore", "RealtimeSystem", "RealtimeTesting", "Processes"]),
    library("ProxySupport", in: "Tests/Support", ["RealtimeSockets", "RealtimeCore", "RealtimeSystem"]),
    library("RelayProtocol", in: "Tests/Support", ["RealtimeCore", "RealtimeSystem"]),
    library("SimulationSupport", in: "Tests/Support", ["TestSupport", "RealtimeCore", "RealtimeSystem"]),
    tests("SimulationSupportTests", in: "Support", support),
    library("PeerSupport", in: "Tests/Support", ["RealtimeCore", "RealtimeJSON", "RealtimeSystem", "Processes"]),
    library("CommonNames", in: "Tests/Support"),
    library("DocumentationStubs", in: "Tests/Support"),
]

let fuzzers: [Target] = [
    fuzzer("JSON", ["RealtimeJSON"]),
    fuzzer("MessagePack", ["RealtimeJSON"]),
    fuzzer("HTTPHead", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("ChunkedBody", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("ProxyHandshake", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("WebSocketFrames", ["RealtimeSockets", "RealtimeCore"]),
    fuzzer("PusherFrames", ["PusherWire", "RealtimeCore", "RealtimeJSON"]),
    fuzzer("EncryptedPayload", ["PusherWire"]),
    fuzzer("FossilDelta", ["PusherWire"]),
    fuzzer("HubMessages", ["SignalRWire", "RealtimeCore"]),
    fuzzer("Negotiate", ["SignalRWire", "RealtimeCore"]),
    fuzzer("HubSession", ["SignalRCore", "SignalRWire", "RealtimeCore", "RealtimeSystem", "RealtimeTesting"]),
    fuzzer("PusherSession", ["PusherChannels", "PusherServer", "RealtimeCore", "RealtimeJSON", "RealtimeSystem", "RealtimeTesting"]),
]

func onApple(_ name: String) -> Target.Dependency {
    .target(name: name, condition: .when(platforms: [.iOS, .macOS, .tvOS, .watchOS, .visionOS, .macCatalyst]))
}

func onLinux(_ name: String) -> Target.Dependency { .target(name: name, condition: .when(platforms: [.linux])) }

let package = Package(
    name: "swift-realtime",
    platforms: [.iOS(.v16), .macOS(.v13), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "PusherChannels", targets: ["PusherChannels"]),
        .library(name: "PusherServer", targets: ["PusherServer"]),
        .library(name: "PusherTesting", targets: ["PusherTesting"]),
        .library(name: "PusherSwift", targets: ["PusherSwift", "NWWebSocket"]),
        .library(name: "RealtimeCore", targets: ["RealtimeCore"]),
        .library(name: "RealtimeJSON", targets: ["RealtimeJSON"]),
        .library(name: "RealtimeSockets", targets: ["RealtimeSockets"]),
        .library(name: "RealtimeTesting", targets: ["RealtimeTesting"]),
        .library(name: "SignalRClient", targets: ["SignalRClient"]),
        .library(name: "SignalRServer", targets: ["SignalRServer"]),
        .library(name: "SignalRTesting", targets: ["SignalRTesting"]),
        .executable(name: "realtime", targets: ["realtime"]),
    ],
    targets: core + network + pusher + signalR + commandLine + (Context.environment["FUZZ"] == nil ? [] : fuzzers)
)
