// swift-tools-version: 6.2
import PackageDescription

/// With `DEFAULT_ISOLATION=MainActor`, everything runs on the main actor by default, as in new app targets of Xcode.
let settings: [SwiftSetting] = Context.environment["DEFAULT_ISOLATION"] == "MainActor" ? [.defaultIsolation(MainActor.self)] : []

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
        .testTarget(
            name: "ViewModelTests", dependencies: [.product(name: "PusherTesting", package: "swift-realtime")], path: "ViewModelTests",
            swiftSettings: settings),
    ]
)
