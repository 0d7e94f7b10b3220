// swift-tools-version: 6.2
import PackageDescription

// Apart from the library's own package, since it is the only thing here that links Foundation.
let package = Package(
    name: "foundation-bench",
    platforms: [.macOS(.v13)],
    dependencies: [.package(name: "swift-realtime", path: "../..")],
    targets: [
        .executableTarget(name: "foundation-bench", dependencies: [.product(name: "PusherChannels", package: "swift-realtime")])
    ])
