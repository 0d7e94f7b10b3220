import CommandLineSupport

/// Commands for a shell, which the tool prints for the user to copy.
enum Shell {
    /// Returns the start of a shell command that runs this tool in the working directory.
    ///
    /// - Parameters:
    ///   - path: The path with which the tool was started. `swift run` starts it with the absolute path in the build folder.
    ///   - workingDirectory: The working directory, which is the folder of the package for `swift run`.
    static func executable(
        _ path: String = CommandLine.arguments[0], workingDirectory: String? = Console.workingDirectory
    ) -> String {
        if let workingDirectory, let rest = path.droppingPrefix(workingDirectory + "/.build/") {
            // `swift run` uses the folder of the platform, and who types the path the links `debug` and `release` to it.
            if !["debug", "release"].contains(rest.prefix { $0 != "/" }) { return "swift run realtime" }
        }
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

extension String {
    fileprivate func droppingPrefix(_ prefix: String) -> Substring? { self.hasPrefix(prefix) ? self.dropFirst(prefix.count) : nil }
}
