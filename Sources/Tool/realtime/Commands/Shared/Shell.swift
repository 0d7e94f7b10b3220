/// Commands for a shell, which the tool prints for the user to copy.
enum Shell {
    /// Returns the start of a shell command that runs this tool in the working directory.
    ///
    /// - Parameters:
    ///   - path: The path with which the tool was started. `swift run` starts it with the absolute path in the build folder.
    ///   - workingDirectory: The working directory, which is the folder of the package for `swift run`.
    static func executable(_ path: String, workingDirectory: String?) -> String {
        if let workingDirectory, path.hasPrefix(workingDirectory + "/.build") { return "swift run realtime" }
        return self.quoted(path)
    }

    /// Returns a text as one word for a shell, in quotes if necessary.
    static func quoted(_ text: String) -> String {
        let needsQuotes = !text.utf8.allSatisfy {
            switch $0 {
            case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"), UInt8(ascii: "-")...UInt8(ascii: "9"): true
            default: $0 == UInt8(ascii: "_") || $0 == UInt8(ascii: "+") || $0 == UInt8(ascii: ":") || $0 == UInt8(ascii: "@")
            }
        }
        return needsQuotes ? "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'" : text
    }
}
