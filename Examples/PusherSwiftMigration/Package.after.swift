// swift-tools-version:5.1
import PackageDescription

let package = Package(
    name: "YourPackage",
    platforms: [.iOS("16.0"), .macOS("13.0")],
    dependencies: [
        .package(path: "../swift-realtime")
    ],
    targets: [
        .target(name: "YourPackage", dependencies: ["PusherSwift"])
    ]
)
