import Foundation
import RealtimeSockets
import SignalRHubs
import SignalRServer

nonisolated struct Receipt: Codable, Sendable {
    let name: String
    let size: Int
}

/// Uploads a file to a hub as a stream of parts, and prints the progress that the server reports. The server runs in the same process, on a
/// port. Without an argument, it uploads 100,000 bytes.
@main struct FileUpload {
    /// ASP.NET Core accepts messages of up to 32 KB by default.
    private nonisolated static let partSize = 16 * 1024

    static func main() async throws {
        let server = SignalRServer(log: .none)
        server.hub("/files").on("Upload") { (caller, name: String, parts: HubStream<Data>) async throws -> Receipt in
            var size = 0
            for try await part in parts {
                size += part.count
                try await caller.clients.caller.send("Progress", size)
            }
            return Receipt(name: name, size: size)
        }
        let address = try await server.start(on: SocketListener())

        var configuration = try HubConfiguration(url: "http://\(address.host):\(address.port)/files")
        // In MessagePack, data is transferred as it is. In JSON, it would be Base64.
        configuration.hubProtocol = .messagePack
        let client = HubClient(configuration)
        client.on("Progress") { (size: Int) in print("\(size) bytes have arrived") }
        try await client.start()

        let file = try Self.file()
        let receipt = try await client.invoke("Upload", file.lastPathComponent, HubUpload(try Self.parts(of: file)), as: Receipt.self)
        print("\(receipt.name): \(receipt.size) bytes")
        client.stop()
        await server.stop()
    }

    /// The parts of a file. Each is read when the connection can send it.
    private static func parts(of file: URL) throws -> AsyncThrowingStream<Data, any Error> {
        let handle = try FileHandle(forReadingFrom: file)
        return AsyncThrowingStream {
            guard let part = try handle.read(upToCount: Self.partSize), !part.isEmpty else { return nil }
            return part
        }
    }

    private static func file() throws -> URL {
        if let path = CommandLine.arguments.dropFirst().first { return URL(fileURLWithPath: path) }
        let file = FileManager.default.temporaryDirectory.appendingPathComponent("numbers.bin")
        try Data((0..<100_000).map { UInt8(truncatingIfNeeded: $0) }).write(to: file)
        return file
    }
}
