/// What was recorded, made or copied from a standard, as files.
package enum Vectors {
    /// - Parameter name: as in `certificates/root.pem`.
    package static func path(_ name: String) -> String {
        let tests = #filePath.split(separator: "/", omittingEmptySubsequences: false).dropLast(3).joined(separator: "/")
        return "\(tests)/Vectors/\(name)"
    }
}
