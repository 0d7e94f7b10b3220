// swift-tools-version: 6.2
import PackageDescription

/// Every target is Swift 6 with these; a new target takes them too.
let settings: [SwiftSetting] = [
    .swiftLanguageMode(.v6),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("MemberImportVisibility"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
]

/// Where the client speaks through the system's own URLSession.
let urlSessionPlatforms: [Platform] = [.iOS, .macOS, .tvOS, .watchOS, .visionOS, .macCatalyst]
/// Where the package brings its own sockets.
let socketPlatforms: [Platform] = [.linux, .macOS]

func library(_ name: String, _ dependencies: [Target.Dependency] = []) -> Target {
    .target(name: name, dependencies: dependencies, swiftSettings: settings)
}

func tests(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .testTarget(name: name, dependencies: dependencies, swiftSettings: settings)
}

/// Programs for libFuzzer, one for each decoder. They have no `main` of their own, so they are here only when asked for:
/// `FUZZ=1 swift build -c release --sanitize=fuzzer --sanitize=address --scratch-path .build-fuzz --product FuzzJSON`
func fuzzer(_ name: String, _ dependencies: [Target.Dependency]) -> Target {
    .executableTarget(
        name: "Fuzz\(name)", dependencies: dependencies, path: "Fuzz/\(name)",
        swiftSettings: settings + [.unsafeFlags(["-parse-as-library"])])
}

let fuzzers: [Target] =
    Context.environment["FUZZ"] == nil
    ? []
    : [
        fuzzer("JSON", ["RealtimeCore"]),
        fuzzer("HTTPHead", ["RealtimeSockets", "RealtimeCore"]),
        fuzzer("ChunkedBody", ["RealtimeSockets", "RealtimeCore"]),
        fuzzer("WebSocketFrames", ["RealtimeSockets", "RealtimeCore"]),
        fuzzer("PusherFrames", ["PusherWire", "RealtimeCore"]),
        fuzzer("PusherSession", ["PusherChannels", "PusherServer", "RealtimeCore", "RealtimeTesting"]),
    ]

let package = Package(
    name: "swift-realtime",
    platforms: [.iOS(.v16), .macOS(.v13), .tvOS(.v16), .watchOS(.v9), .visionOS(.v1)],
    products: [
        .library(name: "PusherChannels", targets: ["PusherChannels"]),
        .library(name: "PusherServer", targets: ["PusherServer"]),
        .library(name: "RealtimeCore", targets: ["RealtimeCore"]),
        .library(name: "RealtimeSockets", targets: ["RealtimeSockets"]),
        .library(name: "RealtimeTesting", targets: ["RealtimeTesting"]),
        .executable(name: "realtime", targets: ["realtime"]),
    ],
    targets: [
        .target(name: "CRealtimeSystem"),
        library("RealtimeCore"),
        library("RealtimeCrypto"),
        library("RealtimeSockets", ["RealtimeCore", "RealtimeCrypto", "CRealtimeSystem"]),
        library("RealtimeURLSession", ["RealtimeCore"]),
        library(
            "RealtimeTransports",
            [
                "RealtimeCore",
                .target(name: "RealtimeURLSession", condition: .when(platforms: urlSessionPlatforms)),
                .target(name: "RealtimeSockets", condition: .when(platforms: [.linux])),
            ]),
        library("PusherWire", ["RealtimeCore", "RealtimeCrypto"]),
        library("PusherChannels", ["PusherWire", "RealtimeTransports", "RealtimeCore"]),
        library("PusherServer", ["PusherWire", "RealtimeTransports", "RealtimeCore"]),
        library("RealtimeTesting", ["RealtimeCore", "PusherChannels", "PusherServer"]),
        library("Processes", ["RealtimeCore"]),
        .executableTarget(
            name: "realtime",
            dependencies: [
                "PusherChannels", "PusherServer", "PusherWire", "RealtimeCore", "RealtimeSockets", "RealtimeCrypto", "Processes",
            ],
            swiftSettings: settings),

        .target(name: "TestSupport", dependencies: ["Processes", "RealtimeCore"], path: "Tests/TestSupport", swiftSettings: settings),
        tests("RealtimeCoreTests", ["RealtimeCore", "RealtimeTesting", "TestSupport"]),
        tests("RealtimeCryptoTests", ["RealtimeCrypto", "Processes"]),
        tests("RealtimeSocketsTests", ["RealtimeSockets", "RealtimeCore", "CRealtimeSystem", "TestSupport"]),
        tests("TransportConformanceTests", ["RealtimeSockets", "RealtimeCore", "RealtimeTesting", "TestSupport"]),
        tests("SimulationTests", ["RealtimeCore", "PusherChannels", "PusherServer", "PusherWire", "TestSupport"]),
        tests(
            "PusherTests",
            ["PusherChannels", "PusherServer", "PusherWire", "RealtimeTesting", "RealtimeCore", "RealtimeSockets", "TestSupport"]),
        tests("PeerTests", ["PusherChannels", "PusherServer", "RealtimeSockets", "RealtimeCore", "Processes", "TestSupport"]),
        tests("RealtimeURLSessionTests", ["RealtimeURLSession", "RealtimeSockets", "RealtimeCore", "TestSupport"]),
        tests("CommandLineTests", ["realtime", "RealtimeCore", "Processes", "TestSupport"]),
        tests("SnippetTests", ["PusherChannels", "PusherServer", "RealtimeTesting", "RealtimeSockets", "RealtimeCore", "TestSupport"]),
    ] + fuzzers
)
