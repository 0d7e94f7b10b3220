import Foundation
import PrimusWire
import RealtimeCore
import RealtimeEncoding
import RealtimeSystem
import TestSupport

func text(_ message: TransportMessage) -> String { String(decoding: message.bytes, as: UTF8.self) }

func hex(_ bytes: [UInt8]) -> String { Hex.encode(bytes) }

extension PrimusFraming {
    /// The parts of a message, as lines.
    func lines(_ message: TransportMessage) -> [String] {
        var lines: [String] = []
        message.bytes.withUnsafeBytes { bytes in
            self.read(message.kind, bytes) { event in
                switch event {
                case .packet(.text, let packet): lines.append("packet \(String(decoding: packet, as: UTF8.self))")
                case .packet(_, let packet): lines.append("binary \(Hex.encode(Array(packet)))")
                case .opened(let handshake):
                    lines.append("opened \(handshake.map { "\($0.sid) \($0.pingInterval) \($0.pingTimeout)" } ?? "-")")
                case .ping(let text): lines.append("ping \(text)")
                case .pong(let text): lines.append("pong \(text)")
                case .closed(let code, let reason): lines.append("closed \(code.map { "\($0)" } ?? "-") \(reason)")
                case .invalid(let problem): lines.append("invalid \(problem)")
                case .fatal(let code, let reason): lines.append("fatal \(code) \(reason)")
                }
            }
        }
        return lines
    }

    func lines(_ text: String) -> [String] { self.lines(.text(text)) }
}

extension Vectors {
    /// The lines of a file.
    static func lines(_ name: String) -> [String] {
        let text = (try? String(contentsOfFile: Self.path(name), encoding: .utf8)) ?? ""
        return text.components(separatedBy: "\n")
    }
}

extension EngineIOPayload {
    /// Reads a body in pieces.
    static func decode(
        _ body: [UInt8], _ format: EngineIOPayloadFormat, limit: Int = 1 << 20, pieces: Int = .max
    ) -> (packets: [TransportMessage], error: EngineIOError?) {
        var reader = EngineIOPayloadReader(format == .separated ? .v4 : .v3, limit: limit)
        var batch = MessageBatch()
        do throws(EngineIOError) {
            var rest = body[...]
            while !rest.isEmpty {
                _ = try Array(rest.prefix(pieces)).withUnsafeBufferPointer { bytes throws(EngineIOError) in
                    try reader.read(UnsafeRawBufferPointer(bytes), into: &batch)
                }
                rest = rest.dropFirst(pieces)
            }
            try reader.finish(into: &batch)
            return (batch.messages, nil)
        } catch {
            return (batch.messages, error)
        }
    }
}
