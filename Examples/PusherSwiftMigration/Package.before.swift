// swift-tools-version:5.1
import PackageDescription

let package = Package(
    name: "YourPackage",
    platforms: [.iOS("16.0"), .macOS("13.0")],
    dependencies: [
        .package(url: "https://github.com/pusher/pusher-websocket-swift.git", from: "10.1.0")
    ],
    targets: [
        .target(name: "YourPackage", dependencies: ["PusherSwift"])
    ]
)
