// swift-tools-version: 6.2
import PackageDescription

// A package of its own, because it links Foundation and the library does not.
let package = Package(
    name: "foundation-bench",
    platforms: [.macOS(.v13)],
    dependencies: [.package(name: "swift-realtime", path: "../..")],
    targets: [
        .executableTarget(name: "foundation-bench", dependencies: [.product(name: "PusherChannels", package: "swift-realtime")])
    ])
