// swift-tools-version: 6.2
import PackageDescription

/// With `DEFAULT_ISOLATION=MainActor`, everything runs on the main actor by default, as in new app targets of Xcode.
let settings: [SwiftSetting] = Context.environment["DEFAULT_ISOLATION"] == "MainActor" ? [.defaultIsolation(MainActor.self)] : []

/// A client of a hub, with a server in the same process.
let hub: [Target.Dependency] = [
    .product(name: "SignalRHubs", package: "swift-realtime"),
    .product(name: "SignalRServer", package: "swift-realtime"),
    .product(name: "RealtimeSockets", package: "swift-realtime"),
]

/// A client of Primus, with a server in the same process.
let primus: [Target.Dependency] = [
    .product(name: "PrimusClient", package: "swift-realtime"),
    .product(name: "PrimusServer", package: "swift-realtime"),
    .product(name: "RealtimeSockets", package: "swift-realtime"),
]

let package = Package(
    name: "Examples",
    platforms: [.macOS(.v14)],
    dependencies: [
        .package(name: "swift-realtime", path: "..")
    ],
    targets: [
        .executableTarget(
            name: "Chat", dependencies: [.product(name: "PusherChannels", package: "swift-realtime")], path: "Chat", swiftSettings: settings
        ),
        .executableTarget(
            name: "Ticker",
            dependencies: [
                .product(name: "PusherChannels", package: "swift-realtime"),
                .product(name: "PusherServer", package: "swift-realtime"),
                .product(name: "RealtimeSockets", package: "swift-realtime"),
            ],
            path: "Ticker", swiftSettings: settings),
        .executableTarget(
            name: "Webhooks",
            dependencies: [
                .product(name: "PusherChannels", package: "swift-realtime"),
                .product(name: "PusherServer", package: "swift-realtime"),
                .product(name: "RealtimeSockets", package: "swift-realtime"),
            ],
            path: "Webhooks", swiftSettings: settings),
        .executableTarget(
            name: "PusherSwiftMigration",
            dependencies: [
                .product(name: "PusherSwift", package: "swift-realtime"),
                .product(name: "PusherServer", package: "swift-realtime"),
                .product(name: "RealtimeSockets", package: "swift-realtime"),
            ],
            path: "PusherSwiftMigration", exclude: ["Package.before.swift", "Package.after.swift"], swiftSettings: settings),
        .executableTarget(name: "HubChat", dependencies: hub, path: "HubChat", swiftSettings: settings),
        .executableTarget(name: "StockTicker", dependencies: hub, path: "StockTicker", swiftSettings: settings),
        .executableTarget(name: "FileUpload", dependencies: hub, path: "FileUpload", swiftSettings: settings),
        .executableTarget(name: "PrimusChat", dependencies: primus, path: "PrimusChat", swiftSettings: settings),
        .executableTarget(name: "PrimusTicker", dependencies: primus, path: "PrimusTicker", swiftSettings: settings),
        .executableTarget(name: "FeathersTodos", dependencies: primus, path: "FeathersTodos", swiftSettings: settings),
        .testTarget(
            name: "ViewModelTests", dependencies: [.product(name: "PusherTesting", package: "swift-realtime")], path: "ViewModelTests",
            swiftSettings: settings),
    ]
)
