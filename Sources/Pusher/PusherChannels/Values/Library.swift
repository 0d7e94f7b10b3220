/// This library, as it introduces itself to servers.
enum Library {
    static let version = "0.1.0"
}
