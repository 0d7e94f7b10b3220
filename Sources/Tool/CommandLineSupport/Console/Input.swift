import RealtimeSystem

/// Text that a command reads from standard input or from a file.
package enum Input {
    /// Reads standard input to its end.
    ///
    /// - Parameter limit: The maximum number of bytes.
    /// - Returns: The text without a line break at its end, which commands such as `echo` add.
    /// - Throws: `ToolFailure` when it cannot be read, is too large or isn't UTF-8, and when the task is cancelled.
    package static func standard(limit: Int) async throws(ToolFailure) -> String {
        try await self.text(STDIN_FILENO, "standard input", limit: limit)
    }

    /// Reads a file to its end.
    ///
    /// - Parameters:
    ///   - path: The path of the file, which may be a pipe.
    ///   - limit: The maximum number of bytes.
    /// - Returns: The text without a line break at its end.
    /// - Throws: `ToolFailure` when the file cannot be read, is too large or isn't UTF-8, and when the task is cancelled.
    package static func file(_ path: String, limit: Int = 1 << 20) async throws(ToolFailure) -> String {
        // Opening a pipe for reading would block until it is opened for writing.
        let descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK)
        guard descriptor >= 0 else { throw self.failure("'\(path)'", errno) }
        defer { close(descriptor) }
        return try await self.text(descriptor, "'\(path)'", limit: limit)
    }

    private static func text(_ descriptor: Int32, _ name: String, limit: Int) async throws(ToolFailure) -> String {
        var bytes: [UInt8] = []
        var buffer = [UInt8](repeating: 0, count: 16 << 10)
        while true {
            // A blocking call couldn't be cancelled, and would occupy a thread of the executor.
            var ready = pollfd(fd: descriptor, events: Int16(POLLIN), revents: 0)
            if poll(&ready, 1, 0) == 0 {
                do { try await Task.sleep(for: .milliseconds(10)) } catch { throw ToolFailure("Reading \(name) was cancelled.") }
                continue
            }
            let count = read(descriptor, &buffer, buffer.count)
            if count == 0 { break }
            if count < 0 {
                if errno == EINTR || errno == EAGAIN { continue }
                throw self.failure(name, errno)
            }
            bytes += buffer[..<count]
            if bytes.count > limit { throw ToolFailure("Cannot read \(name): it has more than \(limit) bytes.") }
        }
        if bytes.last == UInt8(ascii: "\n") { bytes.removeLast() }
        if bytes.last == UInt8(ascii: "\r") { bytes.removeLast() }
        let text = String(decoding: bytes, as: UTF8.self)
        // Invalid bytes are replaced.
        guard text.utf8.elementsEqual(bytes) else { throw ToolFailure("Cannot read \(name): it isn't UTF-8.") }
        return text
    }

    private static func failure(_ name: String, _ code: Int32) -> ToolFailure {
        ToolFailure("Cannot read \(name): \(String(cString: strerror(code))).")
    }
}
