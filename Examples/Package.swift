// swift-tools-version: 6.2
import PackageDescription

let package = Package(
    name: "Examples",
    platforms: [.macOS(.v14)],
    dependencies: [
        .package(name: "swift-realtime", path: "..")
    ],
    targets: [
        .executableTarget(
            name: "PriceTicker",
            dependencies: [
                .product(name: "PusherChannels", package: "swift-realtime"),
                .product(name: "PusherServer", package: "swift-realtime"),
                .product(name: "RealtimeSockets", package: "swift-realtime"),
            ]),
        .testTarget(
            name: "ViewModelTests", dependencies: [.product(name: "PusherTesting", package: "swift-realtime")], path: "ViewModelTests"),
    ]
)
