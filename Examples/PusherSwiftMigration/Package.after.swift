// swift-tools-version:5.1
import PackageDescription

let package = Package(
    name: "YourPackage",
    dependencies: [
        .package(url: "https://github.com/swift-realtime/swift-realtime.git", from: "0.1.0")
    ],
    targets: [
        .target(name: "YourPackage", dependencies: ["PusherSwift"])
    ]
)
